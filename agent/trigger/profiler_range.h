#pragma once
// ProfilerRange: cudaProfilerStart and Stop as arming.
//
// Purpose: between the two calls the schedule counts or, without a step source, everything is one
// window, as nsys's capture range.
// Thread rule: OnStart and OnStop on any application thread, several at once; the gate serialises.
// OnStart holds its caller for arming, for the same bounded time as a first active step.
// Failure rule: a start within a range, or while the one before is still closing, is refused and
// counted; a stop without a start does nothing; one that comes while a window is arming or closing
// waits in the gate.
#include <atomic>
#include <cstdint>
#include <optional>

#include "agent/core/step_gate.h"

namespace stepagent::trigger {

class ProfilerRange {
 public:
  // `schedule` only with a step source.
  ProfilerRange(core::StepGate* gate, const std::optional<core::Schedule>& schedule)
      : gate_(gate), schedule_(schedule) {}

  void OnStart(uint64_t now_ticks) noexcept;
  void OnStop(uint64_t now_ticks) noexcept;
  [[nodiscard]] uint64_t refused() const noexcept {
    return refused_.load(std::memory_order_relaxed);
  }

 private:
  core::StepGate* const gate_;
  const std::optional<core::Schedule> schedule_;
  std::atomic<uint64_t> refused_{0};
};

}  // namespace stepagent::trigger
