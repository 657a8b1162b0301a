#include "agent/cupti/decoder.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <random>
#include <string>

#include "tests/unit/agent_cupti/fake_iterator.h"
#include "tests/unit/agent_cupti/real_library.h"
#include "tests/unit/agent_cupti/recording_sink.h"

namespace stepagent::cupti {
namespace {

constexpr uint64_t kNow = 1'700'000'000'000'000'000;

class DecoderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(core::NameTable::Init()); }

  void UseVersion(const FakeVersion& version) {
    FakeIterator::Set(version);
    api_ = FakeIterator::Table();
    UseTable();
  }
  void UseTable() {
    layouts_.Calibrate(api_);
    decoder_ = std::make_unique<Decoder>();
    decoder_->Use(&api_, &layouts_, nullptr);
    decoder_->SetNow(kNow);
    sink_ = RecordingSink();
    writer_ = BufferWriter();
  }
  uint64_t Decode() { return decoder_->DecodeBuffer(writer_.data(), writer_.bytes(), &sink_); }
  BufferWriter& Record(uint32_t kind) { return writer_.Record(kind, layouts_.bytes(kind)); }
  BufferWriter& Kernel(uint64_t start, uint64_t end, const char* name = "kernel") {
    return Record(kKindConcurrentKernel)
        .Set<uint64_t>(16, start)
        .Set<uint64_t>(24, end)
        .Set<const char*>(104, name);
  }

  ApiTable api_;
  Layouts layouts_;
  std::unique_ptr<Decoder> decoder_;
  RecordingSink sink_;
  BufferWriter writer_;
};

void WriteKernel(BufferWriter* writer, uint32_t bytes, const char* name) {
  writer->Record(kKindConcurrentKernel, bytes)
      .Fill(0xA5)
      .Set<uint16_t>(6, 40)
      .Set<uint64_t>(16, kNow)
      .Set<uint64_t>(24, kNow + 1234)
      .Set<int32_t>(40, 1)
      .Set<uint32_t>(44, 2)
      .Set<uint32_t>(48, 7)
      .Set<uint32_t>(52, 10)
      .Set<uint32_t>(56, 20)
      .Set<uint32_t>(60, 30)
      .Set<uint32_t>(64, 128)
      .Set<uint32_t>(68, 2)
      .Set<uint32_t>(72, 1)
      .Set<uint32_t>(76, 1024)
      .Set<uint32_t>(80, 2048)
      .Set<uint32_t>(84, 16)
      .Set<uint32_t>(92, 0xFFFFFFFF)
      .Set<const char*>(104, name)
      .Set<uint64_t>(144, 0x500000003)
      .Set<uint32_t>(156, 5)
      .Set<uint32_t>(168, 3)
      .Set<uint32_t>(172, 1)
      .Set<uint32_t>(176, 2)
      .Set<uint32_t>(180, 1)
      .Set<uint32_t>(184, 1)
      .Set<uint8_t>(208, 0);
}

TEST_F(DecoderTest, KernelFieldsInEveryVersion) {
  for (const FakeVersion& version : kFakeVersions) {
    SCOPED_TRACE(version.name);
    UseVersion(version);
    WriteKernel(&writer_, version.kernel, "_Z5saxpyfPf");
    ASSERT_EQ(Decode(), 1U);
    const core::KernelActivity& kernel = sink_.kernels.at(0);
    EXPECT_EQ(kernel.start_ns, kNow);
    EXPECT_EQ(kernel.end_ns, kNow + 1234);
    EXPECT_EQ(kernel.lane.device, 1);
    EXPECT_EQ(kernel.lane.context, 2U);
    EXPECT_EQ(kernel.lane.stream, 7U);
    EXPECT_EQ(kernel.grid[2], 30U);
    EXPECT_EQ(kernel.block[0], 128U);
    EXPECT_EQ(kernel.registers_per_thread, 40U);
    EXPECT_EQ(kernel.static_shared_bytes, 1024U);
    EXPECT_EQ(kernel.dynamic_shared_bytes, 2048U);
    EXPECT_EQ(kernel.local_bytes_per_thread, 16U);
    EXPECT_EQ(kernel.correlation, 0xFFFFFFFFU);
    EXPECT_EQ(core::NameTable::Text(kernel.name), "_Z5saxpyfPf");
    EXPECT_EQ(kernel.flags, 0);
    EXPECT_EQ(kernel.graph_id, 5U);
    EXPECT_EQ(kernel.graph_node_id, 0x500000003U);
    EXPECT_EQ(kernel.lane.channel, version.kernel >= 176 ? 3U : 0U);
    EXPECT_EQ(kernel.cluster[0], version.kernel >= 200 ? 2U : 0U);
  }
}

