// raw.steps with damage at its head, and with bytes made to cost its reader much.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "collector/spool/range_crc.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent::spool {
namespace {

// Every place that looks like a frame's begin claims a payload. Read for each of them, a file of
// some megabytes would cost terabytes; what counts is the bytes read, however long they take.
uint64_t BytesReadOf(const std::string& path, size_t* frames) {
  RawReader reader;
  EXPECT_EQ(reader.Open(path), "");
  RawFrame frame;
  *frames = 0;
  while (reader.Next(&frame)) ++*frames;
  return reader.bytes_read();
}

std::string HeaderClaiming(uint32_t payload_bytes) {
  std::string frame = test::MakeFrame(proto::FrameType::kBatch, "x");
  std::memcpy(frame.data() + 8, &payload_bytes, sizeof payload_bytes);
  frame.resize(proto::kFrameHeaderBytes);
  return frame;
}

TEST(RawDamage, FalseBeginsThatClaimMuchCostTheFileAFewTimes) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  const std::string last = test::MakeFrame(proto::FrameType::kBatch, "last");
  std::string bytes = test::MakeFrame(proto::FrameType::kBatch, "first");
  constexpr size_t kBytes = 4U << 20;
  while (bytes.size() < kBytes) {
    bytes += HeaderClaiming(static_cast<uint32_t>(kBytes - bytes.size() - 40));
  }
  bytes += last;
  test::WriteFile(path, bytes);
  size_t frames = 0;
  // 256 bytes at most beside a header of 24, and the file itself.
  EXPECT_LT(BytesReadOf(path, &frames), 16 * bytes.size());
  EXPECT_EQ(frames, 2U);
}

// Between whole frames, so that each search ends at once and the next begins.
TEST(RawDamage, FalseBeginsBetweenWholeFramesCostNoMore) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  const std::string whole = test::MakeFrame(proto::FrameType::kBatch, "ab");
  for (const bool is_behind_the_end : {false, true}) {
    std::string bytes;
    size_t pairs = 0;
    for (; bytes.size() < (2U << 20); ++pairs) {
      bytes += whole + HeaderClaiming(is_behind_the_end ? 15U << 20 : 1U << 20);
    }
    bytes += whole;
    test::WriteFile(path, bytes);
    size_t frames = 0;
    EXPECT_LT(BytesReadOf(path, &frames), 16 * bytes.size());
    EXPECT_EQ(frames, pairs + 1);
  }
}

