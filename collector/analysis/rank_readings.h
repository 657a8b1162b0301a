#pragma once
// What stands out among ranks: one that works longer, ones that wait, one that begins late.
//
// Purpose: the readings of rank_report.h; the same form as those of a cycle (readings.h).
// Thread rule: free functions over plain values.
// Failure rule: a rule whose input is absent stays silent.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collector/analysis/readings.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {

struct RankStep {
  int64_t wall_ns = 0;
  int64_t exposed_ns = 0;  // in collectives with no compute beside
  std::optional<int64_t> begin_unix_ns;
  bool is_whole = false;  // ended by its own range, without the tracer's start
  bool holds_tracer_start = false;
  [[nodiscard]] int64_t OwnNs() const { return wall_ns - exposed_ns; }
};
struct RankSteps {
  int64_t rank = -1;  // -1: not known
  int64_t pid = -1;
  // "rank 3"; "rank 3 (restarted, pid 77)"; "pid 77" where the rank is not known or not this
  // one's alone.
  std::string name;
  std::string host;
  std::map<uint64_t, RankStep> steps;  // by index
  bool is_restarted = false;           // another process had its rank before
  std::string why_no_steps;            // "" unless its steps are none to compare (clock slices)
};

// Even medians are the mean of the two middle values.
[[nodiscard]] std::optional<int64_t> Median(std::vector<int64_t> values);
// What the ranks' readings go by; documented beside those of a cycle.
[[nodiscard]] std::span<const Threshold> RankThresholds();
// Of steps that are whole in all ranks compared: with fewer no rank is named.
[[nodiscard]] uint64_t LeastSteps();
// [{id rank pid observation evidence hypothesis next_check}], the most telling first.
[[nodiscard]] nlohmann::ordered_json RankReadings(const std::vector<RankSteps>& ranks,
                                                  bool is_one_host);

}  // namespace stepagent::analysis
