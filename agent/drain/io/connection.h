#pragma once
// Connection: the io thread's end of the stream to the collector.
//
// Purpose: connect, greet, send what is queued, take what comes back, try again.
// Thread rule: the io thread; shared parts under IoState::mutex.
// Failure rule: see io/uplink.h. The frame being sent is kept over a lost connection.
//
// States: closed -> greeting (Hello is sent, Welcome awaited) -> ready; refused: closed until
// another collector is named.
#include <cstdint>
#include <optional>
#include <string>

#include "agent/drain/io/backoff.h"
#include "agent/drain/io/frame_stream.h"
#include "agent/drain/io/io_state.h"

namespace stepagent::drain::io {

class Connection {
 public:
  Connection(IoState* state, uint64_t seed);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Connects if it is time to, sends what can be sent, closes when nothing is wanted any more.
  void Advance(uint64_t now_ns);
  void OnReadable(uint64_t now_ns);
  // Counts what was not sent; nothing is sent any more.
  void GiveUp();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool wants_write() const { return hello_.is_active() || frame_.is_active(); }
  // When Advance wants to be called at the latest; 0: no need.
  [[nodiscard]] uint64_t next_ns() const { return next_ns_; }
  // Nothing left to send, or nobody to send it to.
  [[nodiscard]] bool IsDone(uint64_t now_ns, uint64_t finishing_since_ns);

 private:
  enum class State : uint8_t { kClosed, kGreeting, kReady, kRefused };
  struct Orders {
    bool has_work = false, is_wanted = false, is_finishing = false;
  };

  [[nodiscard]] Orders TakeOrders();
  void TryConnect(uint64_t now_ns);
  void Failed(uint64_t now_ns, const std::string& why);
  void Disconnect();
  void WriteSome(uint64_t now_ns);
  [[nodiscard]] bool NextFrame();
  void FrameSent(size_t bytes);
  void OnFrame(uint64_t now_ns);
  void OnWelcome(uint64_t now_ns);
  void Refuse(const std::string& reason);
  void DropQueued();
  void SayLine(const std::string& line);

  IoState* const state_;
  State stage_ = State::kClosed;
  int fd_ = -1;
  uint64_t version_ = 0;
  std::string address_;
  FrameReader reader_;
  FrameWriter hello_, frame_;
  Backoff backoff_;
  uint64_t next_ns_ = 0;  // of the next try, or of the end of the greeting
  uint64_t failing_since_ns_ = 0, ready_since_ns_ = 0;
  bool said_so_ = false;  // in this outage
};

}  // namespace stepagent::drain::io
