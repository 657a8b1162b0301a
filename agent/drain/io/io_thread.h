#pragma once
// IoThread: the body of the thread `stepagent-io`.
//
// Purpose: one poll over the wake line, the control socket and the collector.
// Thread rule: all of it on the io thread.
// Failure rule: whatever goes wrong ends the thread alone; what is queued is then counted as lost.
#include <poll.h>

#include <memory>
#include <vector>

#include "agent/drain/io/connection.h"
#include "agent/drain/io/control_server.h"
#include "agent/drain/io/io_state.h"

namespace stepagent::drain::io {

class IoThread {
 public:
  explicit IoThread(std::shared_ptr<IoState> state);
  // Returns when finished. `state` outlives the thread through the shared pointer.
  void Run();

 private:
  // Does what is due; false: it is over.
  [[nodiscard]] bool RunOnce(uint64_t now_ns);
  [[nodiscard]] bool IsFinished(uint64_t now_ns);
  [[nodiscard]] int TimeoutMs(uint64_t now_ns);
  void Poll(uint64_t now_ns);
  void TakeOrphan();
  void ReapOrphan();

  std::shared_ptr<IoState> state_;
  Connection connection_;
  ControlServer control_;
  std::vector<pollfd> polls_;
  int wake_fd_ = -1;
  int orphan_fd_ = -1;  // a pidfd
  uint64_t finishing_since_ns_ = 0;
};

// For pthread_create: `argument` is a std::shared_ptr<IoState>* that it takes.
void* RunIoThread(void* argument) noexcept;

}  // namespace stepagent::drain::io
