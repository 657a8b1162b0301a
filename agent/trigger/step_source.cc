#include "agent/trigger/step_source.h"

#include <unistd.h>

#include "agent/core/clock.h"

namespace stepagent::trigger {
namespace {

using core::HostClock;
using core::Phase;

uint32_t OwnThread() { return static_cast<uint32_t>(gettid()); }

// Steps of equal length in time. Sleeps through a wait: borders in it are counted, not visited.
class TimerSource final : public StepSource {
 public:
  TimerSource(core::StepGate* gate, uint64_t period_ns) : gate_(gate), period_ns_(period_ns) {}

  void Poll(uint64_t now_ns) override {
    const Phase phase = gate_->snapshot().phase;
    if (phase == Phase::kIdle || phase == Phase::kDone) {
      next_ns_ = 0;
      return;
    }
    if (next_ns_ == 0) next_ns_ = now_ns;  // step 0 begins at arming
    if (now_ns < next_ns_) return;
    const uint64_t borders = 1 + (now_ns - next_ns_) / period_ns_;
    next_ns_ += borders * period_ns_;
    gate_->OnBoundary(HostClock::Ticks(), OwnThread(), borders);
  }

  uint64_t NextWake(uint64_t /*now_ns*/) override {
    if (next_ns_ == 0) return 0;
    const uint64_t ahead = gate_->snapshot().steps_until_collecting;
    if (ahead == UINT64_MAX) return 0;
    return next_ns_ + ahead * period_ns_;
  }

  void OnSignals(uint32_t /*count*/, uint64_t /*now_ticks*/) override {}

 private:
  core::StepGate* const gate_;
  const uint64_t period_ns_;
  uint64_t next_ns_ = 0;  // the next border; 0: not running
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
  if (step.kind == Kind::kEvery) return std::make_unique<TimerSource>(gate, step.every_ns);
  if (step.kind == Kind::kSignal) return std::make_unique<SignalSource>(gate);
  return nullptr;
}

}  // namespace stepagent::trigger
