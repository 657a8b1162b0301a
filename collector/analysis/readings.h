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

// [{id rank observation evidence hypothesis next_check}], evidence {text …figures where}; where:
// {step begin_ns end_ns row} or null.
[[nodiscard]] Json Readings(const model::Cycle& cycle, const DeviceWork& work,
                            const RangeWork& ranges, const Json& kernels, const Json& cost);

// [{id why}]: rules that could not speak because what they look at was not collected.
[[nodiscard]] Json ReadingsWithoutInput(const model::Cycle& cycle, const DeviceWork& work,
                                        const Json& cost);

}  // namespace stepagent::analysis