TEST_F(DecoderTest, PaddingThatBecameAFieldIsGatedBySize) {
  // 80-byte copies have padding where the channel is later; 88-byte ones where the launched flag
  // is.
  for (const FakeVersion& version : kFakeVersions) {
    SCOPED_TRACE(version.name);
    UseVersion(version);
    Record(kKindMemcpy).Fill(0xFF).Set<uint64_t>(16, kNow).Set<uint64_t>(24, kNow + 1);
    Record(kKindMemset).Fill(0xFF).Set<uint64_t>(16, kNow).Set<uint64_t>(24, kNow + 1);
    ASSERT_EQ(Decode(), 2U);
    const core::MemcpyActivity& copy = sink_.memcpys.at(0);
    EXPECT_EQ(copy.lane.channel, version.memcpy >= 88 ? UINT32_MAX : 0);
    EXPECT_EQ((copy.flags & core::kDeviceLaunched) != 0, version.memcpy >= 96);
    EXPECT_EQ(copy.copy_count, version.memcpy >= 96 ? UINT64_MAX : 0);
    EXPECT_EQ(copy.lane.device, -1);
    EXPECT_EQ((sink_.memsets.at(0).flags & core::kDeviceLaunched) != 0, version.kernel >= 216);
  }
}

TEST_F(DecoderTest, CopiesSetsAndPeers) {
  UseVersion(kFakeVersions[4]);
  Record(kKindMemcpy)
      .Set<uint8_t>(4, 1)
      .Set<uint8_t>(5, 2)
      .Set<uint8_t>(6, 3)
      .Set<uint8_t>(7, 1)
      .Set<uint64_t>(8, 4096)
      .Set<uint64_t>(16, kNow)
      .Set<uint64_t>(24, kNow + 9)
      .Set<uint32_t>(44, 0)
      .Set<uint32_t>(48, 71);
  Record(kKindMemcpyPeer)
      .Set<uint8_t>(4, 10)
      .Set<uint64_t>(8, 99)
      .Set<uint64_t>(16, kNow)
      .Set<uint64_t>(24, kNow + 9)
      .Set<uint32_t>(32, 0)
      .Set<uint32_t>(44, 0)
      .Set<uint32_t>(52, 3)
      .Set<uint32_t>(60, 72)
      .Set<uint64_t>(72, 5)
      .Set<uint32_t>(80, 6)
      .Set<uint32_t>(84, 7);
  Record(kKindMemset)
      .Set<uint32_t>(4, 0xAB)
      .Set<uint64_t>(8, 64)
      .Set<uint64_t>(16, kNow)
      .Set<uint64_t>(24, kNow)
      .Set<uint32_t>(44, 73)
      .Set<uint16_t>(50, 3);
  ASSERT_EQ(Decode(), 3U);
  const core::MemcpyActivity& copy = sink_.memcpys.at(0);
  EXPECT_EQ(copy.copy_kind, 1);
  EXPECT_EQ(copy.source_kind, 2);
  EXPECT_EQ(copy.target_kind, 3);
  EXPECT_TRUE(copy.is_async);
  EXPECT_EQ(copy.bytes, 4096U);
  EXPECT_EQ(copy.correlation, 71U);  // the runtime's, where the driver's is missing
  EXPECT_EQ(copy.source_device, -1);
  const core::MemcpyActivity& peer = sink_.memcpys.at(1);
  EXPECT_EQ(peer.correlation, 72U);
  EXPECT_EQ(peer.source_device, 0);
  EXPECT_EQ(peer.target_device, 3);
  EXPECT_EQ(peer.graph_node_id, 5U);
  EXPECT_EQ(peer.graph_id, 6U);
  EXPECT_EQ(peer.lane.channel, 7U);
  EXPECT_EQ(sink_.memsets.at(0).value, 0xABU);
  EXPECT_EQ(sink_.memsets.at(0).memory_kind, 3);
  EXPECT_EQ(sink_.memsets.at(0).correlation, 73U);
}

