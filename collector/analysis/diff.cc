#include "collector/analysis/diff.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "collector/analysis/cost.h"
#include "collector/analysis/per_step.h"
#include "collector/analysis/reading_rules.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string Shown(const Json& value) {
  if (value.is_null()) return "not known";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Json& At(const Json& object, const char* key) {
  static const Json nothing;
  const auto it = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && it != object.end() ? *it : nothing;
}

// The values that a side's cycles have for one thing, each once, in order of appearance.
template <typename Get>
std::string Values(const DiffSide& side, Get get) {
  std::vector<std::string> seen;
  for (const Json* cycle : side.cycles) {
    std::string value = get(*cycle);
    if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(std::move(value));
  }
  std::string out;
  for (const std::string& value : seen) out += (out.empty() ? "" : ", ") + value;
  return out;
}

class Differences {
 public:
  Differences(const DiffSide& a, const DiffSide& b) : a_(a), b_(b) {}
  template <typename Get>
  void Compare(const char* what, const std::string& name, Get get) {
    std::string a = Values(a_, get), b = Values(b_, get);
    if (a != b) {
      out_.push_back({{"what", what}, {"name", name}, {"a", std::move(a)}, {"b", std::move(b)}});
    }
  }
  // Every key that any cycle has below `section`.`key`.
  void CompareMaps(const char* what, const char* section, const char* key) {
    std::set<std::string> names;
    for (const DiffSide* side : {&a_, &b_}) {
      for (const Json* cycle : side->cycles) {
        const Json& map = At(At(*cycle, section), key);
        if (!map.is_object()) continue;
        for (const auto& [name, value] : map.items()) names.insert(name);
      }
    }
    for (const std::string& name : names) {
      // Labels have a section of their own.
      if (std::string_view(what) == "setting" && name == "label") continue;
      Compare(what, name, [&](const Json& cycle) {
        return Shown(At(At(At(cycle, section), key), name.c_str()));
      });
    }
  }
  Json Take() { return std::move(out_); }

 private:
  const DiffSide& a_;
  const DiffSide& b_;
  Json out_ = Json::array();
};

std::string DeviceNames(const Json& cycle) {
  const Json& devices = At(cycle, "devices");
  if (!devices.is_array()) return "not collected";
  std::string out;
  for (const Json& device : devices) {
    out += fmt::format("{}GPU {} {} {}", out.empty() ? "" : ", ", Shown(At(device, "ordinal")),
                       Shown(At(device, "name")), Shown(At(device, "uuid")));
  }
  return out.empty() ? "none used" : out;
}

std::string StepRange(const Json& cycle) {
  const Json& each = At(At(cycle, "steps"), "each");
  if (!each.is_array() || each.empty()) return "no steps";
  return fmt::format("{} to {} ({})", Shown(At(each.front(), "index")),
                     Shown(At(each.back(), "index")), each.size());
}

Json FindDifferences(const DiffSide& a, const DiffSide& b) {
  Differences d(a, b);
  d.CompareMaps("label", "session", "labels");
  d.CompareMaps("setting", "session", "settings");
  const auto plain = [&](const char* what, const char* name, const char* section, const char* key) {
    d.Compare(what, name, [&](const Json& cycle) { return Shown(At(At(cycle, section), key)); });
  };
  plain("setting", "step source", "session", "step_source");
  plain("setting", "step extent", "session", "step_extent");
  plain("setting", "graph level", "gpu", "graph_level");
  plain("setting", "visible devices", "session", "cuda_visible_devices");
  plain("program", "name", "session", "exe");
  plain("program", "rank", "session", "rank");
  plain("program", "world size", "session", "world_size");
  plain("program", "host", "session", "host");
  plain("program", "agent version", "session", "agent_version");
  d.Compare("device", "devices", DeviceNames);
  plain("device", "driver version", "gpu", "driver_version");
  plain("device", "CUPTI version", "gpu", "cupti_version");
  plain("device", "collection", "gpu", "status");
  d.Compare("boundary", "steps", StepRange);
  d.Compare("boundary", "complete",
            [](const Json& cycle) { return Shown(At(At(cycle, "cycle"), "complete")); });
  plain("boundary", "ended by", "cycle", "ended");
  return d.Take();
}

