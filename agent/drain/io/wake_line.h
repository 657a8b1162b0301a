#pragma once
// WakeLine: how the thread `stepagent` wakes `stepagent-io` out of its poll.
//
// Purpose: one wake-up that needs no descriptor on the waking side. The waker's descriptor table is
// the application's: a pipe, an eventfd or a short-lived socket in it could be closed or replaced
// under us, or take a number that the application counts on. So a signal is used, sent to the one
// thread, which blocks it always and polls a signalfd in its own private table: no disposition
// changes, no handler runs, and no other thread can see it.
// Thread rule: Open, Consume and Close on the io thread, Wake on any thread of ours. Wake, Consume
// and Close under the uplink's mutex: the thread cannot end, nor its id go to another thread,
// between look and signal.
// Failure rule: Open gives -1 where signalfd is refused; the io thread then looks every 100 ms.
//
// Why not the application's signals: a read takes the thread's own pending signal before the
// process's, and Consume reads only after a Wake. A pending signal of the process that nobody takes
// would keep the descriptor readable: Consume says so, and the descriptor is given up.
#include <sys/types.h>

#include <cstdint>

namespace stepagent::drain::io {

class WakeLine {
 public:
  // Returns the descriptor to poll.
  int Open();
  void Close();
  void Wake();
  // After a poll said readable. False: it is not ours.
  [[nodiscard]] bool Consume();

 private:
  pid_t pid_ = 0, tid_ = 0;
  int fd_ = -1;
  uint32_t sent_ = 0, consumed_ = 0;
};

}  // namespace stepagent::drain::io
