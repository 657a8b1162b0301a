#pragma once
// Which of the ranges that were seen is worth offering as a step.
//
// Purpose: the launcher's last lines and `doctor` list ranges as ready --step values, the likeliest
// first. What a user calls a step is the outermost range that repeats: what is inside it repeats
// more often (a layer, an operator), what is around it comes once (a whole training).
// Thread rule: pure. Failure rule: ranges of unknown nesting come last.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace stepagent::launch {

struct SeenRange {
  std::string name, domain;
  uint64_t count = 0, registered = 0, total_ns = 0;
  std::optional<uint64_t> level;  // ranges around it on its thread; 0: outermost
};

// The rows `ranges` of a summary.json, added to what is known of the same name and domain.
void AddRangesOf(const nlohmann::json& summary, std::vector<SeenRange>* ranges);
// That entry, made when there is none.
[[nodiscard]] SeenRange& RangeOf(const std::string& name, const std::string& domain,
                                 std::vector<SeenRange>* ranges);
void OrderAsSteps(std::vector<SeenRange>* ranges);
// As a value of --step.
[[nodiscard]] std::string StepValue(const SeenRange& range);

}  // namespace stepagent::launch
