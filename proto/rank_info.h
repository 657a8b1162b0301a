#pragma once
// RankInfo: which of the run's ranks a process is, by what its launcher told it.
//
// Purpose: one rule for agent and `stepagent run`: the first family that is set wins.
// Thread rule: pure. Failure rule: what is not told or is no number is -1.
#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::proto {

struct RankInfo {
  int32_t rank = -1, world_size = -1, local_rank = -1;
  std::string source = "none";         // the variable
  std::vector<std::string> conflicts;  // VARIABLE=value of other families that disagree
};
[[nodiscard]] RankInfo ReadRank(char* const* environment);

}  // namespace stepagent::proto
