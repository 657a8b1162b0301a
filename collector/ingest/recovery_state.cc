#include "collector/ingest/recovery_state.h"

#include <fstream>

#include "nlohmann/json.hpp"

#include "collector/spool/names.h"

namespace stepagent::ingest {

OldState ReadOldState(const std::string& session_dir) {
  OldState old;
  std::ifstream file(session_dir + "/" + std::string(spool::kSessionJsonName));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return old;
  try {
    old.is_closed = json.value("state", "") == "closed";
    old.has_duplicate_rank = json.value("duplicate_rank", false);
    const auto holder = json.find("rank_holder");
    if (holder != json.end() && holder->is_string()) old.rank_holder = *holder;
    old.rank_conflicts = json.value("rank_conflicts", std::vector<std::string>());
    old.problems = json.value("problems", std::vector<std::string>());
    for (const auto& c : json.value("cycles", nlohmann::json::array())) {
      spool::CycleEntry entry;
      entry.index = c.value("index", 0U);
      entry.state = c.value("state", "");
      if (c.contains("ended") && c["ended"].is_string()) entry.ended = c["ended"];
      entry.complete = c.value("complete", false);
      entry.SetFiles(c.value("files", std::vector<std::string>()));
      entry.error = c.value("error", "");
      old.cycles.push_back(std::move(entry));
    }
  } catch (const nlohmann::json::exception&) {
    // Somebody else's idea of a session.json: what was read so far will do.
  }
  return old;
}

}  // namespace stepagent::ingest
