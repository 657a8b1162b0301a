#pragma once
// The launcher's signals, taken one at a time instead of by handlers.
//
// Purpose: every signal that the launcher passes on is blocked and read from a descriptor, so that
// nothing races with the child's end. What was ignored when we started stays ignored, for us and
// for the child.
// Thread rule: made and used on the main thread, before any other exists (they inherit the mask).
// Failure rule: without a descriptor (no files left) signals keep their default meaning for us.
#include <signal.h>
#include <sys/signalfd.h>

#include <optional>

namespace stepagent::launch {

class SignalGate {
 public:
  SignalGate();
  ~SignalGate();
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  // The next pending one; nullopt: none.
  [[nodiscard]] std::optional<signalfd_siginfo> Next() const;
  // Gives mask and dispositions back as they were at our start. Async-signal-safe: called in the
  // forked child.
  void Restore() const;

 private:
  int fd_ = -1;
  sigset_t taken_;
  sigset_t mask_before_;
  struct sigaction child_before_ {};
};

}  // namespace stepagent::launch
