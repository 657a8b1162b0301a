#include "collector/analysis/cost_amend.h"

#include <algorithm>
#include <optional>

#include "collector/analysis/reading_rules.h"

namespace stepagent::analysis {
namespace {

constexpr const char* kReading = "profiler_cost";

CallingThreads CallingThreadsOf(const Json& summary) {
  CallingThreads out;
  uint64_t most = 0, all = 0;
  for (const Json& thread : summary.at("threads")) {
    const auto count = thread.at("count").get<uint64_t>();
    out.count += count > 0 ? 1 : 0;
    most = std::max(most, count);
    all += count;
  }
  if (most > 0) out.busiest = double(most) / double(all);
  return out;
}

void Renumber(Json* readings) {
  uint64_t rank = 0;
  for (Json& reading : *readings) reading["rank"] = ++rank;
}

void AmendReadings(Json* summary) {
  const auto window_ns = summary->at("window").at("dur_ns").get<int64_t>();
  if (summary->at("gpu").at("status") == "unavailable" || window_ns <= 0) return;
  std::optional<Reading> found =
      ProfilerCostOf(summary->at("cost"), CallingThreadsOf(*summary), double(window_ns));
  Json& readings = summary->at("readings");
  auto at = std::find_if(readings.begin(), readings.end(),
                         [](const Json& reading) { return reading.at("id") == kReading; });
  if (found) {
    Json reading = {{"id", kReading},
                    {"rank", 0},
                    {"observation", std::move(found->observation)},
                    {"evidence", std::move(found->evidence)},
                    {"hypothesis", std::move(found->hypothesis)},
                    {"next_check", std::move(found->next_check)}};
    at == readings.end() ? readings.push_back(std::move(reading)) : void(*at = std::move(reading));
  } else if (at != readings.end()) {
    readings.erase(at);
  }
  Renumber(&readings);
}

// What had nothing to look at has something now.
void AmendSilent(Json* summary) {
  if (!summary->at("cost").at("ratio").at("value").is_number()) return;
  Json& silent = summary->at("readings_without_input");
  for (size_t i = silent.size(); i-- > 0;) {
    if (silent.at(i).at("id") == kReading) silent.erase(i);
  }
}

}  // namespace

void AmendSummary(const RecordedSteps& recorded, const OtherSteps& others, Json* summary) {
  SetStepTimes(recorded, others, &summary->at("cost"));
  AmendReadings(summary);
  AmendSilent(summary);
}

}  // namespace stepagent::analysis
