#pragma once
// The part of a cycle's window in which it is known whether a device had work.
//
// Purpose: readings and the table of idle time look at the same time, so that their figures agree.
// Thread rule: free functions over an immutable cycle.
// Failure rule: where nothing can be left out without leaving out all, nothing is.
#include "collector/analysis/device_time.h"
#include "collector/analysis/intervals.h"
#include "collector/model/cycle.h"

namespace stepagent::analysis {

// A step that holds the tracer's own start: its times are ours, not the application's.
[[nodiscard]] inline bool HoldsTracerStart(const model::Step& step) {
  return step.contains_tracer_start || step.partial;
}
// Those steps, unless there are no others to look at.
[[nodiscard]] IntervalUnion StepsLeftOut(const model::Cycle& cycle);
// When the step that the first work belongs to had begun on every stream it uses. Until then work
// that was launched before the window may run, which the cycle does not hold; streams run in order.
[[nodiscard]] model::TimeNs KnownFrom(const DeviceWork& work);

}  // namespace stepagent::analysis