// What a trace file does not tell of its steps is null, and no fault of theirs.
bool IsWhole(const Json& step) {
  return At(step, "complete") != false && At(step, "contains_tracer_start") != true;
}

std::vector<int64_t> StepWalls(const DiffSide& side) {
  std::vector<int64_t> out;
  for (const Json* cycle : side.cycles) {
    const Json& each = At(At(*cycle, "steps"), "each");
    if (!each.is_array()) continue;
    for (const Json& step : each) {
      if (IsWhole(step)) {
        out.push_back(step.value("wall_ns", int64_t{0}));
      }
    }
  }
  return out;
}

// Of the first cycle whose steps are no program's.
std::string WhyNoStepTimes(const DiffSide& side) {
  for (const Json* cycle : side.cycles) {
    const Json& source = At(At(*cycle, "session"), "step_source");
    if (!source.is_string()) continue;
    if (std::string why = WhyStepsDoNotCompare(source.get<std::string>()); !why.empty()) return why;
  }
  return {};
}

// With so few steps that chance sets two sides apart, values are shown and nothing is said of them.
std::string WhyTooFew(uint64_t a, uint64_t b) {
  const double least = At(kDiffSteps);
  if (double(a) >= least && double(b) >= least) return {};
  return fmt::format("not told: too few whole steps ({} and {}), {} on each side are needed", a, b,
                     least);
}

// The distribution; of few steps each value, in the order of the steps.
Json Side(const std::vector<int64_t>& values_ns) {
  Json out = Distribution(values_ns);
  out["values_ns"] = double(values_ns.size()) < At(kDiffSteps) ? Json(values_ns) : Json(nullptr);
  return out;
}

Json StepTimes(const DiffSide& a, const DiffSide& b) {
  const std::vector<int64_t> of_a = StepWalls(a), of_b = StepWalls(b);
  std::string why = WhyNoStepTimes(a);
  if (why.empty()) why = WhyNoStepTimes(b);
  if (!why.empty()) {
    Json none = RatioOfMedians({}, {});
    none["reason"] = "not measured: " + why;
    return {{"a", Side(of_a)},
            {"b", Side(of_b)},
            {"ratio", std::move(none)},
            {"verdict", "not told"}};
  }
  Json ratio = RatioOfMedians(of_b, of_a);
  std::string verdict = WhyTooFew(of_a.size(), of_b.size());
  if (verdict.empty() && ratio.at("low").is_number()) {
    const double low = ratio.at("low").get<double>(), high = ratio.at("high").get<double>();
    verdict = low > 1 ? "slower" : high < 1 ? "faster" : "inside the noise";
  } else if (verdict.empty()) {
    verdict = "not told";  // the ratio has the reason
  }
  return {{"a", Side(of_a)}, {"b", Side(of_b)}, {"ratio", std::move(ratio)}, {"verdict", verdict}};
}

// What one side has of one row, over its whole steps.
struct Share {
  bool is_there = false, has_steps = true;
  uint64_t count = 0, steps = 0;
  int64_t total_ns = 0, min_ns = std::numeric_limits<int64_t>::max(), max_ns = 0;
  [[nodiscard]] double PerStep(double value) const {
    return steps == 0 ? 0 : value / static_cast<double>(steps);
  }
};

uint64_t WholeStepsOf(const Json& cycle) {
  uint64_t count = 0;
  const Json& each = At(At(cycle, "steps"), "each");
  if (!each.is_array()) return 0;
  for (const Json& step : each) {
    count += IsWhole(step) && At(step, "partial") != true ? 1 : 0;
  }
  return count;
}

std::string NameOf(const Json& row) {
  if (row.contains("direction")) {
    return fmt::format("{} ({} -> {})", Shown(row.at("direction")), Shown(At(row, "source")),
                       Shown(At(row, "target")));
  }
  return Shown(At(row, "name"));
}

