#pragma once
// StepGate: where steps are counted and phases change.
//
// Purpose: the one state machine between step sources (NVTX range, signal, timer, whole run) and
// the phase controller. It applies the schedule, sets the hot path's bits at the very moment a
// phase changes, stamps steps, and leaves events for the drainer. It arms nothing itself.
// Thread rule: OnStepBegin, OnStepEnd and OnBoundary on any thread (third, cold path: a short lock,
// at most one futex wake, and for a first active step one bounded futex wait after the lock is
// gone). Arm*, Stop, Set* and snapshot take the same lock and may come on any thread too;
// TakeEvents on the thread `stepagent` only. A match on another thread while a step is open is
// overlapping: counted, never a step. Time is a parameter (ticks of HostClock).
// Failure rule: cannot fail; when its event ring is full the step's event is dropped and counted.
//
// States: idle (not armed) -> waiting -> warmup -> active -> waiting … -> done. `finishing` is what
// status shows while a window is closed, its device tail is not, and nothing newer runs. A request
// while a window is being armed or closed is answered busy.
#include <cstdint>

#include "agent/core/schedule.h"

namespace stepagent::core {

enum class Ended : uint8_t { kNone, kSchedule, kSignal, kRequest, kExit, kLimit, kError };
[[nodiscard]] const char* EndedName(Ended ended);

// What the drainer sends: one per change, in order.
struct GateEvent {
  enum class Kind : uint8_t {
    kStepBegin,
    kStepEnd,
    kWarmupBegin,
    kActiveBegin,
    kActiveEnd,
    kCancelled
  };
  Kind kind;
  Phase phase;    // steps: phase of the step
  Ended ended;    // kActiveEnd
  uint8_t flags;  // batch.proto StepFlag bits
  uint32_t cycle;
  uint32_t tid;    // thread that began the step
  uint64_t index;  // steps: from 0 at arming
  uint64_t process_index;
  uint64_t ticks;  // when; for kStepBegin after the arm wait
};

struct GateConfig {
  enum class Extent : uint8_t { kRange, kPeriod };
  Extent extent = Extent::kRange;
  uint64_t arm_wait_ns = 100'000'000;
  uint64_t max_cycles = 100;  // max-traces of the run; 0 none
  uint32_t collect_bits = 6;  // kBitRanges | kBitCalls: what a cycle sets
};

class StepGate {
 public:
  enum class Verdict : uint8_t { kOk, kBusy, kRefused };

  // --- set-up, before any bit is set
  // Forgets every step, event and schedule: also what a child does before it revives.
  void Configure(const GateConfig& config) noexcept;
  // Changes the settings for what is armed next and keeps the counts; kBusy when not idle or done.
  [[nodiscard]] Verdict Reconfigure(const GateConfig& config) noexcept;
  // The schedule counts from the next step. kBusy when not idle or done; kRefused while inert, for
  // an impossible schedule and past max_cycles. `whole`: no step source; one window from now until
  // Stop (or the end), without steps. Where CUDA is there to be armed the whole window opens when
  // SetArmed says that arming ended (either way); until then the phase is warmup.
  [[nodiscard]] Verdict Arm(const Schedule& schedule, uint64_t now_ticks) noexcept;
  [[nodiscard]] Verdict ArmWhole(uint64_t now_ticks) noexcept;
  // Arms so that process step `at_step` is the first active one (start --at-step). Early waits are
  // left out where there is no time for them; kRefused when a warmup step would be.
  [[nodiscard]] Verdict ArmAt(const Schedule& schedule, uint64_t at_step,
                              uint64_t now_ticks) noexcept;
  // waiting, warmup: cancelled. active: ends with the open step, at once when none is open (or when
  // `at_once` is set). Idle, done, finishing: kBusy; for kSignal and kRequest also while arming.
  // kLimit and kError end the cycle, not the schedule; kExit and the requests end both.
  [[nodiscard]] Verdict Stop(Ended why, bool at_once, uint64_t now_ticks) noexcept;
  // For an end that must come and may find the gate busy: stops at once, or as soon as what keeps
  // it busy is over (kOk either way). One is pending at most; it is forgotten when nothing is armed
  // any more. kBusy: nothing to stop.
  [[nodiscard]] Verdict StopWhenReady(Ended why, uint64_t now_ticks) noexcept;