TEST_F(DecoderTest, WaitsOverheadGraphsMemoryAndInventory) {
  UseVersion(kFakeVersions[4]);
  Record(kKindSync)
      .Set<uint32_t>(4, 4)
      .Set<uint64_t>(8, kNow)
      .Set<uint64_t>(16, kNow + 5)
      .Set<uint32_t>(24, 11)
      .Set<uint32_t>(28, 1)
      .Set<uint32_t>(32, 0xFFFFFFFF);
  Record(kKindOverhead)
      .Set<uint32_t>(4, 1U << 16)
      .Set<uint32_t>(8, 2)
      .Set<uint32_t>(12, 100)
      .Set<uint32_t>(16, 101)
      .Set<uint64_t>(24, kNow)
      .Set<uint64_t>(32, kNow + 5);
  Record(kKindGraphTrace)
      .Set<uint32_t>(4, 12)
      .Set<uint64_t>(8, kNow)
      .Set<uint64_t>(16, kNow + 5)
      .Set<uint32_t>(24, 1)
      .Set<uint32_t>(28, 8)
      .Set<uint32_t>(32, 2)
      .Set<uint32_t>(36, 13);
  Record(kKindMemory2)
      .Set<uint32_t>(4, 1)
      .Set<uint32_t>(8, 3)
      .Set<uint32_t>(12, 14)
      .Set<uint64_t>(16, 0x7F00)
      .Set<uint64_t>(24, 512)
      .Set<uint64_t>(32, kNow)
      .Set<uint32_t>(52, 1);
  Record(kKindContext).Set<uint32_t>(4, 1).Set<uint32_t>(8, 0).Set<uint16_t>(14, 7);
  Record(kKindStream).Set<uint32_t>(4, 1).Set<uint32_t>(8, 13).Set<int32_t>(12, -5);
  Record(kKindDevice)
      .Set<uint64_t>(16, 1000)
      .Set<uint32_t>(32, 32)
      .Set<uint32_t>(44, 132)
      .Set<uint32_t>(52, 64)
      .Set<uint32_t>(104, 9)
      .Set<uint8_t>(144, 1)
      .Set<const char*>(136, "GPU");
  Record(kKindDevice).Set<uint32_t>(112, 1);  // hidden by CUDA_VISIBLE_DEVICES
  ASSERT_EQ(Decode(), 7U);
  EXPECT_EQ(sink_.syncs.at(0).type, 4U);
  EXPECT_EQ(sink_.syncs.at(0).stream, UINT64_MAX);
  EXPECT_EQ(sink_.syncs.at(0).correlation, 11U);
  EXPECT_EQ(sink_.overheads.at(0).tid, 101U);
  EXPECT_EQ(sink_.graphs.at(0).graph_id, 8U);
  EXPECT_EQ(sink_.graphs.at(0).correlation, 12U);
  EXPECT_EQ(sink_.graphs.at(0).lane.stream, 13U);
  EXPECT_EQ(sink_.memories.at(0).bytes, 512U);
  EXPECT_EQ(sink_.memories.at(0).device, 1);
  EXPECT_EQ(sink_.contexts.at(0).null_stream, 7U);
  EXPECT_EQ(sink_.streams.at(0).priority, -5);
  ASSERT_EQ(sink_.devices.size(), 1U);
  EXPECT_EQ(sink_.device_names.at(0), "GPU");
  EXPECT_EQ(sink_.devices.at(0).max_threads_per_multiprocessor, 2048U);
  EXPECT_EQ(sink_.devices.at(0).compute_major, 9U);
}

