#include "agent/trigger/profiler_range.h"

namespace stepagent::trigger {

void ProfilerRange::OnStart(uint64_t now_ticks) noexcept {
  const core::StepGate::Verdict verdict =
      schedule_ ? gate_->Arm(*schedule_, now_ticks) : gate_->ArmWhole(now_ticks);
  if (verdict != core::StepGate::Verdict::kOk) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // The caller's next launch belongs to the window. With a schedule the first active step waits.
  if (!schedule_) gate_->HoldUntilArmed();
}

void ProfilerRange::OnStop(uint64_t now_ticks) noexcept {
  (void)gate_->StopWhenReady(core::Ended::kRequest, now_ticks);
}

}  // namespace stepagent::trigger
