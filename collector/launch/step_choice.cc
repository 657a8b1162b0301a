#include "collector/launch/step_choice.h"

#include <algorithm>
#include <tuple>

#include "collector/launch/session_files.h"
#include "nlohmann/json.hpp"
#include "proto/settings.h"

namespace stepagent::launch {
namespace {

using nlohmann::json;

std::optional<uint64_t> Number(const json& object, const char* key) {
  const json& member = Member(object, key);
  if (!member.is_number_unsigned()) return std::nullopt;
  return member.get<uint64_t>();
}

}  // namespace

SeenRange& RangeOf(const std::string& name, const std::string& domain,
                   std::vector<SeenRange>* ranges) {
  const auto found = std::find_if(ranges->begin(), ranges->end(), [&](const SeenRange& r) {
    return r.name == name && r.domain == domain;
  });
  if (found != ranges->end()) return *found;
  return ranges->emplace_back(SeenRange{.name = name, .domain = domain});
}

void AddRangesOf(const json& summary, std::vector<SeenRange>* ranges) {
  for (const json& row : Member(summary, "ranges")) {
    const std::string name = TextMember(row, "name");
    if (name.empty()) continue;
    SeenRange& range = RangeOf(name, TextMember(row, "domain"), ranges);
    range.count += Number(row, "count").value_or(0);
    range.total_ns += Number(row, "total_ns").value_or(0);
    const auto level = Number(row, "level");
    if (level) range.level = std::min(range.level.value_or(*level), *level);
  }
}

void OrderAsSteps(std::vector<SeenRange>* ranges) {
  const auto key = [](const SeenRange& r) {
    // Of two that nothing surrounds (on two threads, or one after the other) the one that holds
    // more of the time is the likelier step; without times the one that is seen more often.
    return std::tuple(r.count < 2, r.level.value_or(UINT64_MAX), UINT64_MAX - r.total_ns,
                      UINT64_MAX - r.count);
  };
  std::stable_sort(ranges->begin(), ranges->end(),
                   [&](const SeenRange& a, const SeenRange& b) { return key(a) < key(b); });
}

std::string StepValue(const SeenRange& range) {
  proto::StepSetting step;
  step.kind = proto::StepSetting::Kind::kNvtx;
  step.name = range.name;
  step.domain = range.domain;
  return step.Text();
}

}  // namespace stepagent::launch
