#include "agent/drain/io/io_thread.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/drain/io/private_files.h"

namespace stepagent::drain::io {
namespace {

// Where the wake line is refused (a sandbox without signalfd): how often orders are looked for.
// Twice as long would show in `stepagent status`, half costs 20 wake-ups a second for nothing.
constexpr uint64_t kLookNs = 100'000'000;

#ifndef SYS_pidfd_open
constexpr long SYS_pidfd_open = 434;
#endif
constexpr int kPidFd = 3;  // P_PIDFD of waitid

uint64_t NowNs() { return core::HostClock::MonotonicNs(); }

}  // namespace

IoThread::IoThread(std::shared_ptr<IoState> state)
    : state_(std::move(state)), connection_(state_.get(), NowNs()), control_(state_.get()) {}

void IoThread::Run() {
  if (!EnterPrivateFiles()) {
    const std::lock_guard lock(state_->mutex);
    state_->status.last_error = "no private descriptor table: no sockets are used";
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    wake_fd_ = state_->wake.Open();
  }
  (void)control_.Open();
  uint64_t now_ns = NowNs();
  while (RunOnce(now_ns)) {
    Poll(now_ns);
    now_ns = NowNs();
  }
  connection_.GiveUp();
}

// A kernel without pidfds leaves the orphan to the application, as it would any other.
void IoThread::TakeOrphan() {
  pid_t orphan = 0;
  {
    const std::lock_guard lock(state_->mutex);
    std::swap(orphan, state_->orphan);
  }
  if (orphan == 0) return;
  if (orphan_fd_ >= 0) close(orphan_fd_);
  orphan_fd_ = static_cast<int>(syscall(SYS_pidfd_open, orphan, 0));
}

// By its descriptor: a number would be another process's once the application had waited for it.
void IoThread::ReapOrphan() {
  siginfo_t ignored{};
  (void)waitid(static_cast<idtype_t>(kPidFd), static_cast<id_t>(orphan_fd_), &ignored,
               WEXITED | WNOHANG | __WALL);
  close(orphan_fd_);
  orphan_fd_ = -1;
}

bool IoThread::RunOnce(uint64_t now_ns) {
  TakeOrphan();
  connection_.Advance(now_ns);
  control_.Advance(now_ns);
  return !IsFinished(now_ns);
}

bool IoThread::IsFinished(uint64_t now_ns) {
  uint64_t deadline_ns;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->is_finishing) return false;
    deadline_ns = state_->finish_deadline_ns;
  }
  if (finishing_since_ns_ == 0) finishing_since_ns_ = now_ns;
  return now_ns >= deadline_ns || connection_.IsDone(now_ns, finishing_since_ns_);
}

int IoThread::TimeoutMs(uint64_t now_ns) {
  uint64_t next_ns = UINT64_MAX;
  const auto at = [&next_ns](uint64_t ns) {
    if (ns != 0) next_ns = std::min(next_ns, ns);
  };
  at(connection_.next_ns());
  at(control_.next_ns());
  if (wake_fd_ < 0) at(now_ns + kLookNs);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_finishing) at(state_->finish_deadline_ns);
  }
  if (next_ns == UINT64_MAX) return -1;
  if (next_ns <= now_ns) return 0;
  return static_cast<int>(std::min<uint64_t>((next_ns - now_ns + 999'999) / 1'000'000, 60'000));
}

void IoThread::Poll(uint64_t now_ns) {
  polls_.clear();
  polls_.push_back({wake_fd_, POLLIN, 0});
  const short wanted = connection_.wants_write() ? POLLIN | POLLOUT : POLLIN;
  polls_.push_back({connection_.fd(), wanted, 0});
  polls_.push_back({orphan_fd_, POLLIN, 0});
  control_.AddPolls(&polls_);
  if (poll(polls_.data(), polls_.size(), TimeoutMs(now_ns)) <= 0) return;
  now_ns = NowNs();
  if (polls_[0].revents != 0) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->wake.Consume()) wake_fd_ = -1;
  }
  if ((polls_[1].revents & ~POLLOUT) != 0) connection_.OnReadable(now_ns);
  if (polls_[2].revents != 0) ReapOrphan();
  control_.OnPolled(polls_.data() + 3, polls_.size() - 3, now_ns);
}

void* RunIoThread(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<IoState>> given(
      static_cast<std::shared_ptr<IoState>*>(argument));
  const std::shared_ptr<IoState> state = *given;
  // Here and not by the maker of the thread: for another thread glibc opens a file in /proc.
  prctl(PR_SET_NAME, "stepagent-io");
  try {
    IoThread thread(state);
    thread.Run();
  } catch (...) {
    // Out of memory, as far as we know. The application goes on; so does the agent, without us.
  }
  {
    const std::lock_guard lock(state->mutex);
    state->wake.Close();
    state->LoseQueued();
    state->is_over = true;
  }
  core::BumpAndWake(&state->ended);
  return nullptr;
}

}  // namespace stepagent::drain::io
