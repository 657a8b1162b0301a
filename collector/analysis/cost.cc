#include "collector/analysis/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "collector/analysis/per_step.h"
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

// Order statistics that enclose the median: the index of the lower one, and how surely.
struct MedianBounds {
  size_t index = 0;
  double coverage = 0;
};

MedianBounds BoundsOfMedian(size_t n) {
  // P(at most k - 1 of n values lie below the median): a fair coin thrown n times.
  double term = std::exp2(-static_cast<double>(std::min<size_t>(n, 1000))), below = 0;
  if (n > 1000) {  // the same by the normal curve, where 2^-n is no number any more
    const double half = 0.98 * std::sqrt(static_cast<double>(n));
    return {static_cast<size_t>(static_cast<double>(n) / 2 - half), 0.95};
  }
  MedianBounds out{0, 1 - 2 * term};
  for (size_t k = 0; 2 * (k + 1) < n; ++k) {
    below += term;
    const double coverage = 1 - 2 * below;
    if (k > 0 && coverage < 0.95) break;
    out = {k, coverage};
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return out;
}

}  // namespace

Json RatioOfMedians(std::vector<int64_t> a, std::vector<int64_t> b) {
  Json out = {{"value", nullptr},
              {"low", nullptr},
              {"high", nullptr},
              {"coverage", nullptr},
              {"reason", nullptr}};
  if (a.size() < kValuesForRatio || b.size() < kValuesForRatio) {
    out["reason"] = "not measured: " + std::to_string(a.size()) + " and " +
                    std::to_string(b.size()) + " values, 3 of each are needed";
    return out;
  }
  std::sort(a.begin(), a.end()), std::sort(b.begin(), b.end());
  const MedianBounds of_a = BoundsOfMedian(a.size()), of_b = BoundsOfMedian(b.size());
  const auto ratio = [](int64_t x, int64_t y) {
    return y <= 0 ? Json(nullptr) : Json(static_cast<double>(x) / static_cast<double>(y));
  };
  out["value"] = ratio(Median(a), Median(b));
  if (out["value"].is_null() || b[of_b.index] <= 0) {
    out["value"] = nullptr;
    out["reason"] = "not measured: a step of no length";
    return out;
  }
  out["low"] = ratio(a[of_a.index], b[b.size() - 1 - of_b.index]);
  out["high"] = ratio(a[a.size() - 1 - of_a.index], b[of_b.index]);
  out["coverage"] = std::max(0.0, of_a.coverage + of_b.coverage - 1);
  return out;
}

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

namespace {

struct StepTimes {  // of the cycle's own steps and of those around it
  std::vector<int64_t> before, active, after, uncollected;
};

StepTimes StepTimesOf(const model::Cycle& cycle) {
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
  StepTimes out;
  for (const model::Step& step : cycle.steps) {
    first = std::min(first, step.process_index);  // as all_steps counts
    last = std::max(last, step.process_index);
    if (step.complete && !step.contains_tracer_start && step.end_ns >= step.begin_ns) {
      out.active.push_back(step.end_ns - step.begin_ns);
    }
  }
  for (const model::StepDuration& step : cycle.all_steps.each) {
    if (step.collecting != 0 || cycle.steps.empty()) continue;
    const bool is_beside = step.index < first || step.index > last;
    const auto ns = static_cast<int64_t>(step.dur_ns);
    if (is_beside && step.index != 0) out.uncollected.push_back(ns);
    if (step.index < first) out.before.push_back(ns);
    if (step.index > last) out.after.push_back(ns);
  }
  return out;
}

}  // namespace

Json CostOf(const model::Cycle& cycle) {
  const std::string no_times = WhyStepsDoNotCompare(cycle);
  StepTimes times = no_times.empty() ? StepTimesOf(cycle) : StepTimes();
  const model::AgentCost& c = cycle.cost;
  const bool has_share = c.raw_bytes.has_value() && !cycle.steps.empty();
  Json ratio = RatioOfMedians(times.active, std::move(times.uncollected));
  if (!no_times.empty()) ratio["reason"] = "not measured: " + no_times;
  return {{"before", Distribution(std::move(times.before))},
          {"active", Distribution(std::move(times.active))},
          {"after", Distribution(std::move(times.after))},
          {"ratio", std::move(ratio)},
          {"callback_ns", OrNull(c.callback_ns)},
          {"callbacks", OrNull(c.callbacks)},
          {"arm_wait_ns", OrNull(c.arm_wait_ns)},
          {"arm_ns", OrNull(c.arm_ns)},
          {"drain_cpu_ns", OrNull(c.drain_cpu_ns)},
          {"device_flush_age_ns", OrNull(c.device_flush_age_ns)},
          {"memory", {{"host_bytes", OrNull(c.host_bytes)}, {"device_bytes", nullptr}}},
          {"raw_bytes", OrNull(c.raw_bytes)},
          {"raw_bytes_steps", c.raw_bytes ? Json(cycle.steps.size()) : Json(nullptr)},
          {"bytes_per_step", has_share ? Json(*c.raw_bytes / cycle.steps.size()) : Json(nullptr)}};
}

}  // namespace stepagent::analysis
