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

// {before active after callback_ns callbacks arm_wait_ns device_flush_age_ns memory …}
[[nodiscard]] nlohmann::ordered_json CostOf(const model::Cycle& cycle);

}  // namespace stepagent::analysis
