#pragma once
// Schedule: torch.profiler's schedule as one pure function.
//
// Purpose: step number in, phase out. Nothing else in the agent knows the arithmetic.
// Thread rule: pure.
// Failure rule: cannot fail; the values were checked when parsed.
#include <cstdint>

namespace stepagent::core {

// Values as in batch.proto's Phase.
enum class Phase : uint8_t {
  kIdle = 0,
  kWaiting = 1,
  kWarmup = 2,
  kActive = 3,
  kFinishing = 4,
  kDone = 5
};
[[nodiscard]] const char* PhaseName(Phase phase);

struct Schedule {
  uint64_t skip_first = 0, wait = 0, warmup = 0, active = 1, repeat = 0;
  bool skip_first_wait = false;
};

struct StepPlan {
  Phase phase = Phase::kWaiting;  // kWaiting, kWarmup, kActive or kDone (never active again)
  uint64_t cycle = 0;             // of warmup and active steps
  bool is_last_active = false;    // the cycle's window ends with this step
  bool is_first_active = false;
  bool is_first_of_cycle = false;  // first warmup step, or first active one when warmup is 0
};
// `step` counts from 0 at arming, as torch.profiler counts from its start.
[[nodiscard]] StepPlan PlanStep(const Schedule& schedule, uint64_t step);
// Steps from `step` to the next that is warmup or active (0 if it is one); UINT64_MAX: never.
[[nodiscard]] uint64_t StepsUntilCollecting(const Schedule& schedule, uint64_t step);
// Steps from `step` to the next that is_first_of_cycle (0 if it is one); UINT64_MAX: never.
[[nodiscard]] uint64_t StepsUntilCycle(const Schedule& schedule, uint64_t step);

}  // namespace stepagent::core
