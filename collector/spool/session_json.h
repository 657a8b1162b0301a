#pragma once
// session.json: who, what, settings in force, cycles so far.
//
// Purpose: what `stepagent wait`, `report` and people look at while a run goes on.
// Thread rule: a plain value and a pure function; the session's owner writes it.
// Failure rule: text that is no UTF-8 is replaced; writing returns "path: what: errno text".
#include <cstdint>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::spool {

struct CycleEntry {
  uint32_t index = 0;
  std::string state;  // recording writing written failed
  std::string ended;
  bool complete = false;
  // One to a line, relative to the run folder: kept for each cycle of a session, so as one string.
  std::string files;
  std::string error;
  void SetFiles(const std::vector<std::string>& names);
};
struct SessionState {
  model::SessionInfo session;
  bool is_open = true;
  std::vector<CycleEntry> cycles;
  std::vector<std::string> problems;  // path and errno text of what could not be written
  bool has_duplicate_rank = false;    // its files carry the pid
  // Who had its rank before, when that one was given it by us; VARIABLE=value of rank variables
  // that its rank was not taken from.
  std::string rank_holder;
  std::vector<std::string> rank_conflicts;
  uint64_t raw_bytes = 0, lost_frames = 0, refused_frames = 0;
};

[[nodiscard]] std::string WriteSessionJson(const SessionState& state, const std::string& folder);

}  // namespace stepagent::spool
