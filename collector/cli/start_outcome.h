#pragma once
// What came of a start in one process: its new cycles, their files and remarks.
//
// Purpose: read once when the waiting is over, for the lines, the JSON and the exit status alike.
// Thread rule: one thread.
// Failure rule: a session that cannot be read here (another container's mounts) is told by what
// its agent itself said; one that wrote nothing is not good.
#include <string>
#include <vector>

#include "collector/launch/control_client.h"
#include "collector/launch/session_files.h"

namespace stepagent::cli {

struct StartOutcome {
  launch::SessionEntry session;             // with `cycles` only those that this start made
  std::vector<std::string> seen_elsewhere;  // traces where the process sees them, and we do not
  bool is_good = false;  // taken, and each new cycle written by a process that lived through it
};

// Took the request.
[[nodiscard]] bool WasTaken(const launch::Answer& answer);
// `before`: its state ahead of the start.
[[nodiscard]] StartOutcome OutcomeOf(const launch::Answer& answer, const launch::Answer& before);
void PrintOutcome(const launch::Answer& answer, const StartOutcome& outcome);

}  // namespace stepagent::cli
