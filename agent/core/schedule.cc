#include "agent/core/schedule.h"

namespace stepagent::core {
namespace {

// Values are only bounded by what a user may type, so sums saturate.
uint64_t Add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kWaiting:
      return "waiting";
    case Phase::kWarmup:
      return "warmup";
    case Phase::kActive:
      return "active";
    case Phase::kFinishing:
      return "finishing";
    case Phase::kDone:
      return "done";
  }
  return "idle";
}

StepPlan PlanStep(const Schedule& schedule, uint64_t step) {
  StepPlan plan;
  if (schedule.active == 0) {
    plan.phase = Phase::kDone;
    return plan;
  }
  if (step < schedule.skip_first) return plan;
  // skip_first_wait shifts the first cycle (and with it the count of repeats) left by its wait.
  const uint64_t offset =
      Add(step - schedule.skip_first, schedule.skip_first_wait ? schedule.wait : 0);
  const uint64_t lead = Add(schedule.wait, schedule.warmup);
  const uint64_t length = Add(lead, schedule.active);
  const uint64_t cycle = offset / length;
  if (schedule.repeat > 0 && cycle >= schedule.repeat) {
    plan.phase = Phase::kDone;
    return plan;
  }
  const uint64_t place = offset % length;
  if (place < schedule.wait) return plan;
  plan.cycle = cycle;
  plan.phase = place < lead ? Phase::kWarmup : Phase::kActive;
  plan.is_first_of_cycle = place == schedule.wait;
  plan.is_first_active = place == lead;
  plan.is_last_active = place == length - 1;
  return plan;
}

uint64_t StepsUntilCollecting(const Schedule& schedule, uint64_t step) {
  const Phase phase = PlanStep(schedule, step).phase;
  if (phase == Phase::kWarmup || phase == Phase::kActive) return 0;
  return StepsUntilCycle(schedule, step);
}

uint64_t StepsUntilCycle(const Schedule& schedule, uint64_t step) {
  const StepPlan plan = PlanStep(schedule, step);
  if (plan.phase == Phase::kDone) return UINT64_MAX;
  if (plan.is_first_of_cycle) return 0;
  uint64_t ahead = 0;
  if (step < schedule.skip_first) {
    ahead = Add(schedule.skip_first - step, schedule.skip_first_wait ? 0 : schedule.wait);
  } else {
    const uint64_t length = Add(Add(schedule.wait, schedule.warmup), schedule.active);
    const uint64_t place =
        Add(step - schedule.skip_first, schedule.skip_first_wait ? schedule.wait : 0) % length;
    ahead = place < schedule.wait ? schedule.wait - place : Add(length - place, schedule.wait);
  }
  const uint64_t target = Add(step, ahead);
  return PlanStep(schedule, target).is_first_of_cycle ? ahead : UINT64_MAX;
}

}  // namespace stepagent::core
