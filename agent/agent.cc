// The body of the thread `stepagent`, and what application threads may ask of it.
#include "agent/agent.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/guard/last_thread.h"
#include "agent/guard/log.h"
#include "agent/nvtx/nvtx_entry.h"
#include "proto/frame.h"
#include "proto/shell_word.h"

namespace stepagent::agent {
namespace {

using core::Ended;
using core::Gate;
using core::HostClock;
using core::Phase;
using proto::LogLevel;

constexpr uint64_t kPollNs = 1'000'000;
// session.json has them all.
constexpr size_t kWrittenListed = 64;
constexpr uint64_t kNoStepsAfterNs = 60'000'000'000;
// How long a process whose main thread is gone may outlive its last thread.
constexpr uint64_t kLastThreadPollNs = 20'000'000;
// A named collector that could not be reached for this long is not waited for at exit.
constexpr uint64_t kHopelessAfterNs = 500'000'000;
// An exit with nothing open is held this long at most, to say goodbye.
constexpr uint64_t kGoodbyeNs = 20'000'000;

// Where the collector, which nobody waits for, becomes this process's child.
bool AdoptsOrphans() {
  int is_subreaper = 0;
  return getpid() == 1 ||
         (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper, 0, 0, 0) == 0 && is_subreaper != 0);
}

uint64_t Earlier(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return a + b;
  return std::min(a, b);
}

}  // namespace

void* Agent::ThreadBody(void* self) {
  prctl(PR_SET_NAME, "stepagent");
  auto* agent = static_cast<Agent*>(self);
  std::atomic<uint32_t>* wake = &core::g_words->wake;
  for (;;) {
    const uint32_t seen = wake->load(std::memory_order_acquire);
    const uint64_t now = HostClock::MonotonicNs();
    uint64_t next = 0;
    try {
      next = agent->RunOnce(now);
    } catch (...) {
      next = now + kPollNs;  // out of memory: try again, nothing of the application's is held
    }
    if (agent->left_.load(std::memory_order_relaxed) != 0) return nullptr;
    const uint64_t after = HostClock::MonotonicNs();
    if (next != 0 && next <= after) continue;
    core::FutexWait(wake, seen, next == 0 ? 0 : next - after);
  }
}

uint64_t Agent::RunOnce(uint64_t now_ns) {
  PollSignals(now_ns);
  PollRequests(now_ns);
  PollCollector();
  uint64_t next = 0;
  if (source_ != nullptr) {
    source_->Poll(now_ns);
    next = source_->NextWake(now_ns);
  }
  next = Earlier(next, Record(now_ns));
  next = Earlier(next, WatchForSteps(now_ns));
  if (stop_at_ns_ != 0 && now_ns >= stop_at_ns_) {
    stop_at_ns_ = 0;
    (void)Gate().StopWhenReady(Ended::kRequest, HostClock::Ticks());
  }
  // One look for all that is left; what changes after it wakes this thread again.
  const core::StepGate::Snapshot gate = Gate().snapshot();
  // What `start --for` was to end is over: the next window is another's.
  if (gate.phase == Phase::kIdle || gate.phase == Phase::kDone) stop_at_ns_ = 0;
  next = Earlier(next, stop_at_ns_);
  if (controller_->IsRecording() || gate.wants_device || !drainer_->builder().empty()) {
    next = Earlier(next, now_ns + drainer_->poll_ns());
  }
  next = Earlier(next, LetCollectorGo(gate, now_ns));
  LogPhase(gate);
  if (main_ended_.load(std::memory_order_acquire) != 0) {
    LeaveWithLastThread(now_ns);
    next = Earlier(next, now_ns + kLastThreadPollNs);
  }
  if (leaving_.load(std::memory_order_acquire) != 0) {
    Leave(now_ns);
    next = now_ns + kPollNs;
  }
  return next;
}

uint64_t Agent::Record(uint64_t now_ns) {
  drainer_->RunOnce(now_ns, controller_->IsArmed());
  const uint64_t next = controller_->RunOnce(now_ns);
  // After arming: a first step may be held for that, and batches wait well enough.
  if (wants_collector_) ConnectCollector();
  return next;
}

void Agent::OnGateEvent(const core::GateEvent& event) {
  if (event.kind == core::GateEvent::Kind::kWarmupBegin) {
    cycles_begun_ = event.cycle + 1;
    wants_collector_ = true;
  }
  controller_->OnGateEvent(event, HostClock::MonotonicNs());
}

