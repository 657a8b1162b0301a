// raw.steps with wrong bytes: read to the last whole frame, never worse; and a collector that goes
// on behind it leaves a file in which its own frame is whole.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
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
  explicit ScratchFile(const std::string& path)
      : path_(path), fd_(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    Check(fd_ >= 0);
  }
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  void Hold(std::string_view content) const {
    Check(ftruncate(fd_, 0) == 0 &&
          pwrite(fd_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  }
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  const std::string path_;
  int fd_;
};

// A session's folder, as far as a raw file's reader looks at it.
class ScratchFolder {
 public:
  ScratchFolder() { Check(mkdtemp(path_) != nullptr); }
  ~ScratchFolder() { rmdir(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_; }

 private:
  char path_[32] = "/tmp/stepagent-fuzz-XXXXXX";
};

// After a first byte of 0xFE and a length of two bytes: session.json, and then the raw file as it
// is. Returns session.json and leaves the raw file's bytes.
std::string_view TakeSession(const uint8_t** input, size_t* bytes) {
  constexpr uint8_t kWithSession = 0xFE;
  constexpr size_t kHead = 3;
  if (*bytes < kHead || **input != kWithSession) return {};
  const size_t length = std::min(size_t{(*input)[1]} << 8 | (*input)[2], *bytes - kHead);
  const std::string_view json(reinterpret_cast<const char*>(*input) + kHead, length);
  *input += kHead + length;
  *bytes -= kHead + length;
  return json;
}

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
  static const ScratchFolder folder;
  static const ScratchFile file(folder.path() + "/raw.steps"),
      session(folder.path() + "/session.json");
  const uint8_t* const begin = input;
  session.Hold(TakeSession(&input, &bytes));
  const std::string as_it_is(reinterpret_cast<const char*>(input), bytes);
  file.Hold(input != begin ? as_it_is : fuzz::Reading(valid, input, bytes));
  spool::RawReport report;
  uint64_t cycles = 0;
  const std::string error = spool::ReadCycles(
      file.path(), [&](const model::Cycle&) { ++cycles; }, &report);
  Check(error.empty() || cycles == 0);
  GoOnBehind(file.path());
  return 0;
}