// The checksum of a stretch from those around it is that of its bytes.
TEST(RawDamage, TheChecksumOfAnyStretchIsThatOfItsBytes) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/bytes";
  std::string bytes;
  for (uint32_t i = 0; i < 200'000; ++i) bytes += static_cast<char>(i * 2654435761U >> 24);
  test::WriteFile(path, bytes);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  RangeCrc crc;
  const std::pair<uint64_t, uint64_t> stretches[] = {
      {1000, 1000},   {1000, 1001}, {1010, 1300},     {1256, 199'999},
      {1255, 66'791}, {1300, 1301}, {70'000, 70'512}, {150'000, 200'000},
      {5, 6},         {0, 200'000}, {1, 199'744}};
  for (const auto& [begin, end] : stretches) {
    EXPECT_EQ(crc.Of(fd, begin, end), proto::Crc32c(bytes.data() + begin, end - begin))
        << begin << " " << end;
  }
  EXPECT_EQ(crc.Of(fd, 10, 200'001), std::nullopt);
  close(fd);
}

struct Read {
  std::string error, problems;
  std::vector<model::Cycle> cycles;
};

Read ReadAll(const std::string& path) {
  Read read;
  RawReport report;
  read.error = ReadCycles(
      path, [&](model::Cycle cycle) { read.cycles.push_back(std::move(cycle)); }, &report);
  for (const std::string& line : ProblemsOf(report, path)) read.problems += line + "\n";
  return read;
}

// A Hello, then two cycles; optionally a second Hello between them.
std::string TwoCycles(test::BatchFactory* agent, bool has_second_hello) {
  std::string bytes = agent->HelloFrame();
  agent->WholeCycle(0, 0, 2, 1'000'000, 1);
  bytes += test::MakeFrame(proto::FrameType::kBatch, agent->Take(9'000'000).SerializeAsString());
  if (has_second_hello) bytes += agent->HelloFrame();
  agent->WholeCycle(1, 4, 2, 20'000'000, 100);
  return bytes +
         test::MakeFrame(proto::FrameType::kBatch, agent->Take(29'000'000).SerializeAsString());
}

TEST(DamagedHello, AFlipInItsHeaderLosesNothing) {
  for (size_t at = 0; at < proto::kFrameHeaderBytes; ++at) {
    const bool is_checksum = at >= 12 && at < 16, is_told = at < 6 || (at >= 8 && at < 12);
    if (is_checksum) continue;
    test::TemporaryFolder folder;
    const std::string path = folder.path() + "/raw.steps";
    test::BatchFactory agent;
    std::string bytes = TwoCycles(&agent, false);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x05);
    test::WriteFile(path, bytes);
    const Read read = ReadAll(path);
    EXPECT_EQ(read.error, "") << at;
    ASSERT_EQ(read.cycles.size(), 2U) << at;
    EXPECT_EQ(read.cycles[0].session.exe, "train") << at;
    EXPECT_TRUE(read.cycles[0].complete) << at;
    const std::string said = is_told ? path +
                                           ": the header of its first frame is damaged; the "
                                           "session's Hello in it is whole and was read\n"
                                     : "";  // flags and sequence mean nothing to a reader
    EXPECT_EQ(read.problems, said) << at;
  }
}

TEST(DamagedHello, ALaterOneStandsForIt) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  test::BatchFactory agent;
  std::string bytes = TwoCycles(&agent, true);
  bytes[proto::kFrameHeaderBytes + 3] ^= 0x40;
  test::WriteFile(path, bytes);
  const Read read = ReadAll(path);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.cycles.size(), 2U);
  EXPECT_EQ(read.cycles[0].session.exe, "train");
  EXPECT_NE(read.problems.find("who and which settings are as its Hello at byte"),
            std::string::npos)
      << read.problems;
  EXPECT_NE(read.problems.find("damaged in 1 place: "), std::string::npos) << read.problems;
}

// Alone the file knows no program and no schedule; the cycles and their times are there.
TEST(DamagedHello, WithoutOneTheBatchesSayWhoseTheyAre) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  test::BatchFactory agent;
  const std::string whole = TwoCycles(&agent, false);
  test::WriteFile(path, whole);
  const Read before = ReadAll(path);
  std::string bytes = whole;
  bytes[proto::kFrameHeaderBytes + 3] ^= 0x40;
  test::WriteFile(path, bytes);
  const Read read = ReadAll(path);
  EXPECT_EQ(read.error, "");
  ASSERT_EQ(read.cycles.size(), 2U);
  EXPECT_EQ(read.cycles[0].session.id, "00112233aabbccdd");
  EXPECT_EQ(read.cycles[0].session.host, "node1");
  EXPECT_EQ(read.cycles[0].session.exe, "");
  EXPECT_NE(read.problems.find("the program, its process, settings, schedule and labels are not "
                               "known"),
            std::string::npos)
      << read.problems;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(read.cycles[i].kernels.size(), before.cycles[i].kernels.size());
    EXPECT_EQ(read.cycles[i].kernels[0].begin_ns, before.cycles[i].kernels[0].begin_ns);
    EXPECT_EQ(read.cycles[i].window_end_ns, before.cycles[i].window_end_ns);
  }
}

// A type is under no checksum: what is whole and nothing of this session's is passed over, and
// said.
TEST(DamagedHello, FramesWithAWrongTypeAreCounted) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  test::BatchFactory agent;
  std::string bytes = agent.HelloFrame();
  const size_t second = bytes.size();
  agent.WholeCycle(0, 0, 2, 1'000'000, 1);
  bytes += test::MakeFrame(proto::FrameType::kBatch, agent.Take(9'000'000).SerializeAsString());
  for (const char type : {'\1', '\2', '\7', '\100'}) {
    bytes[second + 4] = type;
    test::WriteFile(path, bytes);
    const Read read = ReadAll(path);
    EXPECT_EQ(read.error, "");
    EXPECT_NE(read.problems.find("1 frame passed over"), std::string::npos) << read.problems;
  }
}

}  // namespace
}  // namespace stepagent::spool