void Agent::ConnectCollector() {
  wants_collector_ = false;
  session_begun_.store(1, std::memory_order_release);
  const drain::io::Uplink::Status status = uplink_->status();
  // A refusal may have been cured since (a folder made, a disk freed), and one that we started may
  // have been killed (memory was short): each cycle tries anew.
  const bool is_away = capture_.collector == "auto" && status.failing_since_ns != 0;
  if (is_linked_ && hello_is_current_ && status.refusal.empty() && !is_away) return;
  hello_is_current_ = true;
  is_linked_ = true;
  goodbye_sent_ = false;
  const std::string address = CollectorAddressText();
  if (capture_.collector == "auto") {
    pid_t collector = 0;
    const std::string problem = drain::io::StartCollector(
        CollectorProgram(), address, settings_.out, identity_.run, environment_, &collector);
    if (collector > 0 && AdoptsOrphans()) uplink_->ReapOrphan(collector);
    if (!problem.empty()) {
      last_error_ = "the collector could not be started: " + problem;
      guard::Log(LogLevel::kWarn, last_error_);
    }
  }
  uplink_->SetCollector(address, EncodeHello());
}

void Agent::PollSignals(uint64_t now_ns) {
  const uint32_t signals = stub_->signals.load(std::memory_order_acquire);
  const uint32_t fresh = signals - signals_seen_;
  if (fresh == 0) return;
  signals_seen_ = signals;
  if (settings_.step.kind == proto::StepSetting::Kind::kSignal && source_ != nullptr) {
    source_->OnSignals(fresh, HostClock::Ticks());
    return;
  }
  ApplyToggle(toggle_->OnRequest(now_ns, Gate().snapshot().phase), Ended::kSignal);
}

void Agent::PollCollector() {
  for (drain::io::WrittenCycle& cycle : uplink_->TakeWritten()) {
    ++cycles_written_;
    if (!cycle.error.empty()) {
      last_error_ = "cycle " + std::to_string(cycle.cycle) + ": " + cycle.error;
      guard::Log(LogLevel::kWarn, last_error_);
    }
    for (std::string& file : cycle.files) {
      guard::Log(LogLevel::kInfo, "written: " + file);
      if (written_.size() >= kWrittenListed) written_.pop_front();
      written_.push_back(std::move(file));
    }
  }
  const drain::io::Uplink::Status status = uplink_->status();
  // What the first tries before a collector listened said is no error any more.
  if (status.accepted && !reported_trouble_.empty()) {
    if (last_error_.ends_with(reported_trouble_)) last_error_.clear();
    reported_trouble_.clear();
  }
  const std::string& trouble = status.refusal.empty() ? status.last_error : status.refusal;
  if (is_linked_ && !trouble.empty() && trouble != reported_trouble_) {
    reported_trouble_ = trouble;
    last_error_ = trouble.starts_with("collector") ? trouble : "collector: " + trouble;
    // One started a moment ago needs some ms before it listens: only a lasting failure is news.
    const bool is_starting = capture_.collector == "auto" && status.refusal.empty();
    guard::Log(is_starting ? LogLevel::kDebug : LogLevel::kWarn, last_error_);
  }
  if (!status.refusal.empty() && !controller_->IsRecording() && AwaitsFile()) {
    cycles_lost_ = controller_->cycles_closed() - cycles_written_;
  }
  if (status.stopped_by_collector && !throttled_) {
    throttled_ = true;
    last_error_ = "recording stopped: " + status.throttle_reason;
    guard::Log(LogLevel::kWarn, last_error_);
    controller_->NameLimit(status.throttle_reason);
    // The cycle, labelled so; then the schedule, so that the next one does not begin.
    (void)Gate().Stop(Ended::kLimit, /*at_once=*/true, HostClock::Ticks());
    (void)Gate().Stop(Ended::kExit, /*at_once=*/true, HostClock::Ticks());
  }
}

bool Agent::AwaitsFile() const {
  return cycles_written_ + cycles_lost_ < controller_->cycles_closed();
}

// Once nothing is left to record, the collector is let go: an idle process holds none. A later
// window brings the session back. Returns when to look again.
uint64_t Agent::LetCollectorGo(const core::StepGate::Snapshot& gate, uint64_t now_ns) {
  const bool is_at_rest = gate.phase == Phase::kIdle || gate.phase == Phase::kDone;
  if (controller_->IsRecording() || gate.wants_device || !is_at_rest) {
    later_steps_.Forget();
    return 0;
  }
  if (!is_linked_) return 0;
  later_steps_.Begin(gate.process_index, RecordedSteps(), now_ns);
  if (AwaitsFile()) return 0;
  const uint64_t next = AwaitLaterSteps(gate, now_ns);
  if (next != 0) return next;
  SayGoodbye(now_ns, "request");
  uplink_->Release();
  is_linked_ = false;
  return 0;
}

