#pragma once
// Frames in and out of a non-blocking stream socket.
//
// Purpose: the one place that knows about partial reads and writes.
// Thread rule: belongs to one connection, on the io thread.
// Failure rule: no length is used before it was compared with the limit; a frame with a wrong
// checksum is skipped alone; bytes that are no header, or a frame past the limit, end the stream.
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/frame.h"

namespace stepagent::drain::io {

enum class StreamResult : uint8_t { kDone, kBlocked, kClosed, kGarbage, kError };

class FrameReader {
 public:
  explicit FrameReader(size_t limit) : limit_(limit) {}

  // For another stream: what was half read is dropped.
  void Reset() { head_have_ = 0; }
  // Reads until a whole frame is there (kDone: header() and payload() are it, until the next call).
  [[nodiscard]] StreamResult Next(int fd);
  [[nodiscard]] const proto::FrameHeader& header() const { return header_; }
  [[nodiscard]] const std::string& payload() const { return payload_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  StreamResult Fill(int fd, char* into, size_t wanted, size_t* have);

  size_t limit_;
  unsigned char head_[proto::kFrameHeaderBytes];
  size_t head_have_ = 0;
  proto::FrameHeader header_;
  std::string payload_;
  size_t payload_have_ = 0;
  int error_ = 0;
};

class FrameWriter {
 public:
  void Begin(uint8_t type, uint64_t sequence, std::string payload);
  // Forgets how far it came: the frame starts over, on another connection.
  void Rewind() { sent_ = 0; }
  void Clear() { is_active_ = false; }
  [[nodiscard]] bool is_active() const { return is_active_; }
  [[nodiscard]] bool has_begun() const { return sent_ != 0; }
  [[nodiscard]] size_t bytes() const { return sizeof head_ + payload_.size(); }
  [[nodiscard]] StreamResult Write(int fd);
  [[nodiscard]] int error() const { return error_; }

 private:
  unsigned char head_[proto::kFrameHeaderBytes];
  std::string payload_;
  size_t sent_ = 0;
  bool is_active_ = false;
  int error_ = 0;
};

}  // namespace stepagent::drain::io
