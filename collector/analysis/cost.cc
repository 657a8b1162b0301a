#include "collector/analysis/cost.h"

#include <algorithm>
#include <cmath>
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

RecordedSteps RecordedStepsOf(const model::Cycle& cycle) {
  RecordedSteps out;
  for (const model::Step& step : cycle.steps) {
    const bool counts =
        step.complete && !step.contains_tracer_start && step.end_ns >= step.begin_ns;
    out.Add(step.process_index, counts, step.end_ns - step.begin_ns);
  }
  return out;
}

RecordedSteps RecordedStepsOf(const Json& manifest) {
  RecordedSteps out;
  for (const Json& step : manifest.at("steps")) {
    const auto begin = step.at("begin_ns").get<int64_t>(), end = step.at("end_ns").get<int64_t>();
    const bool counts = step.at("complete") == true && step.at("contains_tracer_start") != true &&
                        end >= begin;
    out.Add(step.at("process_index").get<uint64_t>(), counts, end - begin);
  }
  return out;
}

void RecordedSteps::Add(uint64_t process_index, bool counts, int64_t ns) {
  first = std::min(first, process_index);
  last = std::max(last, process_index);
  if (counts) wall_ns.push_back(ns);
}

namespace {

struct StepTimes {  // of steps that nobody recorded
  std::vector<int64_t> before, after, others;
};

// Behind a cycle up to where the next one begins to collect; of others step 0 is none, because it
// pays for all that happens once.
StepTimes StepTimesBeside(const RecordedSteps& recorded, const OtherSteps& all) {
  StepTimes out;
  for (const model::StepDuration& step : all.steps->each) {
    if (step.collecting != 0 || recorded.first > recorded.last) continue;
    const auto ns = static_cast<int64_t>(step.dur_ns);
    const bool is_before = step.index < recorded.first;
    const bool is_after = step.index > recorded.last && (!all.until || step.index < *all.until);
    if (is_before) out.before.push_back(ns);
    if (is_after) out.after.push_back(ns);
    if ((is_before || is_after) && step.index != 0) out.others.push_back(ns);
  }
  return out;
}

Json Group(std::vector<int64_t> values_ns, const std::string& why_none) {
  Json out = Distribution(std::move(values_ns));
  out["reason"] = out.at("steps") == 0 ? Json("not measured: " + why_none) : Json(nullptr);
  return out;
}

std::string Or(const std::string& why, const char* otherwise) {
  return why.empty() ? otherwise : why;
}

}  // namespace

void SetStepTimes(const RecordedSteps& recorded, const OtherSteps& others, Json* cost) {
  const bool is_compared = others.why_not_compared.empty();
  StepTimes times = is_compared ? StepTimesBeside(recorded, others) : StepTimes();
  std::vector<int64_t> active = is_compared ? recorded.wall_ns : std::vector<int64_t>();
  Json ratio = RatioOfMedians(active, std::move(times.others));
  if (!is_compared) ratio["reason"] = "not measured: " + others.why_not_compared;
  const auto why = [&](const std::string& known, const char* otherwise) {
    return Or(others.why_not_compared, Or(known, otherwise).c_str());
  };
  (*cost)["before"] = Group(std::move(times.before),
                            why(others.why_none_before,
                                "no step without collection ended before the cycle"));
  (*cost)["active"] =
      Group(std::move(active), why("", "no whole step without the tracer's start"));
  (*cost)["after"] = Group(std::move(times.after),
                           why(others.why_none_after,
                               "no step without collection ended behind the cycle"));
  (*cost)["ratio"] = std::move(ratio);
}

Json CostOf(const model::Cycle& cycle) {
  const model::AgentCost& c = cycle.cost;
  const bool has_share = c.raw_bytes.has_value() && !cycle.steps.empty();
  const char* const only_recorded = "a Kineto file holds recorded steps only";
  Json cost = Json::object();
  SetStepTimes(RecordedStepsOf(cycle),
               {.steps = &cycle.all_steps,
                .until = std::nullopt,
                .why_not_compared = WhyStepsDoNotCompare(cycle),
                .why_none_before = cycle.is_from_trace ? only_recorded : "",
                .why_none_after =
                    cycle.is_from_trace ? only_recorded : cycle.why_no_later_steps},
               &cost);
  cost.update({{"callback_ns", OrNull(c.callback_ns)},
               {"callbacks", OrNull(c.callbacks)},
               {"arm_wait_ns", OrNull(c.arm_wait_ns)},
               {"arm_ns", OrNull(c.arm_ns)},
               {"drain_cpu_ns", OrNull(c.drain_cpu_ns)},
               {"device_flush_age_ns", OrNull(c.device_flush_age_ns)},
               {"memory", {{"host_bytes", OrNull(c.host_bytes)}, {"device_bytes", nullptr}}},
               {"raw_bytes", OrNull(c.raw_bytes)},
               {"raw_bytes_steps", c.raw_bytes ? Json(cycle.steps.size()) : Json(nullptr)},
               {"bytes_per_step",
                has_share ? Json(*c.raw_bytes / cycle.steps.size()) : Json(nullptr)}});
  return cost;
}

}  // namespace stepagent::analysis
