#pragma once
// Ranks of a run that left nothing to read, by name.
//
// Purpose: a row for each rank that recorded does not show who is not among them; the number of
// ranks that their launcher told them does.
// Thread rule: pure. Failure rule: a run that was told no number of ranks has none missing.
#include <string>
#include <vector>

#include "collector/launch/session_files.h"

namespace stepagent::launch {

// "ranks 3, 8-15 ended before their warmup: no cycle …", and a line for ranks that came to a warmup
// and to no active step. `sessions`: of one run that is over.
[[nodiscard]] std::vector<std::string> MissingRanks(const std::vector<SessionEntry>& sessions);

// "rank 9 is not below its number of ranks, 8: …", a line for each number of ranks.
[[nodiscard]] std::vector<std::string> RanksBeyondWorld(const std::vector<SessionEntry>& sessions);

}  // namespace stepagent::launch
