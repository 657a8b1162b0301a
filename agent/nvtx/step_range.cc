#include "agent/nvtx/step_range.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/step_gate.h"

namespace stepagent::nvtx {
namespace {

using core::HostClock;

constinit std::atomic<void (*)()> revive_hook{nullptr};
// Id of the start/end range that is the open step; 0 none. Read by every end, written by steps
// only.
alignas(64) constinit std::atomic<uint64_t> start_step{0};

bool IsAlive() { return core::g_words->alive.load(std::memory_order_relaxed) != 0; }

bool OpenStep() {
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  return core::Gate().OnStepBegin(HostClock::Ticks(), tid);
}

}  // namespace

void BeginPushStep(ThreadBlock* block, core::NameId domain, uint32_t level) noexcept {
  if (block == nullptr || block->step_depth != 0 || !OpenStep()) return;
  block->step_depth = level + 1;
  block->step_domain = domain;
}

void EndPushStep(ThreadBlock* block) noexcept {
  block->step_depth = 0;
  if (IsAlive()) core::Gate().OnStepEnd(HostClock::Ticks());
}

void BeginStartStep(uint64_t id) noexcept {
  if (OpenStep()) start_step.store(id, std::memory_order_release);
}

bool IsStartStep(uint64_t id) noexcept { return start_step.load(std::memory_order_acquire) == id; }

void EndStartStep(uint64_t id) noexcept {
  if (start_step.compare_exchange_strong(id, 0, std::memory_order_acq_rel) && IsAlive()) {
    core::Gate().OnStepEnd(HostClock::Ticks());
  }
}

bool IsAliveOrRevived() noexcept {
  if (IsAlive()) return true;
  void (*hook)() = revive_hook.load(std::memory_order_acquire);
  if (hook == nullptr) return false;
  hook();
  return IsAlive();
}

void SetReviveHookImpl(void (*hook)()) noexcept {
  revive_hook.store(hook, std::memory_order_release);
}
void ForgetStepRange() noexcept { start_step.store(0, std::memory_order_relaxed); }

}  // namespace stepagent::nvtx
