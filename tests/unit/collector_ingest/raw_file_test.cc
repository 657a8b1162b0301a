// raw.steps when the disk says no.
#include "collector/spool/raw_file.h"

#include <csignal>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "collector/ingest/frame_reader.h"
#include "collector/spool/recover.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent::spool {
namespace {

RawFrame FrameOf(const std::string& payload) {
  const std::string bytes = test::MakeFrame(proto::FrameType::kBatch, payload);
  ingest::FrameReader reader;
  reader.Feed(bytes.data(), bytes.size());
  RawFrame frame;
  EXPECT_EQ(reader.Next(&frame), ingest::FrameReader::Result::kFrame);
  return frame;
}

std::string AppendTo(RawWriter* writer, const RawFrame& frame) {
  return writer->Append(frame.header, frame.payload.data());
}

std::vector<std::string> PayloadsIn(const std::string& path, uint64_t* cut_bytes) {
  RawReader reader;
  EXPECT_EQ(reader.Open(path), "");
  std::vector<std::string> payloads;
  RawFrame frame;
  while (reader.Next(&frame)) payloads.push_back(frame.payload);
  *cut_bytes = reader.cut_bytes();
  return payloads;
}

// A file size limit stands in for the full disk: the write is cut short, then refused.
TEST(RawFile, AFailedAppendLeavesTheLastWholeFrameAndIsSurvived) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  RawWriter writer;
  ASSERT_EQ(writer.Create(path), "");
  ASSERT_EQ(AppendTo(&writer, FrameOf("first")), "");

  auto* old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{writer.bytes() + 100, old_limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = AppendTo(&writer, FrameOf(std::string(5000, 'x')));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_NE(error.find(path), std::string::npos);
  EXPECT_NE(error.find("File too large"), std::string::npos);
  ASSERT_EQ(AppendTo(&writer, FrameOf("third")), "");
  uint64_t cut = 0;
  EXPECT_EQ(PayloadsIn(path, &cut), (std::vector<std::string>{"first", "third"}));
  EXPECT_EQ(cut, 0U);
}

TEST(RawFile, ADamagedFrameIsSkippedAndTheRestRead) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  std::string bytes = test::MakeFrame(proto::FrameType::kBatch, "first");
  const size_t inside = bytes.size() + proto::kFrameHeaderBytes;
  bytes += test::MakeFrame(proto::FrameType::kBatch, "second");
  bytes += test::MakeFrame(proto::FrameType::kBatch, "third");
  bytes[inside] = '?';
  test::WriteFile(path, bytes);
  uint64_t cut = 0;
  EXPECT_EQ(PayloadsIn(path, &cut), (std::vector<std::string>{"first", "third"}));
  EXPECT_EQ(cut, 0U);
}

// The length is part of what may be damaged: nothing then says where the next frame begins.
TEST(RawFile, ADamagedHeaderCostsItsFrameAlone) {
  const std::string first = test::MakeFrame(proto::FrameType::kBatch, "first");
  const std::string second = test::MakeFrame(proto::FrameType::kBatch, std::string(100, 'b'));
  const std::string third = test::MakeFrame(proto::FrameType::kBatch, "third");
  for (size_t at = 0; at < 16; ++at) {
    if (at >= 4 && at < 8 && at != 5) continue;  // type and flags are under no checksum
    test::TemporaryFolder folder;
    const std::string path = folder.path() + "/raw.steps";
    std::string bytes = first + second + third;
    char& damaged = bytes[first.size() + at];
    damaged = static_cast<char>(damaged ^ 0x21);
    test::WriteFile(path, bytes);
    RawReader reader;
    ASSERT_EQ(reader.Open(path), "");
    RawFrame frame;
    std::vector<std::string> payloads;
    while (reader.Next(&frame)) payloads.push_back(frame.payload);
    EXPECT_EQ(payloads, (std::vector<std::string>{"first", "third"})) << at;
    EXPECT_EQ(reader.damaged_frames(), 1U);
    EXPECT_EQ(reader.damaged_bytes(), second.size());
    EXPECT_EQ(reader.cut_bytes(), 0U);
  }
}

// Garbage between two frames, longer than what is read at once, with magics that begin nothing.
TEST(RawFile, GarbageOfAnyLengthIsPassedOver) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  std::string garbage;
  while (garbage.size() < (2U << 20) + 7) garbage += "xySAF1" + std::string(1, '\0');
  test::WriteFile(path, test::MakeFrame(proto::FrameType::kBatch, "first") + garbage +
                            test::MakeFrame(proto::FrameType::kBatch, "second") + "SAF1");
  uint64_t cut = 0;
  EXPECT_EQ(PayloadsIn(path, &cut), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(cut, 4U);
}

// What came before is given either way.
TEST(RawFile, ALaterHelloThatCannotBeReadIsPassedOver) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  test::BatchFactory agent;
  std::string bytes = agent.HelloFrame();
  agent.WholeCycle(0, 0, 2, 1'000'000, 1);
  bytes += test::MakeFrame(proto::FrameType::kBatch, agent.Take(9'000'000).SerializeAsString());
  bytes += test::MakeFrame(proto::FrameType::kHello, "\xff\xff");
  agent.WholeCycle(1, 4, 2, 20'000'000, 100);
  bytes += test::MakeFrame(proto::FrameType::kBatch, agent.Take(29'000'000).SerializeAsString());
  std::ofstream(path, std::ios::binary) << bytes;
  RawReport report;
  std::vector<uint32_t> cycles;
  const auto keep = [&](const model::Cycle& cycle) { cycles.push_back(cycle.index); };
  EXPECT_EQ(ReadCycles(path, keep, &report), "");
  EXPECT_EQ(cycles, (std::vector<uint32_t>{0, 1}));
}

TEST(RawFile, LinksAreNotFollowedAndTheLockIsSeen) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/raw.steps";
  ASSERT_EQ(symlink((folder.path() + "/target").c_str(), path.c_str()), 0);
  RawWriter writer;
  EXPECT_NE(writer.Create(path), "");
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_FALSE(IsLive(path));
  ASSERT_EQ(writer.Create(path), "");
  EXPECT_TRUE(IsLive(path));
  bool is_live = false;
  RawWriter second;
  EXPECT_NE(second.Resume(path, &is_live), "");
  EXPECT_TRUE(is_live);
  writer.Close();
  EXPECT_FALSE(IsLive(path));
}

}  // namespace
}  // namespace stepagent::spool
