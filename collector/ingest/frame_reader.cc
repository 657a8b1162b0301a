#include "collector/ingest/frame_reader.h"

#include "proto/crc32c.h"
#include "proto/limits.h"

namespace stepagent::ingest {
namespace {

// Below this the consumed front of the buffer is not worth moving.
constexpr size_t kCompactBytes = 1 << 20;

}  // namespace

void FrameReader::Feed(const char* data, size_t bytes) {
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  } else if (at_ > kCompactBytes) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_.append(data, bytes);
}

FrameReader::Result FrameReader::Next(spool::RawFrame* frame) {
  while (error_.empty()) {
    const size_t there = buffer_.size() - at_;
    if (there < proto::kFrameHeaderBytes) return Result::kNeedMore;
    const auto* bytes = reinterpret_cast<const unsigned char*>(buffer_.data() + at_);
    if (!proto::ParseHeader(bytes, &frame->header)) {
      error_ = "bytes that are no frame";
      break;
    }
    const size_t payload = frame->header.payload_bytes;
    if (payload > proto::kMaxFrameBytes) {
      error_ = "a frame of " + std::to_string(payload) + " bytes, the limit is " +
               std::to_string(proto::kMaxFrameBytes);
      break;
    }
    if (there < proto::kFrameHeaderBytes + payload) return Result::kNeedMore;
    frame->payload.assign(buffer_, at_ + proto::kFrameHeaderBytes, payload);
    at_ += proto::kFrameHeaderBytes + payload;
    if (proto::Crc32c(frame->payload.data(), payload) == frame->header.crc32c) {
      return Result::kFrame;
    }
    ++damaged_frames_;
  }
  return Result::kBroken;
}

std::string EncodeFrame(proto::FrameType type, const std::string& payload, uint64_t sequence) {
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  header.sequence = sequence;
  std::string frame(proto::kFrameHeaderBytes, '\0');
  proto::WriteHeader(header, reinterpret_cast<unsigned char*>(frame.data()));
  return frame + payload;
}

}  // namespace stepagent::ingest
