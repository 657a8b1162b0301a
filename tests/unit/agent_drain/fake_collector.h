#pragma once
// A collector as far as a socket goes: the test decides when it accepts, reads, answers and dies.
//
// Thread rule: the test's thread.
// Failure rule: waits end after 20 s with a failed expectation.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "proto/address.h"
#include "proto/crc32c.h"
#include "proto/frame.h"
#include "session.pb.h"

namespace stepagent::drain::io {

inline constexpr int kPatienceMs = 20000;

struct Frame {
  proto::FrameHeader header;
  std::string payload;
};

inline std::string FrameBytes(proto::FrameType type, const std::string& payload) {
  unsigned char head[proto::kFrameHeaderBytes];
  proto::WriteHeader({.type = static_cast<uint8_t>(type),
                      .payload_bytes = static_cast<uint32_t>(payload.size()),
                      .crc32c = proto::Crc32c(payload.data(), payload.size())},
                     head);
  return std::string(reinterpret_cast<char*>(head), sizeof head) + payload;
}

// One accepted (or made) connection; closes it at its end.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { Close(); }
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Peer& operator=(Peer&& other) noexcept {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  [[nodiscard]] int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Send(const std::string& bytes) {
    ASSERT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // nullopt: the other side is gone.
  std::optional<Frame> ReadFrame() {
    unsigned char head[proto::kFrameHeaderBytes];
    if (!ReadAll(head, sizeof head)) return std::nullopt;
    Frame frame;
    EXPECT_TRUE(proto::ParseHeader(head, &frame.header));
    frame.payload.resize(frame.header.payload_bytes);
    if (!ReadAll(frame.payload.data(), frame.payload.size())) return std::nullopt;
    EXPECT_EQ(proto::Crc32c(frame.payload.data(), frame.payload.size()), frame.header.crc32c);
    return frame;
  }
  bool ReadAll(void* into, size_t bytes) {
    auto* at = static_cast<char*>(into);
    while (bytes > 0) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, kPatienceMs) <= 0) {
        ADD_FAILURE() << "nothing came";
        return false;
      }
      const ssize_t got = recv(fd_, at, bytes, 0);
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

 private:
  int fd_;
};

class FakeCollector {
 public:
  explicit FakeCollector(const std::string& address) : text_(address) { Listen(); }
  ~FakeCollector() { Stop(); }
  void Listen() {
    const auto address = proto::AddressFromText(text_);
    ASSERT_TRUE(address);
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address->raw), address->length), 0);
    ASSERT_EQ(listen(fd_, 16), 0);
  }
  void Stop() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] bool HasCaller(int timeout_ms) const {
    pollfd ready{fd_, POLLIN, 0};
    return poll(&ready, 1, timeout_ms) > 0;
  }
  Peer Accept() {
    EXPECT_TRUE(HasCaller(kPatienceMs)) << "nobody connected";
    return Peer(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }
  // Accepts, takes the Hello and says welcome.
  Peer AcceptAndWelcome() {
    Peer peer = Accept();
    const auto hello = peer.ReadFrame();
    EXPECT_TRUE(hello);
    if (hello) {
      EXPECT_EQ(hello->header.type, static_cast<uint8_t>(proto::FrameType::kHello));
      last_hello_ = hello->payload;
    }
    v1::Welcome welcome;
    welcome.set_accepted(true);
    welcome.set_protocol(proto::kProtocol);
    welcome.set_session_dir("/out/session");
    peer.Send(FrameBytes(proto::FrameType::kWelcome, welcome.SerializeAsString()));
    return peer;
  }
  [[nodiscard]] const std::string& last_hello() const { return last_hello_; }

 private:
  std::string text_;
  std::string last_hello_;
  int fd_ = -1;
};

}  // namespace stepagent::drain::io