TEST_F(DecoderTest, ImpossibleStampsAreFlagged) {
  UseVersion(kFakeVersions[4]);
  Kernel(0, 0);
  Kernel(0, kNow);
  Kernel(kNow, 0);
  Kernel(kNow, kNow - 1);
  Kernel(kNow + 100'000'000'000'000, kNow + 100'000'000'000'100);  // another clock
  Kernel(kNow, 4'102'444'800'000'000'000);                         // ends in the year 2100
  Kernel(kNow, kNow);
  Record(kKindSync).Set<uint64_t>(8, kNow).Set<uint64_t>(16, kNow - 1);
  Record(kKindSync).Set<uint64_t>(8, 0).Set<uint64_t>(16, kNow);  // began before anybody listened
  Record(kKindOverhead).Set<uint64_t>(24, 0);
  ASSERT_EQ(Decode(), 9U);
  const uint8_t expected[] = {core::kDeviceNoTiming,
                              core::kDeviceNoTiming,
                              core::kDeviceUnfinished,
                              core::kDeviceReversed,
                              core::kDeviceNoTiming,
                              core::kDeviceNoTiming,
                              0};
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(sink_.kernels.at(i).flags, expected[i]) << i;
  }
  // A wait is detail beside its call, which is what is counted: told, not thrown away.
  ASSERT_EQ(sink_.syncs.size(), 2U);
  EXPECT_EQ(sink_.syncs[0].flags, core::kDeviceReversed);
  EXPECT_EQ(sink_.syncs[1].flags, core::kDeviceNoTiming);
  EXPECT_EQ(sink_.invalid, std::vector<uint32_t>{kActivityOverhead});
  EXPECT_EQ(decoder_->counts().invalid, 1U);
}

TEST_F(DecoderTest, OddNames) {
  UseVersion(kFakeVersions[4]);
  const std::string long_name(20000, 'k');
  const char binary[] = "\xFF\xFEkernel\x80";
  Kernel(kNow, kNow + 1, nullptr);
  Kernel(kNow, kNow + 1, "");
  Kernel(kNow, kNow + 1, binary);
  Kernel(kNow, kNow + 1, long_name.c_str());
  Kernel(kNow, kNow + 1, long_name.c_str());
  ASSERT_EQ(Decode(), 5U);
  EXPECT_EQ(sink_.kernels[0].flags, core::kDeviceNullName);
  EXPECT_EQ(sink_.kernels[0].name, 0U);
  EXPECT_EQ(core::NameTable::Text(sink_.kernels[2].name), binary);
  EXPECT_LE(core::NameTable::Text(sink_.kernels[3].name).size(), 4200U);
  EXPECT_EQ(sink_.kernels[3].name, sink_.kernels[4].name);
}

TEST_F(DecoderTest, UnknownKindEndsTheBufferAndIsCounted) {
  for (const FakeVersion& version : kFakeVersions) {
    UseVersion(version);
    Kernel(kNow, kNow + 1);
    writer_.Record(9999, 64);
    Kernel(kNow, kNow + 1);
    EXPECT_EQ(Decode(), 1U);
    EXPECT_EQ(sink_.invalid, std::vector<uint32_t>{kActivityNone});
  }
}

TEST_F(DecoderTest, KindsOfOthersAreLeftAlone) {
  UseVersion(kFakeVersions[4]);
  Record(kKindRuntime);
  writer_.Record(52, FakeIterator::size(52));
  Kernel(kNow, kNow + 1);
  EXPECT_EQ(Decode(), 1U);
  EXPECT_TRUE(sink_.invalid.empty());
  EXPECT_EQ(decoder_->counts().other_kinds, 2U);
  EXPECT_EQ(decoder_->counts().other_by_kind[kKindRuntime], 1U);
  EXPECT_EQ(decoder_->counts().other_by_kind[52], 1U);
  EXPECT_EQ(decoder_->counts().odd_lengths, 0U);
}

// The iterator that walks is not the one that was measured: told, and nothing else happens.
TEST_F(DecoderTest, RecordsOfAnotherLengthThanMeasuredAreCounted) {
  UseVersion(kFakeVersions[4]);
  const uint32_t grown = FakeIterator::size(kKindConcurrentKernel) + 8;
  FakeIterator::SetSize(kKindConcurrentKernel, grown);
  for (int i = 0; i < 3; ++i) WriteKernel(&writer_, grown, "k");
  EXPECT_EQ(Decode(), 3U);
  EXPECT_EQ(decoder_->counts().odd_lengths, 2U);
}

TEST_F(DecoderTest, RecordsTooShortForTheFamilyAreCounted) {
  UseVersion(kFakeVersions[4]);
  FakeIterator::SetSize(kKindConcurrentKernel, 128);
  UseTable();
  writer_.Record(kKindConcurrentKernel, 128);
  Record(kKindMemset).Set<uint64_t>(16, kNow).Set<uint64_t>(24, kNow + 1);
  EXPECT_EQ(Decode(), 1U);
  EXPECT_EQ(sink_.invalid, std::vector<uint32_t>{kActivityKernel});
}

