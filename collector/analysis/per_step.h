#pragma once
// How a row of a table spreads over the steps.
//
// Purpose: `per_step` of kernels, calls and copies, so that two cycles can be compared per step and
// with a spread. Only whole steps count: cut ones and those with the tracer's start say nothing.
// Thread rule: plain values.
// Failure rule: work outside of steps adds nothing; without whole steps the row is null.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collector/model/cycle.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {

// Whole steps without the tracer's start, by their index into Cycle::steps.
[[nodiscard]] std::vector<size_t> WholeSteps(const model::Cycle& cycle);

// "" where a step is the program's own. A slice of the clock (`every:20ms`) is not: how long it
// lasts is the clock's doing, and what falls into it is chance; no two are to be compared.
[[nodiscard]] std::string WhyStepsDoNotCompare(std::string_view step_source);
[[nodiscard]] inline std::string WhyStepsDoNotCompare(const model::Cycle& cycle) {
  return WhyStepsDoNotCompare(cycle.session.step_source);
}

class PerStep {
 public:
  void Add(int32_t step, int64_t ns) {
    if (step < 0) return;
    const auto index = static_cast<size_t>(step);
    if (index >= total_ns_.size()) total_ns_.resize(index + 1), count_.resize(index + 1);
    total_ns_[index] += ns, ++count_[index];
  }
  // {count total_ns min_ns max_ns}: count and total over the whole steps, min and max of one.
  [[nodiscard]] nlohmann::ordered_json Row(const std::vector<size_t>& whole_steps) const;

 private:
  std::vector<int64_t> total_ns_;
  std::vector<uint64_t> count_;
};

}  // namespace stepagent::analysis
