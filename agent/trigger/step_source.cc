#include "agent/trigger/step_source.h"

#include <unistd.h>

#include <algorithm>

#include "agent/core/clock.h"

namespace stepagent::trigger {
namespace {

using core::HostClock;
using core::Phase;

uint32_t OwnThread() { return static_cast<uint32_t>(gettid()); }

// Steps of equal length in time, stamped where they were due however late the thread looks. Sleeps
// through a wait: borders in it are counted, not visited.
class TimerSource final : public StepSource {
 public:
  TimerSource(core::StepGate* gate, uint64_t period_ns) : gate_(gate), period_ns_(period_ns) {}

  void Poll(uint64_t now_ns) override {
    core::StepGate::Pace pace = gate_->pace();
    if (pace.phase == Phase::kIdle || pace.phase == Phase::kDone) {
      // The time until the next arming is no step.
      if (next_ns_ != 0) gate_->DropOpenStep();
      next_ns_ = 0;
      return;
    }
    if (next_ns_ == 0) next_ns_ = now_ns;  // step 0 begins at arming
    for (;; pace = gate_->pace()) {
      SkipWhatArmingTook(pace);
      steps_until_collecting_ = pace.steps_until_collecting;
      if (now_ns < next_ns_) return;
      const uint64_t due = 1 + (now_ns - next_ns_) / period_ns_;
      const uint64_t ahead = pace.steps_until_collecting;
      const uint64_t borders = due - 1 < ahead ? due : ahead + 1;
      const uint64_t last_ns = next_ns_ + (borders - 1) * period_ns_;
      next_ns_ = last_ns + period_ns_;
      gate_->OnBoundary(TicksAt(last_ns), OwnThread(), borders);
    }
  }

  uint64_t NextWake(uint64_t /*now_ns*/) override {
    if (next_ns_ == 0) return 0;
    uint64_t rest = 0, wake = 0;
    if (__builtin_mul_overflow(steps_until_collecting_, period_ns_, &rest) ||
        __builtin_add_overflow(next_ns_, rest, &wake)) {
      return 0;
    }
    return wake;
  }

  void OnSignals(uint32_t /*count*/, uint64_t /*now_ticks*/) override {}

 private:
  // Arming is done on this thread too, and its end is stamped: borders that were due meanwhile
  // would all fall on that one moment, as steps of no length. The step in progress is a long one
  // instead.
  void SkipWhatArmingTook(const core::StepGate::Pace& pace) {
    if (pace.steps_until_collecting != 0) return;
    const int64_t stamped_ns = HostClock::ToNs(pace.last_ticks) + HostClock::base_mono_ns();
    if (stamped_ns > static_cast<int64_t>(next_ns_)) next_ns_ = static_cast<uint64_t>(stamped_ns);
  }

  static uint64_t TicksAt(uint64_t monotonic_ns) {
    return HostClock::ToTicks(static_cast<int64_t>(monotonic_ns) - HostClock::base_mono_ns());
  }

  core::StepGate* const gate_;
  const uint64_t period_ns_;
  uint64_t next_ns_ = 0;  // the next border; 0: not running
  uint64_t steps_until_collecting_ = 0;  // as of the last Poll
};

// Each signal is a border.
class SignalSource final : public StepSource {
 public:
  explicit SignalSource(core::StepGate* gate) : gate_(gate) {}
  void Poll(uint64_t /*now_ns*/) override {}
  uint64_t NextWake(uint64_t /*now_ns*/) override { return 0; }
  void OnSignals(uint32_t count, uint64_t now_ticks) override {
    gate_->OnBoundary(now_ticks, OwnThread(), count);
  }

 private:
  core::StepGate* const gate_;
};

}  // namespace

std::unique_ptr<StepSource> MakeStepSource(const proto::StepSetting& step, core::StepGate* gate) {
  using Kind = proto::StepSetting::Kind;
  if (step.kind == Kind::kEvery)
    return std::make_unique<TimerSource>(gate, std::max<uint64_t>(1, step.every_ns));
  if (step.kind == Kind::kSignal) return std::make_unique<SignalSource>(gate);
  return nullptr;
}

}  // namespace stepagent::trigger