TEST_F(DecoderTest, EmptyAndCutBuffers) {
  UseVersion(kFakeVersions[4]);
  Kernel(kNow, kNow + 1);
  for (size_t bytes = 0; bytes < layouts_.bytes(kKindConcurrentKernel); ++bytes) {
    EXPECT_EQ(decoder_->DecodeBuffer(writer_.data(), bytes, &sink_), 0U) << bytes;
  }
}

// Random kinds and fields behind them: nothing outside the buffer is read (run under asan).
TEST_F(DecoderTest, RandomContentsAreSurvived) {
  std::mt19937_64 random(20260101);
  for (const FakeVersion& version : kFakeVersions) {
    UseVersion(version);
    for (int round = 0; round < 300; ++round) {
      std::vector<uint64_t> words(1 + random() % 128);
      for (uint64_t& word : words) word = random();
      auto* data = reinterpret_cast<uint8_t*>(words.data());
      // Kinds that hold no pointer; a wild name pointer cannot be told from a good one.
      constexpr uint32_t kKindsWithoutPointers[] = {
          kKindMemcpy,     kKindMemset,  kKindMemcpyPeer, kKindSync,    kKindOverhead,
          kKindGraphTrace, kKindContext, kKindStream,     kKindMemory2, kKindRuntime};
      size_t at = 0;
      while (at + 4 <= words.size() * 8) {
        const uint32_t kind = kKindsWithoutPointers[random() % 10];
        std::memcpy(data + at, &kind, sizeof(kind));
        const uint32_t bytes = layouts_.bytes(kind);
        if (bytes == 0) break;
        at += bytes;
      }
      const size_t valid = random() % (words.size() * 8 + 1);
      (void)decoder_->DecodeBuffer(data, valid, &sink_);
    }
  }
}

// The same synthetic buffer through the real iterator gives the same as through ours.
TEST_F(DecoderTest, RealIteratorsAgree) {
  if (RealLibraries().empty()) GTEST_SKIP() << "no libcupti is installed here";
  for (const auto& [version, api] : RealLibraries()) {
    SCOPED_TRACE(version);
    api_ = api;
    UseTable();
    WriteKernel(&writer_, layouts_.bytes(kKindConcurrentKernel), "_Z4gemmv");
    Record(kKindMemcpy).Set<uint64_t>(8, 77).Set<uint64_t>(16, kNow).Set<uint64_t>(24, kNow + 1);
    Record(kKindMemcpyPeer)
        .Set<uint64_t>(8, 78)
        .Set<uint64_t>(16, kNow)
        .Set<uint64_t>(24, kNow + 1);
    Record(kKindMemset).Set<uint64_t>(8, 79).Set<uint64_t>(16, kNow).Set<uint64_t>(24, kNow + 1);
    Record(kKindSync).Set<uint64_t>(8, kNow).Set<uint64_t>(16, kNow + 1);
    Record(kKindOverhead).Set<uint64_t>(24, kNow).Set<uint64_t>(32, kNow + 1);
    Record(kKindContext).Set<uint32_t>(4, 1);
    Record(kKindStream).Set<uint32_t>(8, 13);
    Record(kKindMemory2).Set<uint64_t>(24, 80);
    WriteKernel(&writer_, layouts_.bytes(kKindConcurrentKernel), "_Z4gemmv");
    EXPECT_EQ(Decode(), 10U);
    EXPECT_EQ(sink_.kernels.size(), 2U);
    EXPECT_EQ(sink_.kernels.at(1).grid[0], 10U);
    EXPECT_EQ(sink_.memcpys.at(1).bytes, 78U);
    EXPECT_EQ(sink_.memories.at(0).bytes, 80U);
    EXPECT_TRUE(sink_.invalid.empty());
    writer_.Record(9999, 64);
    sink_ = RecordingSink();
    EXPECT_EQ(Decode(), 10U);
    EXPECT_EQ(sink_.invalid, std::vector<uint32_t>{kActivityNone});
  }
}

}  // namespace
}  // namespace stepagent::cupti
