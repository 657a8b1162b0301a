#pragma once
// Reads what `convert` was given, cycle by cycle.
//
// Purpose: one cycle in memory at a time, whatever the path was: raw.steps, a session's folder, a
// cycle's folder (its session's raw file holds it), a run with all its sessions, or a Kineto file.
// Cycles come as they were written live: with the same notes. Nothing is written.
// Thread rule: one call, one thread. Failure rule: `error` where nothing could be read; what is odd
// inside is a line in `problems`.
#include <functional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::cli {

struct ConvertReport {
  std::string error;
  std::vector<std::string> problems;
};

struct SourceCycle {
  model::Cycle cycle;
  std::string session;              // its folder's name; "" unless a whole run is read
  bool has_duplicate_rank = false;  // its Chrome file's name carries the pid
};

[[nodiscard]] ConvertReport ReadForConvert(const std::string& path,
                                           const std::function<void(SourceCycle)>& on_cycle);

}  // namespace stepagent::cli
