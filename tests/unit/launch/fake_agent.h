#pragma once
// An agent of the test's own process, as the commands see it: a socket, requests, answers.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>

#include "control.pb.h"
#include "proto/address.h"
#include "proto/crc32c.h"
#include "proto/frame.h"

namespace stepagent::launch {

inline std::string Frame(proto::FrameType type, const std::string& payload) {
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  std::string frame(proto::kFrameHeaderBytes, '\0');
  proto::WriteHeader(header, reinterpret_cast<unsigned char*>(frame.data()));
  return frame + payload;
}

inline std::string ReadRequest(int fd, v1::ControlRequest* request) {
  std::string bytes(65536, '\0');
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), 0);
  if (n < static_cast<ssize_t>(proto::kFrameHeaderBytes)) return "short";
  bytes.resize(static_cast<size_t>(n));
  return request->ParseFromString(bytes.substr(proto::kFrameHeaderBytes)) ? "" : "unreadable";
}

// Answers one request after the other; one without `answer` hangs.
class FakeAgent {
 public:
  using Respond = std::function<v1::ControlAnswer(v1::ControlRequest::Verb)>;
  FakeAgent(const std::string& folder, const std::string& session, Respond respond)
      : respond_(std::move(respond)) {
    entry_.pid = getpid();
    entry_.session = session;
    entry_.address = proto::AgentAddress(folder, geteuid(), entry_.pid, session);
    listen_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto* raw = reinterpret_cast<const sockaddr*>(&entry_.address.raw);
    EXPECT_EQ(bind(listen_fd_, raw, entry_.address.length), 0);
    EXPECT_EQ(listen(listen_fd_, 16), 0);
    if (respond_) thread_ = std::thread([this] { Serve(); });
  }
  ~FakeAgent() {
    shutdown(listen_fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(listen_fd_);
  }
  [[nodiscard]] const proto::AgentEntry& entry() const { return entry_; }

 private:
  void Serve() {
    for (int fd; (fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(fd)) {
      v1::ControlRequest request;
      if (!ReadRequest(fd, &request).empty()) continue;
      const std::string frame =
          Frame(proto::FrameType::kControlAnswer, respond_(request.verb()).SerializeAsString());
      send(fd, frame.data(), frame.size(), MSG_NOSIGNAL);
    }
  }
  Respond respond_;
  proto::AgentEntry entry_;
  int listen_fd_ = -1;
  std::thread thread_;
};

}  // namespace stepagent::launch
