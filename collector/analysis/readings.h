#pragma once
// Readings: what stands out in a cycle, as observation, evidence, hypothesis and the next check.
//
// Purpose: a place to start, never a verdict and never a promised speed-up: each names what else
// would look the same. Ranked by the share of the window they touch. The thresholds are one table.
// Thread rule: free functions over immutable input.
// Failure rule: a rule whose input was not collected stays silent; an empty list means that nothing
// stood out by these rules, not that nothing is slow.
#include <span>

#include "collector/analysis/tables.h"

namespace stepagent::analysis {

struct Threshold {
  const char* name;
  double value;
  const char* reason;
};
[[nodiscard]] std::span<const Threshold> Thresholds();

// [{id rank observation evidence hypothesis next_check}], evidence {text …figures}.
[[nodiscard]] Json Readings(const model::Cycle& cycle, const DeviceWork& work,
                            const RangeWork& ranges, const Json& kernels);

}  // namespace stepagent::analysis
