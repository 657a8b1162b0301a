#pragma once
// raw.steps: the frames of one session, exactly as received.
//
// Purpose: the truth everything else is derived from. Hello first, then batches, then Goodbye.
// Thread rule: one owner per object. A live writer holds an exclusive flock on the file.
// Failure rule: a failed append leaves the file at its last whole frame. The reader passes over what
// is damaged, header or payload, to the next whole frame and counts it; it stops at the last whole
// frame and says how many bytes follow it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/spool/range_crc.h"
#include "proto/frame.h"

namespace stepagent::spool {

class RawWriter {
 public:
  RawWriter() = default;
  ~RawWriter();
  RawWriter(const RawWriter&) = delete;
  RawWriter& operator=(const RawWriter&) = delete;

  // A file that must not exist yet.
  [[nodiscard]] std::string Create(const std::string& path);
  // An existing one, to go on with at `whole_bytes`; what follows them is cut. *is_live: another
  // process holds it.
  [[nodiscard]] std::string Resume(const std::string& path, bool* is_live);
  void CutAt(uint64_t whole_bytes);
  // Header and payload in one call.
  [[nodiscard]] std::string Append(const proto::FrameHeader& header, const void* payload);
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void Close();

 private:
  [[nodiscard]] bool Lock();

  std::string path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;    // end of the last whole frame
  bool is_torn_ = false;  // bytes of a failed append could not be cut off yet
};

struct RawFrame {
  proto::FrameHeader header;
  std::string payload;
};

class RawReader {
 public:
  ~RawReader();
  RawReader() = default;
  RawReader(const RawReader&) = delete;
  RawReader& operator=(const RawReader&) = delete;

  [[nodiscard]] std::string Open(const std::string& path);
  // False at the end. What is no frame with a right checksum is skipped and counted.
  [[nodiscard]] bool Next(RawFrame* frame);
  [[nodiscard]] uint64_t whole_bytes() const { return whole_bytes_; }
  [[nodiscard]] uint64_t cut_bytes() const { return file_bytes_ - whole_bytes_; }
  // Where the frame given last begins.
  [[nodiscard]] uint64_t frame_at() const { return frame_at_; }
  // Stretches between whole frames, and their bytes: one stretch may have been several frames.
  [[nodiscard]] uint64_t damaged_frames() const { return damaged_frames_; }
  [[nodiscard]] uint64_t damaged_bytes() const { return damaged_bytes_; }
  // All that was read of the file so far: within a few times its length, whatever is in it.
  [[nodiscard]] uint64_t bytes_read() const { return window_bytes_read_ + crc_.bytes_read(); }

 private:
  enum class At : uint8_t { kFrame, kDamage, kEnd };
  void Fill(uint64_t at);
  [[nodiscard]] std::string_view View(uint64_t at, size_t least);
  [[nodiscard]] bool Copy(uint64_t at, char* to, size_t bytes);
  [[nodiscard]] bool Reaches(uint64_t end);
  [[nodiscard]] At ReadFrame(uint64_t at, RawFrame* frame);
  [[nodiscard]] bool MayBeFrame(uint64_t at);
  [[nodiscard]] bool FindFrame(uint64_t from, RawFrame* frame);

  int fd_ = -1;
  uint64_t file_bytes_ = 0, whole_bytes_ = 0, frame_at_ = 0;
  uint64_t damaged_frames_ = 0, damaged_bytes_ = 0;
  bool is_damaged_ = false;  // a frame was searched for: claims are not believed from here on
  std::vector<char> window_;
  uint64_t window_at_ = 0, window_bytes_read_ = 0;
  RangeCrc crc_;
};

// Whether a collector holds the file now.
[[nodiscard]] bool IsLive(const std::string& raw_path);

}  // namespace stepagent::spool
