// raw.steps when the disk says no.
#include "collector/spool/raw_file.h"

#include <csignal>

#include <sys/resource.h>

#include "gtest/gtest.h"

#include "collector/ingest/frame_reader.h"
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
