#pragma once
// A socket of ours from the asking side: frames out, frames in, never longer than a deadline.
//
// Purpose: what speaking to an agent and to a collector have in common.
// Thread rule: one thread. Failure rule: false, and `error` says why.
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "proto/address.h"
#include "proto/frame.h"

namespace stepagent::launch {

class FrameSocket {
 public:
  using Clock = std::chrono::steady_clock;
  FrameSocket(const proto::SocketAddress& address, Clock::time_point deadline)
      : address_(address), deadline_(deadline) {}
  ~FrameSocket();
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Connected, and `peer` known.
  [[nodiscard]] bool Open();
  [[nodiscard]] bool Send(proto::FrameType type, const std::string& payload);
  // The next frame of this type; others are skipped.
  [[nodiscard]] bool Receive(proto::FrameType type, std::string* payload);
  bool Fail(std::string why) {
    error = std::move(why);
    return false;
  }

  ucred peer{};
  std::string error;
  int connect_error = 0;  // errno of a connect that failed
  bool is_late = false;   // it was the time that ran out

 private:
  [[nodiscard]] bool WaitFor(short events);
  [[nodiscard]] bool SendBytes(const std::string& bytes);
  [[nodiscard]] bool ReceiveBytes(void* to, size_t bytes);

  const proto::SocketAddress address_;
  const Clock::time_point deadline_;
  int fd_ = -1;
};

}  // namespace stepagent::launch
