#include "agent/phase_controller.h"

#include <algorithm>
#include <utility>

#include "agent/core/clock.h"
#include "agent/cupti/driver.h"
#include "agent/drain/redactor.h"
#include "agent/guard/log.h"
#include "agent/mutex_lock.h"
#include "agent/unwind/stack_capture.h"
#include "proto/settings.h"

namespace stepagent::agent {
namespace {

using core::HostClock;
using cupti::GpuState;

constexpr uint64_t kNsPerMs = 1'000'000;
// Work that has not come back this long after its window's end is reported as not observed.
constexpr uint64_t kGraceNs = 5'000'000'000;
// A plain flush returns nothing while the front buffer holds unfinished work, so ask soon at first,
// then seldom.
constexpr uint64_t kFirstFlushPauseNs = 2'000'000;
constexpr uint64_t kLongestFlushPauseNs = 100'000'000;
// While recording: how old a record in a half-filled CUPTI buffer may get.
constexpr uint64_t kActiveFlushNs = 1'000'000'000;
// Subscribing costs tens of ms: not worth giving up the slot for a shorter wait.
constexpr uint64_t kReleaseAfterNs = 2'000'000'000;

// batch.proto CycleEvent.Kind
constexpr uint32_t kArmedEvent = 2, kClosedEvent = 5;

std::string TooManyTails() {
  return "more than " + std::to_string(drain::Drainer::kMostWindows) +
         " cycles waited for device records at once: this one was given up";
}

}  // namespace

uint64_t ThreadCpuNs() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

PhaseController::PhaseController(core::StepGate* gate, cupti::CuptiBackend* backend)
    : gate_(gate), backend_(backend), grace_ns_(kGraceNs) {}

void PhaseController::OnCuda() {
  // Our own thread's cuInit, with the mutex held: nothing new.
  if (cupti::Driver::IsInOwnInit()) return;
  MutexLock lock(&arm_mutex_);
  backend_->NoteCuda();
  has_cuda_.store(true, std::memory_order_release);
  gate_->SetCudaPresent(true);
  // Work launched right after this call belongs to the open window: arm before it can come.
  if (gate_->snapshot().wants_device && !backend_->IsArmed()) ArmLocked(/*inside_injection=*/true);
}

// CUDA may be up without our having been told: another tool holds the injection variable, we came
// late, or it is the toolkit's stub library, which calls nobody.
void PhaseController::LookForCuda() {
  if (has_cuda_ || backend_->MustNoteCuda() || !backend_->CudaIsMapped()) return;
  cupti::Driver driver;
  int count = 0;
  if (!driver.Find()) return;
  const int result = driver.DeviceCount(&count);
  if (result != cupti::kCudaOk && result != cupti::kCudaStubLibrary) return;
  MutexLock lock(&arm_mutex_);
  backend_->NoteCuda();
  has_cuda_.store(true, std::memory_order_release);
  const bool is_usable = result == cupti::kCudaOk;
  gate_->SetCudaPresent(true, /*was_there=*/is_usable);
  cuda_found_late_ = is_usable && gate_->snapshot().window_open;
}

std::vector<uint32_t> PhaseController::DevicesInUse() {
  std::vector<uint32_t> devices = drainer_->builder().DevicesInUse();
  if (IsRecording() || !has_cuda_) return devices;
  MutexLock lock(&arm_mutex_);
  for (const uint32_t device : backend_->ActivePrimaries()) devices.push_back(device);
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

void PhaseController::ArmLocked(bool inside_injection) {
  if ((options_.activities & kDeviceKinds) == 0 || arm_tried_) {
    gate_->SetArmed(false, HostClock::Ticks());
    return;
  }
  arm_tried_ = cycle_tried_ = true;
  const uint64_t begin = HostClock::MonotonicNs();
  backend_->Arm(Request(inside_injection));
  must_renew_ = false;
  const bool is_armed = backend_->IsArmed();
  if (is_armed && came_too_early_) armed_at_second_try_.store(true, std::memory_order_relaxed);
  came_too_early_ = !is_armed && backend_->CameTooEarly();
  if (came_too_early_) arm_tried_ = false;  // not the last word: ArmIfWanted tries from outside
  arm_ns_ = HostClock::MonotonicNs() - begin;
  const uint64_t now = HostClock::Ticks();
  gate_->SetArmed(is_armed, now);
  armed_at_ticks_ = is_armed ? now : 0;
}

// Nothing of libunwind is in the process before the first cycle that wants stacks.
bool PhaseController::PrepareStacks() {
  const std::string why = unwind::StackCapture::Prepare();
  if (!why.empty() && why != stacks_problem_) {
    guard::Log(proto::LogLevel::kWarn, "launches are recorded without their stacks: " + why);
  }
  stacks_problem_ = why;
  if (!why.empty()) return false;
  backend_->SetStackSource(&unwind::StackCapture::Take);
  return true;
}

void PhaseController::ArmIfWanted(const core::StepGate::Snapshot& gate) {
  MutexLock lock(&arm_mutex_);
  if (!gate.wants_device) return;
  if (backend_->IsArmed()) {
    if (must_renew_) {
      RenewLocked();
    } else if (!callbacks_on_) {
      backend_->EnableCallbacks();
    }
    callbacks_on_ = backend_->IsArmed();
    if (!gate.armed || !callbacks_on_) gate_->SetArmed(callbacks_on_, HostClock::Ticks());
    return;
  }
  if (!has_cuda_) return;
  if (arm_tried_) {
    if (gate.awaiting_arm) gate_->SetArmed(false, HostClock::Ticks());
    return;
  }
  ArmLocked(/*inside_injection=*/false);
  callbacks_on_ = backend_->IsArmed();
}

void PhaseController::OnGateEvent(const core::GateEvent& event, uint64_t now_ns) {
  using Kind = core::GateEvent::Kind;
  switch (event.kind) {
    case Kind::kWarmupBegin:
      BeginCycle(event.cycle);
      break;
    case Kind::kActiveBegin:
      window_begin_ticks_ = event.ticks;
      break;
    case Kind::kActiveEnd:
      BeginTail(event, now_ns);
      break;
    case Kind::kCancelled:
      recording_ = false;
      ForgetFirstTry();
      armed_at_second_try_.store(false, std::memory_order_relaxed);  // no cycle lacks anything
      cancelled_ = true;
      break;
    case Kind::kStepBegin:
    case Kind::kStepEnd:
      break;
  }
}

void PhaseController::BeginTail(const core::GateEvent& event, uint64_t now_ns) {
  recording_ = false;
  ForgetFirstTry();
  ClosingCycle& closing = closing_.emplace_back();
  closing.cycle = event.cycle;
  closing.since_ns = closing.next_flush_ns = now_ns;
  closing.flush_pause_ns = kFirstFlushPauseNs;
  closing.is_fresh = true;
  if (event.ended == core::Ended::kLimit) closing.limit = limit_reason_;
  closing.shared_drops = std::exchange(shared_drops_, 0);
  gate_->SetTailPending(true);
  MutexLock lock(&arm_mutex_);
  if (!backend_->IsArmed() || backend_->NoteLoss()) return;
  closing.at_end = {backend_->state(), backend_->kinds()};
}

// A later cycle's arming is no second try of this one's.
void PhaseController::ForgetFirstTry() {
  MutexLock lock(&arm_mutex_);
  came_too_early_ = false;
}

void PhaseController::BeginCycle(uint32_t cycle) {
  NoteDrops();
  shared_drops_ = 0;
  cycle_ = cycle;
  recording_ = true;
  cuda_found_late_ = false;
  {
    MutexLock lock(&arm_mutex_);
    cycle_tried_ = backend_->IsArmed() || arm_tried_;
    must_renew_ = backend_->IsArmed();
    if (!must_renew_) arm_tried_ = false;
  }
  LookForCuda();
  const cupti::BackendCounters counters = backend_->counters();
  callbacks_before_ = counters.callbacks;
  arm_wait_before_ = gate_->arm_wait_ns();
  cpu_before_ns_ = ThreadCpuNs();
  stacks_full_before_ = unwind::StackCapture::table().overflowed();
  stacks_not_taken_before_ = unwind::StackCapture::not_taken();
  drainer_->SetCycle(cycle);
  MutexLock lock(&arm_mutex_);
  TakeClockSample();
}

// Device stamps are in CUPTI's clock. That is CLOCK_REALTIME on most machines, not on all (WSL),
// and without the library there is nothing to map.
void PhaseController::TakeClockSample() {
  if (backend_->DeviceClockNs() == 0) return;
  const auto device_clock = [](void* backend) {
    return static_cast<int64_t>(static_cast<cupti::CuptiBackend*>(backend)->DeviceClockNs());
  };
  drainer_->builder().AddClockSample(HostClock::TakeSample(device_clock, backend_));
}

uint64_t PhaseController::RunOnce(uint64_t now_ns) {
  const core::StepGate::Snapshot gate = gate_->snapshot();
  if (gate.wants_device) HostClock::Calibrate(false);
  ArmIfWanted(gate);
  EmitArmed();
  WatchWindow(gate, now_ns);
  CloseTails(gate, now_ns);
  DropCancelled(gate);
  ReleaseIfIdle(gate);
  return NextWake(gate, now_ns);
}

// Written by OnCuda on an application's thread or by ArmIfWanted; the builder is ours alone.
void PhaseController::EmitArmed() {
  uint64_t ticks;
  {
    MutexLock lock(&arm_mutex_);
    ticks = armed_at_ticks_;
    armed_at_ticks_ = 0;
    if (ticks != 0) {
      callbacks_on_ = true;
      drainer_->SetAwaited(EnabledKinds());
      TakeClockSample();
    }
  }
  if (ticks == 0) return;
  drainer_->builder().AddCycleEvent(cycle_, kArmedEvent, HostClock::ToNs(ticks), "");
}

void PhaseController::WatchWindow(const core::StepGate::Snapshot& gate, uint64_t now_ns) {
  if (!gate.window_open) return;
  LookForCuda();
  const uint64_t open_ns = static_cast<uint64_t>(
      std::max<int64_t>(0, HostClock::NowNs() - HostClock::ToNs(gate.window_begin_ticks)));
  const bool too_long = options_.max_window_ns != 0 && open_ns >= options_.max_window_ns;
  const bool too_many =
      options_.max_records != 0 && drainer_->window_records() >= options_.max_records;
  if (too_long || too_many) {
    NameLimit(too_long ? "max-window reached: " +
                             std::to_string(options_.max_window_ns / kNsPerMs) + " ms"
                       : "max-records reached: " + std::to_string(options_.max_records));
    (void)gate_->Stop(core::Ended::kLimit, /*at_once=*/true, HostClock::Ticks());
    return;
  }
  if (backend_->IsArmed() && now_ns >= next_active_flush_ns_) {
    MutexLock lock(&arm_mutex_);
    backend_->FlushPlain();
    next_active_flush_ns_ = now_ns + kActiveFlushNs;
    TakeClockSample();
  }
}

void PhaseController::CloseTails(const core::StepGate::Snapshot& gate, uint64_t now_ns) {
  if (closing_.empty()) return;
  ClosingCycle& front = closing_.front();
  // The drain looks at rings before it takes events: the window's last calls come with the next
  // round.
  if (front.is_fresh) {
    front.is_fresh = false;
    return;
  }
  const bool grace_over = now_ns - front.since_ns >= grace_ns_;
  // A call that began in the window and has not returned still owes its record.
  const bool in_flight = backend_->IsArmed() && backend_->CallsInFlight() != 0;
  if (!gate.wants_device && callbacks_on_ && (!in_flight || grace_over)) {
    MutexLock lock(&arm_mutex_);
    if (backend_->IsArmed()) backend_->DisableCallbacks();
    callbacks_on_ = false;
  }
  const bool owed =
      backend_->IsArmed() && !backend_->IsLost() && drainer_->Outstanding(front.cycle) != 0;
  if ((owed || (in_flight && !gate.wants_device)) && !IsTailOver(gate, now_ns)) {
    if (now_ns < front.next_flush_ns) return;
    MutexLock lock(&arm_mutex_);
    backend_->FlushPlain();
    TakeClockSample();
    front.next_flush_ns = now_ns + front.flush_pause_ns;
    front.flush_pause_ns = std::min(front.flush_pause_ns * 2, kLongestFlushPauseNs);
    return;
  }
  FinishCycle(gate, now_ns);
}

void PhaseController::FinishCycle(const core::StepGate::Snapshot& gate, uint64_t now_ns) {
  ClosingCycle closing = closing_.front();
  const bool is_last = !gate.wants_device && closing_.size() == 1;
  CollectComplete(now_ns, /*forced=*/!is_last && drainer_->Outstanding(closing.cycle) != 0);
  if (is_last) DisarmAndCollect(now_ns);
  NoteDrops();
  closing.shared_drops = closing_.front().shared_drops;
  bool was_given_up = false;
  const uint64_t in_vain = drainer_->ForgetWindow(closing.cycle, &was_given_up);
  if (was_given_up && in_vain != 0 && closing.limit.empty()) closing.limit = TooManyTails();
  {
    MutexLock lock(&arm_mutex_);
    if (has_cuda_ && !backend_->IsArmed()) backend_->Diagnose();
    TakeClockSample();
  }
  drain::CycleReportData report = MakeReport(closing, now_ns - closing.since_ns, in_vain);
  NoteResult(report);
  drain::BatchBuilder& builder = drainer_->builder();
  if (builder.redactor() != nullptr) builder.redactor()->Apply(&report);
  for (const auto* notes : {&report.gpu.notes, &report.notes}) {
    for (const GpuState::Note& note : *notes) builder.AddNote(closing.cycle, note.code, note.text);
  }
  builder.AddCycleReport(drain::EncodeCycleReport(report));
  builder.AddCycleEvent(closing.cycle, kClosedEvent, HostClock::NowNs(), closing.limit);
  drainer_->Flush(now_ns);
  closing_.pop_front();
  ++cycles_closed_;
  if (closing_.empty()) gate_->SetTailPending(false);
}

void PhaseController::DisarmAndCollect(uint64_t now_ns) {
  {
    MutexLock lock(&arm_mutex_);
    if (!backend_->IsArmed()) return;
    backend_->Disarm();
    callbacks_on_ = false;
    arm_tried_ = false;
  }
  drainer_->SetAwaited(0);
  while (drainer_->RunOnce(now_ns, /*decode=*/true) != 0) {
  }
}

// A cycle that ended in warmup: nothing is written, collection goes off.
void PhaseController::DropCancelled(const core::StepGate::Snapshot& gate) {
  if (!cancelled_ || gate.wants_device || !closing_.empty()) return;
  cancelled_ = false;
  DisarmAndCollect(HostClock::MonotonicNs());
}

void PhaseController::ReleaseIfIdle(const core::StepGate::Snapshot& gate) {
  if (gate.wants_device || !closing_.empty() || backend_->IsArmed() || !backend_->IsSubscribed()) {
    return;
  }
  const uint64_t steps = gate.steps_until_collecting;
  const bool never = steps == UINT64_MAX;
  const uint64_t base = HostClock::Ticks();
  const double step_ns =
      static_cast<double>(HostClock::ToNs(base + gate.median_step_ticks) - HostClock::ToNs(base));
  if (!never && static_cast<double>(steps) * step_ns < static_cast<double>(kReleaseAfterNs)) return;
  MutexLock lock(&arm_mutex_);
  backend_->Release();
  if (backend_->IsSubscribed()) return;  // refused; asked again at the next round
  guard::Log(proto::LogLevel::kInfo, "CUPTI subscription released");
}

uint64_t PhaseController::NextWake(const core::StepGate::Snapshot& gate, uint64_t now_ns) const {
  uint64_t next = 0;
  const auto at = [&next](uint64_t when) { next = next == 0 ? when : std::min(next, when); };
  if (!closing_.empty()) at(std::max(now_ns + 1, closing_.front().next_flush_ns));
  if (gate.window_open) at(now_ns + kActiveFlushNs / 4);
  return next;
}

}  // namespace stepagent::agent
