#pragma once
// The last words of a run's agents, received by the launcher.
//
// Purpose: a process that never reached its first warmup leaves nothing on disk; why (which ranges
// it had, that it emitted none, that it had no CUDA) would be lost with it. STEPAGENT_RUN_NOTE
// names an abstract datagram socket of the launcher; at its exit an agent may send one datagram
// there: a frame of type kControlAnswer whose message holds its AgentStatus. Thread rule: one
// thread. Failure rule: a note that is damaged, of another user or lost is a hint less; nothing
// waits for one.
#include <string>
#include <vector>

#include "control.pb.h"

namespace stepagent::launch {

class RunNotes {
 public:
  explicit RunNotes(const std::string& run);
  ~RunNotes();
  RunNotes(const RunNotes&) = delete;
  RunNotes& operator=(const RunNotes&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& address() const { return address_; }  // "" none
  // Takes all that have come. At most kMaxNotes are kept.
  void Receive();
  [[nodiscard]] const std::vector<v1::AgentStatus>& all() const { return notes_; }

 private:
  int fd_ = -1;
  std::string address_;
  std::vector<v1::AgentStatus> notes_;
};

}  // namespace stepagent::launch
