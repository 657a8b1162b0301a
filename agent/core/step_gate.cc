#include "agent/core/step_gate.h"

#include <atomic>

#include "agent/core/clock.h"
#include "agent/core/gate_state.h"
#include "agent/core/phase_words.h"

namespace stepagent::core {
namespace {

constexpr int kSpins = 100;
// A waiter looks again after this even if its wake was lost with a thread that was killed.
constexpr uint64_t kLockNapNs = 1'000'000;
// One copy of durations under the lock: 256 entries are 6 KiB, well under a microsecond.
constexpr uint32_t kCopyChunk = 256;

// All zero: lives in .bss and is touched as it fills.
constinit GateState gate_state;
constinit StepGate the_gate;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The gate's lock, a futex so that a waiter of higher priority cannot spin its holder off the core.
// The word lies in the page a fork wipes: a child never finds it held.
// Wakes the thread `stepagent` after the lock is gone, if the state asked for it.
class Section {
 public:
  Section() noexcept { Lock(); }
  ~Section() { Unlock(); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  void Lock() noexcept {
    for (int i = 0; i < kSpins; ++i) {
      uint32_t expected = 0;
      if (words_->gate_lock.compare_exchange_weak(expected, 1, std::memory_order_acquire)) return;
      Pause();
    }
    while (words_->gate_lock.exchange(2, std::memory_order_acquire) != 0) {
      FutexWait(&words_->gate_lock, 2, kLockNapNs);
    }
  }
  void Unlock() noexcept {
    const bool wake = gate_state.wake;
    gate_state.wake = false;
    const uint32_t before = words_->gate_lock.exchange(0, std::memory_order_release);
    if (before == 2) FutexWake(&words_->gate_lock);
    if (wake) BumpAndWake(&words_->wake);
  }

 private:
  PhaseWords* const words_ = g_words;
};

bool IsInert() { return g_words->alive.load(std::memory_order_relaxed) == 0; }

// Returns when arming ended or the time is over; ns waited.
uint64_t WaitForArming(uint64_t limit_ns) {
  const uint64_t begin = HostClock::MonotonicNs();
  uint64_t waited = 0;
  while (waited < limit_ns && g_words->armed.load(std::memory_order_acquire) == 0) {
    FutexWait(&g_words->armed, 0, limit_ns - waited);
    waited = HostClock::MonotonicNs() - begin;
  }
  return waited;
}

// Opens the step that is due, holding the caller for arming where that is allowed.
void OpenDueStep(Section* section, uint64_t ticks, uint32_t tid, bool may_hold) {
  gate_state.PrepareStep(ticks);
  if (may_hold && gate_state.MustHold()) {
    gate_state.holding = gate_state.awaiting_arm = true;
    const uint64_t limit = gate_state.config.arm_wait_ns;
    section->Unlock();
    const uint64_t waited = WaitForArming(limit);
    section->Lock();
    gate_state.holding = false;
    gate_state.arm_wait_ns += waited;
    gate_state.held_in_time = gate_state.armed;
    ticks = gate_state.InOrder(
        HostClock::Ticks());  // the step begins now; the wait is our cost, not the step's time
  }
  gate_state.BeginStep(ticks, tid);
}

}  // namespace

const char* EndedName(Ended ended) {
  switch (ended) {
    case Ended::kNone:
      return "";
    case Ended::kSchedule:
      return "schedule";
    case Ended::kSignal:
      return "signal";
    case Ended::kRequest:
      return "request";
    case Ended::kExit:
      return "exit";
    case Ended::kLimit:
      return "limit";
    case Ended::kError:
      return "error";
  }
  return "";
}

StepGate& Gate() noexcept { return the_gate; }

void StepGate::Configure(const GateConfig& config) noexcept {
  Section section;
  gate_state.Reset(config);
}

StepGate::Verdict StepGate::Reconfigure(const GateConfig& config) noexcept {
  Section section;
  if (!gate_state.CanArm()) return Verdict::kBusy;
  gate_state.config = config;
  return Verdict::kOk;
}

StepGate::Verdict StepGate::Arm(const Schedule& schedule, uint64_t /*now_ticks*/) noexcept {
  Section section;
  if (IsInert() || schedule.active == 0) return Verdict::kRefused;
  if (!gate_state.CanArm()) return Verdict::kBusy;
  if (!gate_state.MayBeginCycle()) return Verdict::kRefused;
  gate_state.ArmSchedule(schedule, static_cast<int64_t>(gate_state.process_next));
  return Verdict::kOk;
}

StepGate::Verdict StepGate::ArmWhole(uint64_t now_ticks) noexcept {
  Section section;
  if (IsInert()) return Verdict::kRefused;
  if (!gate_state.CanArm()) return Verdict::kBusy;
  if (!gate_state.MayBeginCycle()) return Verdict::kRefused;
  if (!gate_state.ArmWhole(gate_state.InOrder(now_ticks))) return Verdict::kRefused;
  return Verdict::kOk;
}

StepGate::Verdict StepGate::ArmAt(const Schedule& schedule, uint64_t at_step,
                                  uint64_t /*now_ticks*/) noexcept {
  Section section;
  if (IsInert() || schedule.active == 0) return Verdict::kRefused;
  if (!gate_state.CanArm()) return Verdict::kBusy;
  if (!gate_state.MayBeginCycle()) return Verdict::kRefused;
  const uint64_t cycle_at = StepsUntilCycle(schedule, 0);
  const uint64_t lead = cycle_at + schedule.warmup;  // schedule steps before the first active one
  constexpr uint64_t kFar = uint64_t{1} << 62;       // keeps the difference within int64_t
  if (cycle_at > kFar || schedule.warmup > kFar || at_step > kFar) return Verdict::kRefused;
  if (at_step < gate_state.process_next + schedule.warmup) return Verdict::kRefused;
  gate_state.ArmSchedule(schedule, static_cast<int64_t>(at_step) - static_cast<int64_t>(lead));
  return Verdict::kOk;
}

StepGate::Verdict StepGate::Stop(Ended why, bool at_once, uint64_t now_ticks) noexcept {
  if (IsInert()) return Verdict::kRefused;
  Section section;
  return gate_state.Stop(why, at_once, gate_state.InOrder(now_ticks));
}

StepGate::Verdict StepGate::StopWhenReady(Ended why, uint64_t now_ticks) noexcept {
  if (IsInert()) return Verdict::kRefused;
  Section section;
  return gate_state.StopWhenReady(why, gate_state.InOrder(now_ticks));
}

bool StepGate::OnStepBegin(uint64_t ticks, uint32_t tid) noexcept {
  if (IsInert()) return false;
  Section section;
  if (gate_state.range_open) {
    if (tid != gate_state.range_tid) ++gate_state.overlapping;
    return false;
  }
  ticks = gate_state.InOrder(ticks);
  gate_state.range_open = true;
  gate_state.range_tid = tid;
  if (gate_state.open.is_open) gate_state.FinishStep(ticks);  // --step-extent period
  OpenDueStep(&section, ticks, tid, /*may_hold=*/true);
  gate_state.TryPendingStop();
  return true;
}

void StepGate::OnStepEnd(uint64_t ticks) noexcept {
  if (IsInert()) return;
  Section section;
  if (!gate_state.range_open) return;
  gate_state.range_open = false;
  if (gate_state.config.extent == GateConfig::Extent::kPeriod) return;
  if (gate_state.open.is_open) gate_state.FinishStep(gate_state.InOrder(ticks));
  gate_state.TryPendingStop();
}

void StepGate::OnBoundary(uint64_t ticks, uint32_t tid, uint64_t count) noexcept {
  if (IsInert()) return;
  Section section;
  ticks = gate_state.InOrder(ticks);
  while (count > 0) {
    if (gate_state.open.is_open) gate_state.FinishStep(ticks);
    const uint64_t ahead = gate_state.StepsUntilCollecting();
    const uint64_t skipped = count - 1 < ahead ? count - 1 : ahead;
    gate_state.SkipSteps(skipped);
    count -= skipped;
    OpenDueStep(&section, ticks, tid, /*may_hold=*/false);
    --count;
  }
  gate_state.TryPendingStop();
}

void StepGate::DropOpenStep() noexcept {
  if (IsInert()) return;
  Section section;
  if (!gate_state.range_open && !gate_state.cycle_open) gate_state.open = {};
}

StepGate::Snapshot StepGate::snapshot() noexcept {
  Section section;
  return gate_state.TakeSnapshot();
}

StepGate::Pace StepGate::pace() noexcept {
  Section section;
  return {gate_state.RestingPhase(), gate_state.StepsUntilCollecting(), gate_state.last_ticks};
}

void StepGate::SetArmed(bool armed, uint64_t now_ticks) noexcept {
  if (IsInert()) return;
  {
    Section section;
    gate_state.SetArmed(armed, gate_state.InOrder(now_ticks));
    gate_state.TryPendingStop();
  }
  FutexWake(&g_words->armed);
}

void StepGate::SetCudaPresent(bool present, bool was_there) noexcept {
  Section section;
  gate_state.cuda_present = present;
  if (was_there) gate_state.open.had_cuda = true;
}

void StepGate::SetTailPending(bool pending) noexcept {
  Section section;
  gate_state.tail_pending = pending;
  gate_state.TryPendingStop();
}

void StepGate::HoldUntilArmed() noexcept {
  uint64_t limit = 0;
  {
    Section section;
    if (IsInert() || !gate_state.cycle_open || !gate_state.cuda_present) return;
    gate_state.awaiting_arm = true;
    limit = gate_state.config.arm_wait_ns;
  }
  const uint64_t waited = WaitForArming(limit);
  Section section;
  gate_state.arm_wait_ns += waited;
}

uint64_t StepGate::arm_wait_ns() const noexcept {
  Section section;
  return gate_state.arm_wait_ns;
}
uint64_t StepGate::events_dropped() const noexcept { return gate_state.events.dropped(); }
bool StepGate::PopEvent(GateEvent* out) noexcept { return gate_state.events.Pop(out); }

uint32_t StepGate::CopyDurations(StepDuration* out, uint32_t room, uint64_t* total) noexcept {
  uint32_t copied = 0;
  while (true) {
    Section section;
    *total = gate_state.durations.ended();
    const uint32_t chunk = room - copied < kCopyChunk ? room - copied : kCopyChunk;
    const uint32_t got = gate_state.durations.Copy(copied, out + copied, chunk);
    copied += got;
    if (got == 0 || copied == room) return copied;
  }
}

}  // namespace stepagent::core
