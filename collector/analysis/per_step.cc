#include "collector/analysis/per_step.h"

#include <limits>

namespace stepagent::analysis {

std::vector<size_t> WholeSteps(const model::Cycle& cycle) {
  std::vector<size_t> out;
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    const model::Step& step = cycle.steps[i];
    if (step.complete && !step.contains_tracer_start && !step.partial &&
        step.end_ns >= step.begin_ns) {
      out.push_back(i);
    }
  }
  return out;
}

std::string WhyStepsDoNotCompare(std::string_view step_source) {
  if (!step_source.starts_with("every:")) return {};
  return "steps are slices of the clock (" + std::string(step_source) + ")";
}

nlohmann::ordered_json PerStep::Row(const std::vector<size_t>& whole_steps) const {
  if (whole_steps.empty()) return nullptr;
  uint64_t count = 0;
  int64_t total = 0, least = std::numeric_limits<int64_t>::max(), most = 0;
  for (const size_t step : whole_steps) {
    const int64_t ns = step < total_ns_.size() ? total_ns_[step] : 0;
    count += step < count_.size() ? count_[step] : 0;
    total += ns, least = std::min(least, ns), most = std::max(most, ns);
  }
  return {{"count", count}, {"total_ns", total}, {"min_ns", least}, {"max_ns", most}};
}

}  // namespace stepagent::analysis
