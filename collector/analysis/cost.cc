#include "collector/analysis/cost.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "nlohmann/json.hpp"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<uint64_t>& value) { return value ? Json(*value) : Json(nullptr); }

int64_t Median(const std::vector<int64_t>& sorted) {
  const size_t n = sorted.size();
  if (n % 2 == 1) return sorted[n / 2];
  return sorted[n / 2 - 1] + (sorted[n / 2] - sorted[n / 2 - 1]) / 2;
}

}  // namespace

Json Distribution(std::vector<int64_t> values_ns) {
  std::sort(values_ns.begin(), values_ns.end());
  Json out = {{"steps", values_ns.size()},
              {"median_ns", nullptr},
              {"min_ns", nullptr},
              {"max_ns", nullptr},
              {"p90_ns", nullptr}};
  if (values_ns.empty()) return out;
  out["median_ns"] = Median(values_ns);
  out["min_ns"] = values_ns.front();
  out["max_ns"] = values_ns.back();
  if (values_ns.size() >= kStepsForP90) {
    out["p90_ns"] = values_ns[(values_ns.size() * 9 + 9) / 10 - 1];  // nearest rank
  }
  return out;
}

Json CostOf(const model::Cycle& cycle) {
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
  std::vector<int64_t> before, active, after;
  for (const model::Step& step : cycle.steps) {
    first = std::min(first, step.index);
    last = std::max(last, step.index);
    if (step.complete && !step.contains_tracer_start && step.end_ns >= step.begin_ns) {
      active.push_back(step.end_ns - step.begin_ns);
    }
  }
  for (const model::StepDuration& step : cycle.all_steps.each) {
    if (step.collecting != 0 || cycle.steps.empty()) continue;
    if (step.index < first) before.push_back(static_cast<int64_t>(step.dur_ns));
    if (step.index > last) after.push_back(static_cast<int64_t>(step.dur_ns));
  }
  const model::AgentCost& c = cycle.cost;
  return {{"before", Distribution(std::move(before))},
          {"active", Distribution(std::move(active))},
          {"after", Distribution(std::move(after))},
          {"callback_ns", OrNull(c.callback_ns)},
          {"callbacks", OrNull(c.callbacks)},
          {"arm_wait_ns", OrNull(c.arm_wait_ns)},
          {"arm_ns", OrNull(c.arm_ns)},
          {"drain_cpu_ns", OrNull(c.drain_cpu_ns)},
          {"device_flush_age_ns", OrNull(c.device_flush_age_ns)},
          {"memory", {{"host_bytes", OrNull(c.host_bytes)}, {"device_bytes", nullptr}}}};
}

}  // namespace stepagent::analysis
