// raw.steps with wrong bytes: read to the last whole frame, never worse; and a collector that goes
// on behind it leaves a file in which its own frame is whole.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"
#include "tests/fuzz/readers/mutate.h"
#include "tests/support/batch_factory.h"

namespace {

using namespace stepagent;  // NOLINT: one file, no header

void Check(bool holds) {
  if (!holds) std::abort();
}

// A writer follows no links, so a file in memory will not do. One for the process's life.
class ScratchFile {
 public:
  ScratchFile() : fd_(mkstemp(path_)) { Check(fd_ >= 0); }
  ~ScratchFile() { unlink(path_); }
  void Hold(const std::string& content) const {
    Check(ftruncate(fd_, 0) == 0 &&
          pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  }
  [[nodiscard]] const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/stepagent-fuzz-XXXXXX";
  int fd_;
};

struct Read {
  uint64_t frames = 0, whole_bytes = 0;
};

Read ReadFrames(const char* path) {
  spool::RawReader reader;
  spool::RawFrame frame;
  Check(reader.Open(path).empty());
  Read read;
  while (reader.Next(&frame)) ++read.frames;
  read.whole_bytes = reader.whole_bytes();
  return read;
}

void GoOnBehind(const char* path) {
  const Read before = ReadFrames(path);
  const std::string payload = "not a batch";
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(proto::FrameType::kBatch);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  spool::RawWriter writer;
  bool is_live = false;
  Check(!spool::IsLive(path));
  Check(writer.Resume(path, &is_live).empty() && !is_live);
  Check(spool::IsLive(path));
  writer.CutAt(before.whole_bytes);
  Check(writer.Append(header, payload.data()).empty());
  writer.Close();
  const Read after = ReadFrames(path);
  Check(after.frames == before.frames + 1 && after.whole_bytes > before.whole_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t bytes) {
  static const std::string valid = [] {
    google::protobuf::SetLogHandler(nullptr);  // bad UTF-8 is what this is about
    test::BatchFactory agent;
    std::string stream = agent.HelloFrame();
    agent.WholeCycle(0, 0, 2, 1'000'000, 500'000);
    return stream +
           test::MakeFrame(proto::FrameType::kBatch, agent.Take(9'000'000).SerializeAsString());
  }();
  static const ScratchFile file;
  file.Hold(fuzz::Reading(valid, input, bytes));
  spool::RawReport report;
  uint64_t cycles = 0;
  const std::string error = spool::ReadCycles(
      file.path(), [&](const model::Cycle&) { ++cycles; }, &report);
  Check(error.empty() || cycles == 0);
  GoOnBehind(file.path());
  return 0;
}
