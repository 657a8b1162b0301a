#include "agent/core/gate_state.h"

#include <atomic>

#include "agent/core/phase_words.h"

namespace stepagent::core {
namespace {

void SetBits(uint32_t bits) { g_words->bits.fetch_or(bits, std::memory_order_release); }
void ClearBits(uint32_t bits) {
  // Looked at first: every hot path reads this line, and steps come often.
  if ((g_words->bits.load(std::memory_order_relaxed) & bits) == 0) return;
  g_words->bits.fetch_and(~bits, std::memory_order_release);
}

bool IsCollecting(Phase phase) { return phase == Phase::kWarmup || phase == Phase::kActive; }
bool IsFromUser(Ended why) { return why == Ended::kSignal || why == Ended::kRequest; }

}  // namespace

constinit GateEvents GateState::events_storage;
constinit StepDurations GateState::durations_storage;

void GateState::Reset(const GateConfig& new_config) noexcept {
  config = new_config;
  mode = Mode::kUnarmed;
  phase = Phase::kIdle;
  schedule = {};
  first_step = 0;
  process_next = 0;
  open = {};
  range_open = holding = cycle_open = window_open = adjoins = false;
  tail_pending = cuda_present = armed = awaiting_arm = held_in_time = wake = false;
  stop_pending = stop_when_ready = Ended::kNone;
  cycle = cycles_begun = range_tid = 0;
  was_capped = false;
  windows = last_ticks = window_begin_ticks = last_end_ticks = overlapping = arm_wait_ns = 0;
  events.Reset();
  durations.Reset();
  ClearBits(kBitRanges | kBitCalls | kBitCountNames);
}

// --- arming ---

void GateState::ArmSchedule(const Schedule& new_schedule, int64_t new_first_step) noexcept {
  schedule = new_schedule;
  first_step = new_first_step;
  mode = Mode::kScheduled;
  phase = Phase::kWaiting;
  // Until a step matches, the most frequent ranges are what helps the user find the right name.
  if ((g_words->bits.load(std::memory_order_relaxed) & kBitStepSource) != 0)
    SetBits(kBitCountNames);
}

bool GateState::ArmWhole(uint64_t ticks) noexcept {
  if (!BeginCycle(ticks)) return false;
  mode = Mode::kWhole;
  phase = Phase::kWarmup;
  SetBits(kBitCountNames);
  if (!cuda_present || armed) OpenWindow(ticks);
  return true;
}

bool GateState::IsArming() const noexcept {
  return holding ||
         (cycle_open && cuda_present && g_words->armed.load(std::memory_order_relaxed) == 0);
}

StepGate::Verdict GateState::Stop(Ended why, bool at_once, uint64_t ticks) noexcept {
  using Verdict = StepGate::Verdict;
  if (mode == Mode::kUnarmed) return Verdict::kBusy;
  if (IsFromUser(why) && ((IsArming() && !window_open) || (tail_pending && !cycle_open)))
    return Verdict::kBusy;
  if (!window_open) {
    Cancel(why, ticks);
    return Verdict::kOk;
  }
  const bool has_step = open.is_open && mode == Mode::kScheduled;
  if (has_step && !at_once) {
    if (stop_pending != Ended::kNone) return Verdict::kBusy;
    stop_pending = why;
    return Verdict::kOk;
  }
  // With no step open the window ended when its last step did.
  const uint64_t end = has_step || mode == Mode::kWhole ? ticks : last_end_ticks;
  CutOpenStep(ticks);
  CloseWindow(why, end);
  return Verdict::kOk;
}

StepGate::Verdict GateState::StopWhenReady(Ended why, uint64_t ticks) noexcept {
  if (mode == Mode::kUnarmed) return StepGate::Verdict::kBusy;
  const StepGate::Verdict verdict = Stop(why, /*at_once=*/true, ticks);
  stop_when_ready = verdict == StepGate::Verdict::kBusy ? why : Ended::kNone;
  return StepGate::Verdict::kOk;
}

void GateState::SetArmed(bool is_armed, uint64_t ticks) noexcept {
  const bool rises = is_armed && !armed;
  armed = is_armed;
  g_words->armed.store(1, std::memory_order_release);  // armed or given up: nobody need wait
  if (rises && open.is_open && IsCollecting(open.phase)) {
    open.flags |= kStepContainsTracerStart;
    // A step that began before CUDA did has missed nothing.
    if (open.phase == Phase::kActive && open.had_cuda) open.flags |= kStepDevicePartial;
  }
  if (mode == Mode::kWhole && cycle_open && !window_open) OpenWindow(ticks);
}

// --- cycles ---

bool GateState::BeginCycle(uint64_t ticks) noexcept {
  if (!events.HasRoomForCycle()) {
    events.CountDropped();
    ClearBits(config.collect_bits);
    adjoins = armed = false;
    return false;
  }
  cycle = cycles_begun++;
  cycle_open = true;
  adjoins = false;
  awaiting_arm = held_in_time = false;
  g_words->armed.store(armed ? 1 : 0, std::memory_order_release);
  PushCycleEvent(GateEvent::Kind::kWarmupBegin, Ended::kNone, ticks);
  SetBits(config.collect_bits);  // after the event, so that no record comes before it
  wake = true;
  return true;
}

void GateState::OpenWindow(uint64_t ticks) noexcept {
  window_open = true;
  window_begin_ticks = ticks;
  last_end_ticks = ticks;
  phase = Phase::kActive;
  ++windows;
  PushCycleEvent(GateEvent::Kind::kActiveBegin, Ended::kNone, ticks);
  wake = true;
}

void GateState::CloseWindow(Ended why, uint64_t end_ticks) noexcept {
  window_open = cycle_open = false;
  stop_pending = Ended::kNone;
  tail_pending = true;
  wake = true;
  const bool goes_on = mode == Mode::kScheduled &&
                       (why == Ended::kSchedule || why == Ended::kLimit || why == Ended::kError);
  const StepPlan next = NextPlan();
  adjoins = goes_on && HasCyclesLeft() && next.is_first_of_cycle;
  if (!adjoins) {
    ClearBits(config.collect_bits);
    armed = false;
  }
  PushCycleEvent(GateEvent::Kind::kActiveEnd, why, end_ticks);
  if (goes_on && HasCyclesLeft() && next.phase != Phase::kDone) {
    phase = Phase::kWaiting;
  } else {
    was_capped |= goes_on && next.phase != Phase::kDone;
    Retire(IsFromUser(why) ? Phase::kIdle : Phase::kDone);
  }
}

void GateState::Cancel(Ended why, uint64_t ticks) noexcept {
  CutOpenStep(ticks);
  ClearBits(config.collect_bits);
  if (cycle_open) {
    PushCycleEvent(GateEvent::Kind::kCancelled, why, ticks);
    wake = true;
  }
  cycle_open = adjoins = armed = false;
  Retire(IsFromUser(why) ? Phase::kIdle : Phase::kDone);
}

// The open step goes on for the application and for the durations, but is reported as ended here.
void GateState::CutOpenStep(uint64_t ticks) noexcept {
  if (!open.is_open) return;
  open.is_last_active = false;
  open.flags |= kStepCut;
  if (open.has_event) PushStepEvent(GateEvent::Kind::kStepEnd, ticks);
  open.has_event = false;
}

void GateState::Retire(Phase resting) noexcept {
  mode = Mode::kUnarmed;
  stop_when_ready = Ended::kNone;
  phase = resting;
  ClearBits(kBitCountNames);
}

// --- steps ---

StepPlan GateState::NextPlan() const noexcept {
  const int64_t index = NextIndex();
  return mode != Mode::kScheduled || index < 0 ? StepPlan{}
                                               : PlanStep(schedule, static_cast<uint64_t>(index));
}

void GateState::PrepareStep(uint64_t ticks) noexcept {
  if (mode != Mode::kWhole) ClearBits(kBitCountNames);
  if (mode != Mode::kScheduled) return;
  const StepPlan plan = NextPlan();
  if (plan.phase == Phase::kDone || (!cycle_open && !HasCyclesLeft())) {
    Retire(Phase::kDone);
    return;
  }
  phase = Phase::kWaiting;
  if (!IsCollecting(plan.phase)) return;
  // Not the first and no cycle open: the rest of a cycle that was cut or left out.
  if (!cycle_open && (!plan.is_first_of_cycle || !BeginCycle(ticks))) return;
  phase = plan.phase;
}

bool GateState::MustHold() const noexcept {
  return mode == Mode::kScheduled && phase == Phase::kActive && !window_open && cuda_present &&
         config.arm_wait_ns != 0 && g_words->armed.load(std::memory_order_acquire) == 0;
}

void GateState::BeginStep(uint64_t ticks, uint32_t tid) noexcept {
  const StepPlan plan = NextPlan();
  const bool is_scheduled = mode == Mode::kScheduled && cycle_open;
  if (is_scheduled && phase == Phase::kActive && !window_open) OpenWindow(ticks);
  open = OpenStep{.is_open = true};
  open.phase = cycle_open ? phase : Phase::kWaiting;
  open.is_last_active = is_scheduled && plan.is_last_active;
  open.had_cuda = cuda_present;
  open.cycle = cycle;
  open.tid = tid;
  open.index = mode == Mode::kScheduled ? static_cast<uint64_t>(NextIndex()) : 0;
  open.process_index = process_next++;
  open.begin_ticks = ticks;
  if (held_in_time) open.flags |= kStepContainsTracerStart;
  held_in_time = false;
  durations.OnBegin(ticks);
  if (!is_scheduled) return;
  open.has_event = events.HasRoomForStep();
  if (open.has_event) {
    PushStepEvent(GateEvent::Kind::kStepBegin, ticks);
  } else {
    events.CountDropped();
  }
}

void GateState::FinishStep(uint64_t ticks) noexcept {
  const uint32_t collecting = open.phase == Phase::kActive   ? 2
                              : open.phase == Phase::kWarmup ? 1
                              : tail_pending                 ? 3
                                                             : 0;
  durations.OnEnd({open.process_index, ticks - open.begin_ticks, collecting});
  if (open.phase == Phase::kActive && open.had_cuda && IsArming()) {
    open.flags |= kStepContainsTracerStart | kStepDevicePartial;
  }
  if (open.has_event) PushStepEvent(GateEvent::Kind::kStepEnd, ticks);
  open.is_open = open.has_event = false;
  last_end_ticks = ticks;
  if (!window_open || mode != Mode::kScheduled) return;
  if (open.is_last_active) {
    CloseWindow(Ended::kSchedule, ticks);
  } else if (stop_pending != Ended::kNone) {
    CloseWindow(stop_pending, ticks);
  }
}

uint64_t GateState::StepsUntilCollecting() const noexcept {
  if (cycle_open) return 0;
  if (mode != Mode::kScheduled || !HasCyclesLeft()) return UINT64_MAX;
  const int64_t index = NextIndex();
  if (index >= 0) return StepsUntilCycle(schedule, static_cast<uint64_t>(index));
  const uint64_t after = StepsUntilCycle(schedule, 0);
  return after == UINT64_MAX ? after : after + static_cast<uint64_t>(-index);
}

StepGate::Snapshot GateState::TakeSnapshot() const noexcept {
  StepGate::Snapshot shot;
  shot.phase = RestingPhase();
  shot.cycle = cycles_begun;
  shot.process_index = open.is_open ? open.process_index : process_next;
  if (mode == Mode::kScheduled) {
    const int64_t index = NextIndex() - (open.is_open ? 1 : 0);
    shot.step_index = index < 0 ? 0 : static_cast<uint64_t>(index);
  }
  shot.step_open = open.is_open;
  shot.last_ticks = last_ticks;
  shot.wants_device = cycle_open || adjoins;
  shot.window_open = window_open;
  shot.window_begin_ticks = window_begin_ticks;
  shot.steps_until_collecting = StepsUntilCollecting();
  shot.median_step_ticks = durations.MedianPeriod();
  shot.overlapping = overlapping;
  shot.cap = was_capped ? config.max_cycles : 0;
  shot.awaiting_arm = awaiting_arm;
  shot.armed = armed;
  return shot;
}

// --- events ---

void GateState::PushCycleEvent(GateEvent::Kind kind, Ended ended, uint64_t ticks) noexcept {
  GateEvent event{};
  event.kind = kind;
  event.phase = phase;
  event.ended = ended;
  event.cycle = cycle;
  event.ticks = ticks;
  event.process_index = open.is_open ? open.process_index : process_next;
  events.Push(event);
}

void GateState::PushStepEvent(GateEvent::Kind kind, uint64_t ticks) noexcept {
  GateEvent event{};
  event.kind = kind;
  event.phase = open.phase;
  event.flags = open.flags;
  event.cycle = open.cycle;
  event.tid = open.tid;
  event.index = open.index;
  event.process_index = open.process_index;
  event.ticks = ticks;
  events.Push(event);
}

}  // namespace stepagent::core
