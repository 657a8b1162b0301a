#pragma once
// What measuring cost: step times without and with collection, side by side.
//
// Purpose: the same figures in manifest, summary and text. They are distributions of observed step
// times, not a proof: other causes of a difference are not excluded.
// Thread rule: free function.
// Failure rule: a group without steps has null figures, never zeros.
#include <cstdint>
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

// {before active after ratio callback_ns callbacks arm_wait_ns device_flush_age_ns memory};
// `ratio` is active to before and after together, without step 0. Of slices of the clock no time is
// measured, and the ratio's reason says so.
[[nodiscard]] nlohmann::ordered_json CostOf(const model::Cycle& cycle);

}  // namespace stepagent::analysis
