#pragma once
// ControlServer: requests of the command line, on the agent's own socket.
//
// Purpose: take one request from each connection, hand it to the thread `stepagent`, send the
// answer, hang up.
// Thread rule: the io thread; requests and answers cross under IoState::mutex.
// A request is withdrawn when its peer hangs up, or its time is over, before `stepagent` took it.
// Failure rule: peers of the same user and root only (SO_PEERCRED); sizes and times are bounded, a
// slow or silent peer is dropped; more than kMaxClients wait in the kernel's backlog.
#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/drain/io/frame_stream.h"
#include "agent/drain/io/io_state.h"
#include "proto/limits.h"

namespace stepagent::drain::io {

class ControlServer {
 public:
  explicit ControlServer(IoState* state) : state_(state) {}
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  // In the folder, else under the abstract name. False: no control; the rest goes on.
  bool Open();
  void AddPolls(std::vector<pollfd>* polls) const;
  // `polls`: those that AddPolls added, in order.
  void OnPolled(const pollfd* polls, size_t count, uint64_t now_ns);
  // Answers that have come; peers whose time is over.
  void Advance(uint64_t now_ns);
  [[nodiscard]] uint64_t next_ns() const;  // 0: no need

 private:
  static constexpr size_t kMaxClients = 16;
  enum class Stage : uint8_t { kReading, kWaiting, kWriting, kOver };
  struct Client {
    int fd;
    Stage stage = Stage::kReading;
    uint64_t id;
    uint64_t deadline_ns;
    FrameReader reader{proto::kMaxControlBytes};
    FrameWriter writer;
  };

  void Accept(uint64_t now_ns);
  void OnClient(Client* client, short events, uint64_t now_ns);
  void TakeRequest(Client* client, uint64_t now_ns);
  void Withdraw(Client* client);
  void TakeAnswers(uint64_t now_ns);
  void RemoveOver();

  IoState* const state_;
  int listener_ = -1;
  std::string path_;  // of the socket's file, "" abstract
  std::vector<Client> clients_;
  uint64_t next_id_ = 1;
};

}  // namespace stepagent::drain::io
