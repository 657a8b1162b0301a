#pragma once
// What measuring cost: step times without and with collection, side by side.
//
// Purpose: the same figures in manifest, summary and text. They are distributions of observed step
// times, not a proof: other causes of a difference are not excluded.
// Thread rule: free function.
// Failure rule: a group without steps has null figures, never zeros.
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"
#include "nlohmann/json_fwd.hpp"

namespace stepagent::analysis {

// Below this many values a 90th percentile is one of the two largest, not a percentile.
inline constexpr size_t kStepsForP90 = 20;

// {steps median_ns min_ns max_ns p90_ns}; even medians are the mean of the two middle values.
[[nodiscard]] nlohmann::ordered_json Distribution(std::vector<int64_t> values_ns);

// How the medians of two groups of values compare: {value low high coverage reason}.
//
// The interval is the exact one of medians by order statistics: [low of a / high of b, high of a /
// low of b], where each group's bounds are its k-th smallest and k-th largest value, k as large as
// a coverage of 95 % allows and at least 1. `coverage` is what both together have at least; with
// few values it is honest and low. No shape of the distribution is assumed, but that the values
// are independent. Below kValuesForRatio values in either group all is null, with a reason.
inline constexpr size_t kValuesForRatio = 3;  // two values have no middle
[[nodiscard]] nlohmann::ordered_json RatioOfMedians(std::vector<int64_t> a, std::vector<int64_t> b);

// A cycle's own steps, as the cost needs them: of the cycle, or of its manifest once it is gone.
struct RecordedSteps {
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;  // process index
  std::vector<int64_t> wall_ns;  // of whole ones without the tracer's start
  void Add(uint64_t process_index, bool counts, int64_t ns);
};
[[nodiscard]] RecordedSteps RecordedStepsOf(const model::Cycle& cycle);
[[nodiscard]] RecordedSteps RecordedStepsOf(const nlohmann::ordered_json& manifest);

struct OtherSteps {
  const model::AllSteps* steps;
  std::optional<uint64_t> until;  // where the next cycle begins to collect, by process index
  std::string why_not_compared, why_none_before, why_none_after;  // "" nothing to say
};
// Sets before, active and after, {steps median_ns min_ns max_ns p90_ns reason} each, and ratio,
// which is active to before and after together, without step 0. Of slices of the clock no time is
// measured, and the reasons say so.
void SetStepTimes(const RecordedSteps& recorded, const OtherSteps& others,
                  nlohmann::ordered_json* cost);

// {before active after ratio callback_ns callbacks arm_wait_ns device_flush_age_ns memory}: as far
// as steps are known when the cycle ends.
[[nodiscard]] nlohmann::ordered_json CostOf(const model::Cycle& cycle);

}  // namespace stepagent::analysis
