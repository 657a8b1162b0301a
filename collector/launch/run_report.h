#pragma once
// The launcher's last lines: what was recorded, where it is, what to type next.
//
// Purpose: one row per session (rank), with host-only traces and their reason (run_rows.h); ranges
// as ready --step values when nothing said what a step is (one that never matched is said by the
// agent itself at exit); required kinds that were not collected; and when nothing was recorded,
// why.
// Thread rule: pure, but for reading the run's documents and trying its folder.
// Failure rule: what cannot be read is left out.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "collector/launch/collector_word.h"
#include "collector/launch/run_plan.h"
#include "collector/launch/session_wait.h"

namespace stepagent::launch {

struct RunOutcome {
  WaitResult written;
  std::string program_warning;   // why the target itself could not be traced
  CollectorWord collector;       // what it said at the end
  std::set<int64_t> seen_ranks;  // where --ranks was given
  bool saw_folder = false;       // the run's folder was there while the program ran
};

// Lines without the "stepagent: " prefix and line ends.
[[nodiscard]] std::vector<std::string> RunReport(const RunPlan& plan, const RunOutcome& outcome);
// Required kinds that some cycle did not collect, or all when there is no cycle.
[[nodiscard]] uint32_t MissingKinds(const RunPlan& plan, const std::vector<SessionEntry>& sessions);

}  // namespace stepagent::launch
