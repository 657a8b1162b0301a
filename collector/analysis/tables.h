#pragma once
// The tables of a summary, each complete and sorted by total time.
//
// Purpose: kernels, calls, copies, sets, ranges, waits, streams, threads, steps as JSON rows with
// the contract's keys.
// Thread rule: free functions over immutable input.
// Failure rule: a column that was not collected is null.
#include <map>
#include <utility>

#include "collector/analysis/device_time.h"
#include "collector/analysis/range_work.h"
#include "collector/model/cycle.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json KernelTable(const model::Cycle& cycle, const DeviceWork& work);
[[nodiscard]] Json CallTable(const model::Cycle& cycle);
[[nodiscard]] Json CopyTable(const model::Cycle& cycle);
[[nodiscard]] Json SetTable(const model::Cycle& cycle);
[[nodiscard]] Json WaitTable(const model::Cycle& cycle);
[[nodiscard]] Json StreamTable(const model::Cycle& cycle, const DeviceWork& work);
[[nodiscard]] Json ThreadTable(const model::Cycle& cycle);
[[nodiscard]] Json DeviceTable(const model::Cycle& cycle, const DeviceWork& work,
                               const RangeWork& ranges);
// {count call_ns device_ns delay {…} queues [{… changes max mean}]}, over pieces of device work
// whose call is in the cycle. Delay: from the call's return until the work begins, 0 where it began
// before. A queue's length counts from the begin of a call until its work begins; mean over its
// changes.
[[nodiscard]] Json LaunchTable(const model::Cycle& cycle, const DeviceWork& work);
[[nodiscard]] Json StepTable(const model::Cycle& cycle, const DeviceWork& work);
[[nodiscard]] Json RangeTable(const model::Cycle& cycle, const DeviceWork& work,
                              const RangeWork& ranges);

// What the device side of the cycle is worth: collected, or null with a reason.
[[nodiscard]] bool Collected(const model::Cycle& cycle, model::Activity activity);
[[nodiscard]] std::string WhyAbsent(const model::Cycle& cycle, model::Activity activity);
// "" where all kinds of device work were collected.
[[nodiscard]] std::string WhyNotAllKinds(const model::Cycle& cycle);
// "" where, as far as is known, no record of the device's work is missing. A launch that has none,
// or a collection that ended on the way, leaves what was recorded a lower bound.
[[nodiscard]] std::string WhyWorkIsMissing(const model::Cycle& cycle);
// "" where neither holds: only then is it known when a device was busy.
[[nodiscard]] std::string WhyNoBusyTime(const model::Cycle& cycle);

}  // namespace stepagent::analysis
