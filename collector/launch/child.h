#pragma once
// The target as a child: started, watched, and ended like itself.
//
// Purpose: a plain fork and exec with descriptors, terminal, process group, mask and dispositions
// as they would be without us. Its end is its exit status and nothing else: orphans that hold its
// pipes open do not matter. Signals that people send to the launcher reach it; those that the
// terminal sends reached it already.
// Thread rule: main thread only.
// Failure rule: Start gives the errno of fork or exec; the caller maps it to 125, 126 or 127.
#include <sys/types.h>

#include <functional>
#include <vector>

#include "collector/launch/signal_gate.h"

namespace stepagent::launch {

struct ChildHooks {
  int toggle_signal = 0;  // 0: none; this one is not passed on
  std::function<void()> on_toggle;
  std::function<int()> on_look;  // may be empty; gives the milliseconds until it is called again
};

class Child {
 public:
  explicit Child(const SignalGate& gate) : gate_(gate) {}
  // argv and environment end in a null pointer. 0, or the errno that kept it from starting.
  [[nodiscard]] int Start(char* const* argv, char* const* environment);
  // Until it ends: its wait status.
  [[nodiscard]] int Watch(const ChildHooks& hooks);
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  bool Reap();
  void PassOn(const signalfd_siginfo& info, const ChildHooks& hooks);
  void StopWithChild();

  const SignalGate& gate_;
  pid_t pid_ = -1;
  int status_ = 0;
};

// Ends this process as the child ended: the same status, or the same signal (without a second core
// file). Returns only the status to exit with.
[[nodiscard]] int EndLike(int wait_status);

}  // namespace stepagent::launch
