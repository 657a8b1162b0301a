#include "collector/launch/signal_gate.h"

#include <unistd.h>

namespace stepagent::launch {
namespace {

// Not taken: what cannot be, faults (ours, not the child's), and TTIN and TTOU, by which the
// terminal stops us like any background job.
bool IsTaken(int number) {
  for (const int left : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT,
                         SIGSYS, SIGTTIN, SIGTTOU})
    if (number == left) return false;
  return number < 32 || number >= SIGRTMIN;
}

}  // namespace

SignalGate::SignalGate() {
  sigemptyset(&taken_);
  sigprocmask(SIG_SETMASK, nullptr, &mask_before_);
  // An inherited "ignore" would let the kernel throw the child's exit status away.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &child_before_);
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action {};
    if (!IsTaken(number) || sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler != SIG_IGN) sigaddset(&taken_, number);
  }
  fd_ = signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ >= 0) sigprocmask(SIG_BLOCK, &taken_, nullptr);
}

SignalGate::~SignalGate() {
  if (fd_ >= 0) close(fd_);
  // A reader of our last lines who left must not take the place of the child's exit status.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  const timespec at_once{0, 0};
  while (sigismember(&taken_, SIGPIPE) == 1 &&
         sigtimedwait(&broken_pipe, nullptr, &at_once) == SIGPIPE) {
  }
  Restore();
}

std::optional<signalfd_siginfo> SignalGate::Next() const {
  signalfd_siginfo info{};
  if (fd_ < 0 || read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info))
    return std::nullopt;
  return info;
}

void SignalGate::Restore() const {
  sigaction(SIGCHLD, &child_before_, nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

}  // namespace stepagent::launch
