#include "agent/trigger/profiler_range.h"

namespace stepagent::trigger {

void ProfilerRange::OnStart(uint64_t now_ticks) noexcept {
  const core::StepGate::Verdict verdict =
      schedule_ ? gate_->Arm(*schedule_, now_ticks) : gate_->ArmWhole(now_ticks);
  if (verdict != core::StepGate::Verdict::kOk) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  stop_pending_.store(false, std::memory_order_relaxed);
  // The caller's next launch belongs to the window. With a schedule the first active step waits.
  if (!schedule_) gate_->HoldUntilArmed();
}

void ProfilerRange::OnStop(uint64_t now_ticks) noexcept {
  stop_pending_.store(true, std::memory_order_release);
  (void)Poll(now_ticks);
}

bool ProfilerRange::Poll(uint64_t now_ticks) noexcept {
  if (!stop_pending_.load(std::memory_order_acquire)) return false;
  const core::Phase phase = gate_->snapshot().phase;
  const bool is_over = phase == core::Phase::kIdle || phase == core::Phase::kDone;
  if (!is_over && gate_->Stop(core::Ended::kRequest, /*at_once=*/true, now_ticks) ==
                      core::StepGate::Verdict::kBusy) {
    return true;
  }
  stop_pending_.store(false, std::memory_order_release);
  return false;
}

}  // namespace stepagent::trigger
