#pragma once
// GateState: the step gate's state machine, without its lock.
//
// Purpose: every transition in one place, each a short function; StepGate adds the lock, the wait
// for arming and the wakes.
// Thread rule: every method under the gate's lock.
// Failure rule: cannot fail; a cycle that finds no room for its events is left out and counted.
//
// Invariants: 1. window_open implies cycle_open. 2. The collecting bits are set exactly while a
// cycle is open, or between two cycles with no step in between. 3. `mode` kUnarmed implies no open
// cycle.
#include <cstdint>

#include "agent/core/gate_events.h"
#include "agent/core/schedule.h"
#include "agent/core/step_durations.h"
#include "agent/core/step_gate.h"

namespace stepagent::core {

// StepFlag of batch.proto.
inline constexpr uint8_t kStepContainsTracerStart = 1;
inline constexpr uint8_t kStepDevicePartial = 2;
inline constexpr uint8_t kStepCut = 4;

class GateState {
 public:
  void Reset(const GateConfig& new_config) noexcept;

  // Callers stamp before they hold the lock, so a stamp may be older than what was done meanwhile.
  // What is written never goes back.
  [[nodiscard]] uint64_t InOrder(uint64_t ticks) noexcept {
    if (ticks > last_ticks) last_ticks = ticks;
    return last_ticks;
  }

  // --- arming
  [[nodiscard]] bool CanArm() const noexcept { return mode == Mode::kUnarmed && !tail_pending; }
  [[nodiscard]] bool HasCyclesLeft() const noexcept {
    return config.max_cycles == 0 || windows < config.max_cycles;
  }
  // Remembers when the answer is no: the user is told that the cap held a cycle back.
  [[nodiscard]] bool MayBeginCycle() noexcept {
    was_capped |= !HasCyclesLeft();
    return HasCyclesLeft();
  }
  void ArmSchedule(const Schedule& new_schedule, int64_t first_step) noexcept;
  [[nodiscard]] bool ArmWhole(uint64_t ticks) noexcept;
  [[nodiscard]] StepGate::Verdict Stop(Ended why, bool at_once, uint64_t ticks) noexcept;
  [[nodiscard]] StepGate::Verdict StopWhenReady(Ended why, uint64_t ticks) noexcept;
  // After every change that may have ended what kept a stop waiting; stamped with what was last.
  void TryPendingStop() noexcept {
    if (stop_when_ready != Ended::kNone) (void)StopWhenReady(stop_when_ready, last_ticks);
  }
  void SetArmed(bool is_armed, uint64_t ticks) noexcept;

  // --- steps. PrepareStep enters the phase of the step about to begin (and begins its cycle);
  // MustHold says that it is a first active step that should wait for arming; BeginStep opens it.
  void PrepareStep(uint64_t ticks) noexcept;
  [[nodiscard]] bool MustHold() const noexcept;
  void BeginStep(uint64_t ticks, uint32_t tid) noexcept;
  void FinishStep(uint64_t ticks) noexcept;
  // Counts `count` steps that nobody collects, without stamps of their own.
  void SkipSteps(uint64_t count) noexcept { process_next += count; }
  [[nodiscard]] uint64_t StepsUntilCollecting() const noexcept;
  // The phase as others see it: `finishing` where only a tail is left.
  [[nodiscard]] Phase RestingPhase() const noexcept {
    return tail_pending && !cycle_open && !adjoins ? Phase::kFinishing : phase;
  }
  [[nodiscard]] StepGate::Snapshot TakeSnapshot() const noexcept;

  enum class Mode : uint8_t { kUnarmed, kScheduled, kWhole };
  struct OpenStep {
    bool is_open = false;
    bool has_event = false;  // its begin went out: so must its end
    bool is_last_active = false;
    bool had_cuda = false;  // CUDA was there when it began
    Phase phase = Phase::kIdle;
    uint8_t flags = 0;
    uint32_t cycle = 0;
    uint32_t tid = 0;
    uint64_t index = 0, process_index = 0, begin_ticks = 0;
  };

  GateConfig config;
  Mode mode = Mode::kUnarmed;
  Phase phase = Phase::kIdle;  // as of the last step begun; kIdle or kDone while unarmed
  Schedule schedule;
  int64_t first_step = 0;     // process index of step 0; ahead of process_next with ArmAt
  uint64_t process_next = 0;  // index of the next step to begin
  OpenStep open;
  bool range_open = false;  // the range that opened the step; also while it is being held
  bool holding = false;
  uint32_t range_tid = 0;
  bool cycle_open = false;  // between kWarmupBegin and kActiveEnd or kCancelled
  bool window_open = false;
  bool adjoins = false;  // between two cycles with no step in between
  bool tail_pending = false;
  bool cuda_present = false;
  bool armed = false;
  bool awaiting_arm = false;
  bool held_in_time = false;  // the hold ended because arming did
  Ended stop_pending = Ended::kNone;     // with the open step's end
  Ended stop_when_ready = Ended::kNone;  // at once, when the gate is not busy any more
  uint32_t cycle = 0, cycles_begun = 0;
  uint64_t windows = 0;
  bool was_capped = false;  // max_cycles kept a cycle from beginning
  uint64_t last_ticks = 0, window_begin_ticks = 0, last_end_ticks = 0;
  uint64_t overlapping = 0, arm_wait_ns = 0;
  bool wake = false;  // the caller wakes `stepagent` once the lock is gone
  // Half a megabyte that is zero until used: apart, so that it lies in .bss.
  GateEvents& events = events_storage;
  StepDurations& durations = durations_storage;

 private:
  static GateEvents events_storage;
  static StepDurations durations_storage;

  [[nodiscard]] int64_t NextIndex() const noexcept {
    return static_cast<int64_t>(process_next) - first_step;
  }
  [[nodiscard]] StepPlan NextPlan() const noexcept;
  [[nodiscard]] bool BeginCycle(uint64_t ticks) noexcept;
  void OpenWindow(uint64_t ticks) noexcept;
  void CloseWindow(Ended why, uint64_t end_ticks) noexcept;
  void Cancel(Ended why, uint64_t ticks) noexcept;
  void CutOpenStep(uint64_t ticks) noexcept;
  void Retire(Phase resting) noexcept;
  void PushCycleEvent(GateEvent::Kind kind, Ended ended, uint64_t ticks) noexcept;
  void PushStepEvent(GateEvent::Kind kind, uint64_t ticks) noexcept;
  [[nodiscard]] bool IsArming() const noexcept;
};

}  // namespace stepagent::core
