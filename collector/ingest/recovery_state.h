#pragma once
// What an earlier collector left written down about a session.
//
// Purpose: session.json read back.
// Thread rule: pure but for the file. Failure rule: an unreadable file is an empty state.
#include <string>
#include <vector>

#include "collector/spool/session_json.h"

namespace stepagent::ingest {

struct OldState {
  bool is_closed = false;
  bool has_duplicate_rank = false;
  std::string rank_holder;
  std::vector<std::string> rank_conflicts;
  std::vector<spool::CycleEntry> cycles;
  std::vector<std::string> problems;
};
[[nodiscard]] OldState ReadOldState(const std::string& session_dir);

}  // namespace stepagent::ingest
