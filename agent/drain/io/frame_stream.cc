#include "agent/drain/io/frame_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "proto/crc32c.h"

namespace stepagent::drain::io {

StreamResult FrameReader::Fill(int fd, char* into, size_t wanted, size_t* have) {
  while (*have < wanted) {
    const ssize_t got = recv(fd, into + *have, wanted - *have, MSG_DONTWAIT);
    if (got > 0) {
      *have += static_cast<size_t>(got);
    } else if (got == 0) {
      return StreamResult::kClosed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return StreamResult::kBlocked;
    } else if (errno != EINTR) {
      error_ = errno;
      return StreamResult::kError;
    }
  }
  return StreamResult::kDone;
}

StreamResult FrameReader::Next(int fd) {
  while (true) {
    if (head_have_ < sizeof head_) {
      const StreamResult head = Fill(fd, reinterpret_cast<char*>(head_), sizeof head_, &head_have_);
      if (head != StreamResult::kDone) return head;
      if (!proto::ParseHeader(head_, &header_) || header_.payload_bytes > limit_) {
        return StreamResult::kGarbage;
      }
      payload_.resize(header_.payload_bytes);
      payload_have_ = 0;
    }
    const StreamResult body = Fill(fd, payload_.data(), payload_.size(), &payload_have_);
    if (body != StreamResult::kDone) return body;
    head_have_ = 0;
    if (proto::Crc32c(payload_.data(), payload_.size()) == header_.crc32c) {
      return StreamResult::kDone;
    }
  }
}

void FrameWriter::Begin(uint8_t type, uint64_t sequence, std::string payload) {
  payload_ = std::move(payload);
  proto::WriteHeader({.type = type,
                      .payload_bytes = static_cast<uint32_t>(payload_.size()),
                      .crc32c = proto::Crc32c(payload_.data(), payload_.size()),
                      .sequence = sequence},
                     head_);
  sent_ = 0;
  is_active_ = true;
}

StreamResult FrameWriter::Write(int fd) {
  while (sent_ < bytes()) {
    iovec parts[2];
    size_t count = 0;
    if (sent_ < sizeof head_) parts[count++] = {head_ + sent_, sizeof head_ - sent_};
    const size_t body = sent_ > sizeof head_ ? sent_ - sizeof head_ : 0;
    if (body < payload_.size()) parts[count++] = {payload_.data() + body, payload_.size() - body};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t put = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      sent_ += static_cast<size_t>(put);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return StreamResult::kBlocked;
    } else if (errno != EINTR) {
      error_ = errno;
      return StreamResult::kError;
    }
  }
  is_active_ = false;
  payload_ = std::string();
  return StreamResult::kDone;
}

}  // namespace stepagent::drain::io
