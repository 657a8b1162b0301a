#include "collector/launch/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace stepagent::launch {
namespace {

constexpr int kCommandNotStarted = 127;

// Async-signal-safe throughout: nothing here may allocate or lock.
[[noreturn]] void BecomeTarget(const SignalGate& gate, char* const* argv, char* const* environment,
                               int report_fd) {
  gate.Restore();
  execvpe(argv[0], argv, environment);
  const int error = errno;
  while (write(report_fd, &error, sizeof error) < 0 && errno == EINTR) {
  }
  _exit(kCommandNotStarted);
}

bool IsInForeground() {
  const pid_t group = tcgetpgrp(STDIN_FILENO);
  return group > 0 && group == getpgrp();
}

}  // namespace

int Child::Start(char* const* argv, char* const* environment) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  pid_ = fork();
  if (pid_ < 0) {
    const int error = errno;
    close(report[0]);
    close(report[1]);
    return error;
  }
  if (pid_ == 0) BecomeTarget(gate_, argv, environment, report[1]);
  close(report[1]);
  int error = 0;
  ssize_t got = 0;
  while ((got = read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(report[0]);
  if (got != static_cast<ssize_t>(sizeof error)) return 0;
  while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  return error;
}

// True when the child has ended. Others may be ours as well: as PID 1, or children of whoever
// exec'd us.
bool Child::Reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return pid < 0;  // ECHILD: someone else took it, there is nothing to wait for
    if (pid != pid_) continue;
    if (WIFSTOPPED(status)) {
      StopWithChild();
      continue;
    }
    status_ = status;
    return true;
  }
}

// The shell sees only us: on a terminal a stopped child must look like a stopped job. Elsewhere
// nobody would continue us.
void Child::StopWithChild() {
  if (!IsInForeground()) return;
  raise(SIGSTOP);
  kill(pid_, SIGCONT);
}

void Child::PassOn(const signalfd_siginfo& info, const ChildHooks& hooks) {
  const int number = static_cast<int>(info.ssi_signo);
  const pid_t sender = static_cast<pid_t>(info.ssi_pid);
  if (number == SIGCHLD) return;
  if (number == hooks.toggle_signal && number != 0) {
    if (hooks.on_toggle) hooks.on_toggle();
    return;
  }
  // From the terminal or the kernel: the child has its own. From the child: not for the child.
  // From ourselves: a SIGPIPE of our own writing.
  const bool is_from_people =
      info.ssi_code == SI_USER || info.ssi_code == SI_TKILL || info.ssi_code == SI_QUEUE;
  if (is_from_people && sender != pid_ && sender != getpid()) {
    if (info.ssi_code == SI_QUEUE) {
      sigval value{};
      value.sival_ptr = reinterpret_cast<void*>(info.ssi_ptr);
      sigqueue(pid_, number, value);
    } else {
      kill(pid_, number);
    }
  }
  if (number == SIGTSTP) raise(SIGSTOP);
}

int Child::Watch(const ChildHooks& hooks) {
  int pause_ms = hooks.on_look ? hooks.on_look() : -1;
  while (!Reap()) {
    pollfd watched{gate_.fd(), POLLIN, 0};
    const int ready = poll(&watched, 1, pause_ms);
    if (ready == 0) pause_ms = hooks.on_look();
    if (ready <= 0) continue;
    while (const auto info = gate_.Next()) PassOn(*info, hooks);
  }
  return status_;
}

int EndLike(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  const int number = WTERMSIG(wait_status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  return 128 + number;  // as PID 1, which no signal without a handler ends
}

}  // namespace stepagent::launch
