#pragma once
// RankInfo: which of the run's ranks a process is, by what its launcher told it.
//
// Purpose: one rule for agent and `stepagent run`: the first family whose rank is one wins.
// Thread rule: pure. Failure rule: what is not told or is no number is -1; a rank variable that
// holds no rank is listed, so that it can be said.
#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::proto {

struct RankInfo {
  int32_t rank = -1, world_size = -1, local_rank = -1;
  std::string source = "none";  // the variable
  // VARIABLE=value of families that were not taken: they disagree, or hold no rank.
  std::vector<std::string> conflicts;
  // A line for each that holds no rank, with what is allowed, and for a rank that is not below the
  // number of ranks (it is taken all the same).
  std::vector<std::string> warnings;
};
[[nodiscard]] RankInfo ReadRank(char* const* environment);

}  // namespace stepagent::proto
