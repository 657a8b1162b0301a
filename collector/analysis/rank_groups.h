#pragma once
// Which sessions of a run ran side by side.
//
// Purpose: a launcher may restart its ranks (torchrun's elastic runs), all or one: then a rank has
// several processes in one run, one after the other, each with a cycle 0. Only what ran at the same
// time is compared.
// Thread rule: free functions over immutable documents.
// Failure rule: a session whose times are not known counts as running beside all others.
#include <span>
#include <vector>

#include "nlohmann/json.hpp"

namespace stepagent::analysis {

struct RankGroup {
  std::vector<const nlohmann::ordered_json*> summaries;
  std::vector<bool> restarted;  // of each: another process had its rank before
};

// Of one cycle's summaries: one group, unless a rank was restarted; then in the order of time. Two
// processes that claim one rank at the same time stay together.
[[nodiscard]] std::vector<RankGroup> GroupByTime(
    std::span<const nlohmann::ordered_json* const> summaries);

}  // namespace stepagent::analysis
