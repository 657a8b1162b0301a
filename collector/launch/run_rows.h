#pragma once
// The sessions of a run as the launcher's last lines show them.
//
// Purpose: one row per rank with what there is to say of its cycles; the files where they are few,
// else the folder they are in; and what a cycle lost, with the setting that gives it more room.
// Thread rule: pure, but for reading the run's documents.
// Failure rule: what cannot be read is left out.
#include <string>
#include <vector>

#include "collector/launch/run_plan.h"
#include "collector/launch/session_wait.h"

namespace stepagent::launch {

// "host only: no device", "cycle 0 ended by: limit (…)", … of one cycle. `is_whole`: the whole
// run was asked for, so that its exit is no remark.
[[nodiscard]] std::vector<std::string> CycleRemarks(const SessionEntry& session,
                                                    const CycleEntry& cycle, bool is_whole);
// Lines without the "stepagent: " prefix and line ends; `rows` in the order to be shown.
[[nodiscard]] std::vector<std::string> SessionRows(const RunPlan& plan,
                                                   const std::vector<SessionEntry>& rows,
                                                   const std::vector<LateSession>& late);
// "rank 3, cycle 1 lost records: 12 records …; --ring-memory …", one for each cycle that did.
[[nodiscard]] std::vector<std::string> LossLines(const std::vector<SessionEntry>& rows);
// The traces of one cycle.
[[nodiscard]] std::vector<std::string> TraceFiles(const CycleEntry& cycle);

}  // namespace stepagent::launch
