#pragma once
// Bytes of a stream into whole frames.
//
// Purpose: the one place where lengths from the other side are checked (proto/limits.h).
// Thread rule: one owner.
// Failure rule: a frame with a wrong checksum is skipped and counted; bytes that cannot be a frame,
// or one that is too large, end the stream: there is no way back into step.
#include <cstdint>
#include <string>

#include "collector/spool/raw_file.h"

namespace stepagent::ingest {

class FrameReader {
 public:
  enum class Result : uint8_t { kFrame, kNeedMore, kBroken };

  void Feed(const char* data, size_t bytes);
  [[nodiscard]] Result Next(spool::RawFrame* frame);
  // Why the stream is broken.
  [[nodiscard]] const std::string& error() const { return error_; }
  // Part of a frame is there and the rest is awaited.
  [[nodiscard]] bool IsMidFrame() const { return at_ < buffer_.size(); }
  [[nodiscard]] uint64_t damaged_frames() const { return damaged_frames_; }

 private:
  std::string buffer_;
  size_t at_ = 0;
  std::string error_;
  uint64_t damaged_frames_ = 0;
};

// A whole frame with its header, ready to be sent.
[[nodiscard]] std::string EncodeFrame(proto::FrameType type, const std::string& payload,
                                      uint64_t sequence);

}  // namespace stepagent::ingest
