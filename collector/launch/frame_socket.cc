#include "collector/launch/frame_socket.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/crc32c.h"
#include "proto/limits.h"

namespace stepagent::launch {

FrameSocket::~FrameSocket() {
  if (fd_ >= 0) close(fd_);
}

bool FrameSocket::WaitFor(short events) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    is_late = left <= 0;
    if (is_late) return Fail("no answer in time");
    pollfd watched{fd_, events, 0};
    const int ready = poll(&watched, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Fail(std::string("poll: ") + std::strerror(errno));
  }
}

bool FrameSocket::Open() {
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Fail(std::string("socket: ") + std::strerror(errno));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address_.raw);
  while (connect(fd_, raw, address_.length) != 0) {
    // EAGAIN: its queue of connections is full; a Unix socket gives no event for that.
    if ((errno == EAGAIN || errno == EINTR) && Clock::now() < deadline_) {
      poll(nullptr, 0, 5);
      continue;
    }
    connect_error = errno;
    return Fail(address_.Text() + ": " + std::strerror(connect_error));
  }
  socklen_t length = sizeof peer;
  if (getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return Fail(std::string("peer credentials: ") + std::strerror(errno));
  return true;
}

bool FrameSocket::SendBytes(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n < 0 && errno == EAGAIN) {
      if (!WaitFor(POLLOUT)) return false;
    } else if (n < 0 && errno != EINTR) {
      return Fail(std::string("send: ") + std::strerror(errno));
    }
  }
  return true;
}

bool FrameSocket::ReceiveBytes(void* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = recv(fd_, static_cast<char*>(to) + done, bytes - done, 0);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n == 0)
      return Fail("it closed the connection without an answer");
    else if (errno == EAGAIN) {
      if (!WaitFor(POLLIN)) return false;
    } else if (errno != EINTR) {
      return Fail(std::string("receive: ") + std::strerror(errno));
    }
  }
  return true;
}

bool FrameSocket::Send(proto::FrameType type, const std::string& payload) {
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  std::string frame(proto::kFrameHeaderBytes, '\0');
  proto::WriteHeader(header, reinterpret_cast<unsigned char*>(frame.data()));
  return SendBytes(frame + payload);
}

bool FrameSocket::Receive(proto::FrameType type, std::string* payload) {
  unsigned char raw[proto::kFrameHeaderBytes];
  proto::FrameHeader header;
  for (;;) {
    if (!ReceiveBytes(raw, sizeof raw)) return false;
    if (!proto::ParseHeader(raw, &header) || header.payload_bytes > proto::kMaxControlBytes)
      return Fail("its answer is no frame of ours");
    payload->assign(header.payload_bytes, '\0');
    if (!ReceiveBytes(payload->data(), payload->size())) return false;
    if (header.type != static_cast<uint8_t>(type)) continue;
    if (proto::Crc32c(payload->data(), payload->size()) != header.crc32c)
      return Fail("its answer is damaged");
    return true;
  }
}

}  // namespace stepagent::launch