uint64_t Agent::RecordedSteps() const {
  return capture_.schedule ? capture_.schedule->active : core::LaterSteps::kFewest;
}

uint64_t Agent::AwaitLaterSteps(const core::StepGate::Snapshot& gate, uint64_t now_ns) {
  // Slices of the clock are compared with nothing, and who was stopped has no room for more.
  const bool has_steps = proto::HasStepSource(capture_) && controller_->cycles_closed() > 0 &&
                         capture_.step.kind != proto::StepSetting::Kind::kEvery;
  if (!has_steps || throttled_) return 0;
  const uint64_t base = HostClock::Ticks();
  const auto step_ns = static_cast<uint64_t>(HostClock::ToNs(base + gate.median_step_ticks) -
                                             HostClock::ToNs(base));
  return later_steps_.NextLook(gate.process_index, step_ns, now_ns);
}

void Agent::SayGoodbye(uint64_t now_ns, const char* why) {
  if (goodbye_sent_) return;
  goodbye_sent_ = true;
  drainer_->Flush(now_ns);
  (void)uplink_->Submit(
      static_cast<uint8_t>(proto::FrameType::kGoodbye),
      drain::EncodeGoodbye(why, drainer_->EncodeLossReport(), drainer_->last_sequence(),
                           controller_->EncodeUntoldSteps()),
      drainer_->last_sequence() + 1, {});
}

// A schedule that waits for steps that never come is the commonest mistake: say so once.
uint64_t Agent::WatchForSteps(uint64_t now_ns) {
  if (!has_step_source_ || watch_said_ || !controller_->HasCuda()) return 0;
  const core::StepGate::Snapshot gate = Gate().snapshot();
  if (gate.process_index != 0 || gate.step_open || gate.phase != Phase::kWaiting) return 0;
  if (watch_at_ns_ == 0) watch_at_ns_ = now_ns + kNoStepsAfterNs;
  if (now_ns < watch_at_ns_) return watch_at_ns_;
  watch_said_ = true;
  last_error_ = NoStepsLine();
  guard::Log(LogLevel::kWarn, last_error_);
  return 0;
}

std::string Agent::NoStepsLine() const {
  std::string line = "no step seen: looked for " + capture_.step.Text() + "; ";
  const std::string seen = RangesSeen("ranges seen:");
  return line + (seen.empty() ? "the program emits no NVTX ranges (try --step every:1s)" : seen);
}

std::string Agent::RangesSeen(const char* head) {
  std::string line;
  for (const drain::NameCountRow& row : TopRangeRows(10)) {
    if (line.empty()) line = head;
    proto::StepSetting step;
    step.kind = proto::StepSetting::Kind::kNvtx;
    step.name = row.name;
    step.domain = row.domain;
    line += " --step " + proto::ShellWord(step.Text()) + " (" + std::to_string(row.count) + ")";
  }
  return line;
}

std::string Agent::CapLine(const core::StepGate::Snapshot& gate) {
  if (gate.cap == 0) return {};
  return "max-traces reached: " + std::to_string(gate.cap) +
         " cycles of this process were recorded, no further one is (raise --max-traces; 0 is no "
         "cap)";
}

void Agent::LogPhase(const core::StepGate::Snapshot& gate) {
  if (gate.cap != 0 && !cap_said_) {
    cap_said_ = true;
    last_error_ = CapLine(gate);
    guard::Log(LogLevel::kWarn, last_error_);
  }
  if (gate.phase == logged_phase_) return;
  logged_phase_ = gate.phase;
  if (!guard::WouldLog(LogLevel::kInfo)) return;
  guard::Log(LogLevel::kInfo, std::string(core::PhaseName(gate.phase)) + " (step " +
                                  std::to_string(gate.process_index) + ", cycles begun " +
                                  std::to_string(gate.cycle) + ")");
}

// --- application threads ----------------------------------------------------------------------

void Agent::OnCuda() {
  if (inert_) return;
  controller_->OnCuda();
  core::BumpAndWake(&core::g_words->wake);
}

int Agent::OnNvtx(void* get_export_table) { return inert_ ? 0 : nvtx::Attach(get_export_table); }