  // --- step sources. OnStepBegin returns true when the range opened a step (then call OnStepEnd
  // once for it); false: an ordinary range (nested in the step on its own thread, or overlapping:
  // counted). An event is visible to the drainer before any record of its window is: a drainer that
  // looks at a ring's head first and takes events second sees every event of the records it saw.
  [[nodiscard]] bool OnStepBegin(uint64_t ticks, uint32_t tid) noexcept;
  void OnStepEnd(uint64_t ticks) noexcept;
  // Step k is [k, k+1): ends the open step, begins the next. `count` boundaries at once for a timer
  // that slept through a wait. Never held for arming: the caller may be the thread that arms.
  void OnBoundary(uint64_t ticks, uint32_t tid, uint64_t count = 1) noexcept;

  // A timer that stops: forgets an open step that nobody collects, without a duration.
  void DropOpenStep() noexcept;

  // --- phase controller
  struct Snapshot {
    Phase phase = Phase::kIdle;
    uint32_t cycle = 0;          // cycles begun so far
    uint64_t process_index = 0;  // of the open or next step
    uint64_t step_index = 0;     // since arming
    bool step_open = false;
    uint64_t last_ticks = 0;    // of all that was stamped; what comes later is not stamped before it
    bool wants_device = false;  // warmup or active: CUPTI should be on
    bool window_open = false;
    uint64_t window_begin_ticks = 0;
    uint64_t steps_until_collecting = 0;  // UINT64_MAX never
    uint64_t median_step_ticks = 0;       // begin to begin, of recent steps; 0 unknown
    uint64_t overlapping = 0;
    uint64_t cap = 0;  // max_cycles once it kept a cycle from beginning; 0 it never did
    bool awaiting_arm = false;  // this cycle's first active step is (or was) held for arming
    bool armed = false;         // what SetArmed said for the cycle in progress
  };
  [[nodiscard]] Snapshot snapshot() noexcept;
  // What a timer looks at for each of its borders.
  struct Pace {
    Phase phase = Phase::kIdle;
    uint64_t steps_until_collecting = 0;
    uint64_t last_ticks = 0;
  };
  [[nodiscard]] Pace pace() noexcept;
  // Device arming ended (or is impossible): lets a held first step go. `cuda_present` says that
  // CUPTI can be armed at all: only then does a first active step wait. A window's end takes it
  // back to not armed unless the next step collects too; say so again in each cycle.
  void SetArmed(bool armed, uint64_t now_ticks) noexcept;
  // `was_there`: it was up before we were told, so that the open step may have missed work.
  void SetCudaPresent(bool present, bool was_there = false) noexcept;
  // All device tails are in: finishing -> waiting, idle or done.
  void SetTailPending(bool pending) noexcept;
  // For cudaProfilerStart: holds the caller until arming ended or arm_wait is over.
  void HoldUntilArmed() noexcept;
  // Total ns that first active steps were held.
  [[nodiscard]] uint64_t arm_wait_ns() const noexcept;

  // --- drainer
  template <typename F>
  uint32_t TakeEvents(F&& each) noexcept {
    GateEvent event;
    uint32_t taken = 0;
    while (PopEvent(&event)) {
      each(event);
      ++taken;
    }
    return taken;
  }
  [[nodiscard]] uint64_t events_dropped() const noexcept;

  // Every step's host duration since step 0: the first 10,000, then a reservoir of as many.
  struct StepDuration {
    uint64_t index;  // process_index
    uint64_t ticks;
    uint32_t collecting;  // 0 not, 1 warmup, 2 active, 3 finishing
  };
  static constexpr uint32_t kKeptDurations = 10000;
  // Copies up to `room` entries; returns how many; *total is the count of all steps ended.
  uint32_t CopyDurations(StepDuration* out, uint32_t room, uint64_t* total) noexcept;

 private:
  bool PopEvent(GateEvent* out) noexcept;
};

// The process's gate. Static storage, trivially destructible: late calls after exit began are
// harmless.
[[nodiscard]] StepGate& Gate() noexcept;

}  // namespace stepagent::core
