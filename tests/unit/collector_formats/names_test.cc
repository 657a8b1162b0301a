// Names that formats share, and the bytes of protobuf.
#include "collector/writers/perfetto_proto.h"
#include "collector/writers/work_names.h"
#include "gtest/gtest.h"

namespace stepagent::writers {
namespace {

TEST(ShortKernelName, KeepsTheLastWordOfTheFunction) {
  EXPECT_EQ(ShortKernelName("void gemm<float, 128>(float const*, float*)"), "gemm");
  EXPECT_EQ(ShortKernelName("void at::native::(anonymous namespace)::cat_kernel<int>(int)"),
            "cat_kernel");
  EXPECT_EQ(ShortKernelName("ncclDevKernel_AllReduce(ncclArgs<4096ul>)"),
            "ncclDevKernel_AllReduce");
  EXPECT_EQ(ShortKernelName("plain_name"), "plain_name");
}

TEST(ShortKernelName, LeavesWhatItCannotRead) {
  EXPECT_EQ(ShortKernelName("a::operator<<(int)"), "a::operator<<(int)");
  EXPECT_EQ(ShortKernelName(""), "");
  EXPECT_EQ(ShortKernelName("<<<"), "<<<");
}

TEST(ProtoBuffer, NestedMessagesAreAsShortAsTheyCanBe) {
  ProtoBuffer buffer;
  const size_t outer = buffer.Begin(1);
  buffer.Uint(2, 300);
  buffer.End(outer);
  EXPECT_EQ(buffer.view(), std::string_view("\x0a\x03\x10\xac\x02", 5));
}

TEST(ProtoBuffer, LengthsGrowPastOneByte) {
  for (const size_t size : {0, 1, 125, 126, 127, 128, 16383, 16384, 300'000}) {
    ProtoBuffer buffer;
    const size_t outer = buffer.Begin(1);
    buffer.Raw(std::string(size, 'x'));
    buffer.End(outer);
    const size_t head = size < 128 ? 2 : size < 16384 ? 3 : 4;
    ASSERT_EQ(buffer.size(), head + size) << size;
    EXPECT_EQ(buffer.view().substr(head), std::string(size, 'x')) << size;
  }
}

TEST(ProtoBuffer, NumbersOfAllLengths) {
  ProtoBuffer buffer;
  buffer.Int(1, -1);
  EXPECT_EQ(buffer.size(), 11U);
  buffer.Clear();
  buffer.Uint(3000, 1);
  EXPECT_EQ(buffer.view(), std::string_view("\xc0\xbb\x01\x01", 4));
  buffer.Clear();
  buffer.Double(5, 1.0);
  EXPECT_EQ(buffer.view(), std::string_view("\x29\0\0\0\0\0\0\xf0\x3f", 9));
}

}  // namespace
}  // namespace stepagent::writers