std::map<std::string, Share> SharesOf(const DiffSide& side, const char* table) {
  std::map<std::string, Share> out;
  uint64_t steps = 0;
  for (const Json* cycle : side.cycles) {
    steps += WholeStepsOf(*cycle);
    const Json& rows = At(*cycle, table);
    if (!rows.is_array()) continue;
    for (const Json& row : rows) {
      Share& share = out[NameOf(row)];
      const Json& per_step = At(row, "per_step");
      share.is_there = true;
      if (!per_step.is_object()) {
        share.has_steps = false;
        continue;
      }
      share.count += per_step.at("count").get<uint64_t>();
      share.total_ns += per_step.at("total_ns").get<int64_t>();
      share.min_ns = std::min(share.min_ns, per_step.at("min_ns").get<int64_t>());
      share.max_ns = std::max(share.max_ns, per_step.at("max_ns").get<int64_t>());
    }
  }
  for (auto& [name, share] : out) share.steps = steps;
  return out;
}

// Ranges of a step's total that do not touch are a change, where steps are enough to say so.
std::string Verdict(const Share& a, const Share& b) {
  if (!a.is_there || (a.has_steps && a.count == 0 && b.count > 0)) return "appeared";
  if (!b.is_there || (b.has_steps && b.count == 0 && a.count > 0)) return "vanished";
  if (!a.has_steps || !b.has_steps || a.steps == 0 || b.steps == 0)
    return "not told: no whole step";
  if (a.count * b.steps != b.count * a.steps) return "count changed";
  if (std::string why = WhyTooFew(a.steps, b.steps); !why.empty()) return why;
  if (b.min_ns > a.max_ns) return "slower";
  if (b.max_ns < a.min_ns) return "faster";
  return "inside the noise";
}

Json Figures(const Share& share) {
  if (!share.is_there || !share.has_steps || share.steps == 0) return nullptr;
  return {{"count", share.PerStep(static_cast<double>(share.count))},
          {"total_ns", share.PerStep(static_cast<double>(share.total_ns))},
          {"min_ns", share.min_ns},
          {"max_ns", share.max_ns}};
}

bool IsCollected(const DiffSide& side, const char* table) {
  return std::any_of(side.cycles.begin(), side.cycles.end(),
                     [&](const Json* cycle) { return At(*cycle, table).is_array(); });
}

// By how much a step's total differs, largest first.
Json CompareTable(const DiffSide& a, const DiffSide& b, const char* table) {
  if (!IsCollected(a, table) || !IsCollected(b, table)) return nullptr;
  const auto of_a = SharesOf(a, table), of_b = SharesOf(b, table);
  std::set<std::string> names;
  for (const auto& [name, share] : of_a) names.insert(name);
  for (const auto& [name, share] : of_b) names.insert(name);
  std::vector<Json> rows;
  for (const std::string& name : names) {
    const auto get = [&](const auto& shares) {
      const auto it = shares.find(name);
      return it == shares.end() ? Share() : it->second;
    };
    const Share sa = get(of_a), sb = get(of_b);
    const double change =
        sb.PerStep(static_cast<double>(sb.total_ns)) - sa.PerStep(static_cast<double>(sa.total_ns));
    rows.push_back({{"name", name},
                    {"a", Figures(sa)},
                    {"b", Figures(sb)},
                    {"change_ns", change},
                    {"verdict", Verdict(sa, sb)}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& x, const Json& y) {
    return std::abs(x.at("change_ns").get<double>()) > std::abs(y.at("change_ns").get<double>());
  });
  return Json(std::move(rows));
}

Json Head(const DiffSide& side) {
  return {
      {"origin", side.origin},
      {"cycles", side.cycles.size()},
      {"program", Values(side, [](const Json& c) { return Shown(At(At(c, "session"), "exe")); })},
      {"ranks", Values(side, [](const Json& c) { return Shown(At(At(c, "session"), "rank")); })},
      {"steps", Values(side, StepRange)}};
}

}  // namespace

Json Diff(const DiffSide& a, const DiffSide& b) {
  return {{"schema", "stepagent.diff/1"},
          {"compares", "times per step, not results"},
          {"a", Head(a)},
          {"b", Head(b)},
          {"differences", FindDifferences(a, b)},
          {"steps", StepTimes(a, b)},
          {"kernels", CompareTable(a, b, "kernels")},
          {"copies", CompareTable(a, b, "copies")},
          {"calls", CompareTable(a, b, "calls")}};
}

}  // namespace stepagent::analysis