void Agent::OnProfiler(bool start) {
  if (inert_ || settings_.arm != proto::ArmMode::kCudaProfilerApi) return;
  if (start) {
    profiler_->OnStart(HostClock::Ticks());  // holds the caller for arming, as a first step
  } else {
    profiler_->OnStop(HostClock::Ticks());
  }
  core::BumpAndWake(&core::g_words->wake);
}

void Agent::OnExit() {
  if (inert_ || leaving_.exchange(1) != 0) return;
  const core::StepGate::Snapshot gate = Gate().snapshot();
  // A short program can be gone before our thread saw that its first cycle began.
  if (session_begun_.load(std::memory_order_acquire) == 0 && gate.cycle == 0) {
    if (has_step_source_ && capture_.arm == proto::ArmMode::kStart) {
      if (gate.process_index == 0) {
        guard::Log(LogLevel::kWarn, NoStepsLine());
      } else if (gate.steps_until_collecting != UINT64_MAX) {
        guard::Log(LogLevel::kWarn, "nothing recorded: the program ended after " +
                                        std::to_string(gate.process_index) +
                                        " steps, before the first warmup");
      }
    }
    return;
  }
  // The thread decides when it is done, mostly at once; this is the bound should it be stuck.
  leave_deadline_ns_.store(HostClock::MonotonicNs() + settings_.exit_wait_ns,
                           std::memory_order_release);
  leaving_.store(2, std::memory_order_release);
  core::BumpAndWake(&core::g_words->wake);
  for (;;) {
    const uint64_t now = HostClock::MonotonicNs();
    const uint64_t deadline = leave_deadline_ns_.load(std::memory_order_relaxed);
    if (left_.load(std::memory_order_acquire) != 0) return;
    if (now >= deadline) {
      const bool is_alone = uplink_ != nullptr && uplink_->status().failing_since_ns != 0;
      return SayHeldUp(is_alone ? "the collector is not reached."
                                : "does a call of CUPTI's not return?");
    }
    core::FutexWait(&left_, 0, deadline - now);
  }
}

// At most once: the thread that is stuck does not come to its own deadline.
void Agent::SayHeldUp(const char* why) const {
  guard::Log(LogLevel::kWarn,
             "the program ended with a cycle that is not finished, after waiting " +
                 std::to_string(settings_.exit_wait_ns / 1'000'000) + " ms for it (--exit-wait): " +
                 why + " What had been sent is kept, stepagent report tells what");
}

// The main thread is gone and no hook tells of the others' ends: look, and go when they are.
void Agent::LeaveWithLastThread(uint64_t now_ns) {
  if (!guard::OnlyOursRemain() || leaving_.exchange(2, std::memory_order_acq_rel) != 0) return;
  leave_deadline_ns_.store(now_ns + settings_.exit_wait_ns, std::memory_order_release);
}

// Called each round once the application is at exit, until left_ is set.
void Agent::Leave(uint64_t now_ns) {
  if (leaving_.load(std::memory_order_acquire) != 2) return;
  const uint64_t deadline = leave_deadline_ns_.load(std::memory_order_acquire);
  if (!leave_begun_) {
    leave_begun_ = true;
    // PID 1 of a container takes the collector with it: then earlier cycles' files count, too.
    leave_had_cycle_ =
        controller_->IsRecording() || Gate().snapshot().wants_device || getpid() == 1;
    (void)Gate().Stop(Ended::kExit, /*at_once=*/true, HostClock::Ticks());
    controller_->SetGrace(settings_.exit_wait_ns / 2);
    Record(now_ns);
  }
  if (controller_->IsRecording() && now_ns < deadline) return;
  if (controller_->IsRecording()) SayHeldUp("device work was awaited, or CUPTI was slow");
  SayGoodbye(now_ns, "exit");
  const drain::io::Uplink::Status link = uplink_->status();
  const bool awaits_file = leave_had_cycle_ && AwaitsFile();
  // A collector started a moment ago may not listen yet: what is queued is part of an open cycle.
  // One that was named and does not answer is another matter.
  const bool is_hopeless = capture_.collector != "auto" && link.failing_since_ns != 0 &&
                           now_ns - link.failing_since_ns > kHopelessAfterNs;
  const bool is_unsent = link.queued_bytes != 0 && link.refusal.empty() && !is_hopeless;
  if (((awaits_file && !is_hopeless) || is_unsent) && now_ns < deadline) return;
  const uint64_t left = now_ns < deadline ? deadline - now_ns : 0;
  uplink_->Finish(std::min(left, kGoodbyeNs));
  left_.store(1, std::memory_order_release);
  core::BumpAndWake(&left_);
}

}  // namespace stepagent::agent
