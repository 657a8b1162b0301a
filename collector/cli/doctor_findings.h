#pragma once
// What a trial tells, as checks.
//
// Purpose: the doctor's own device program (a known number of records) and the user's command.
// Thread rule: pure functions. Failure rule: what a trial did not show is said, not guessed.
#include "collector/cli/doctor_check.h"
#include "collector/cli/doctor_trial.h"

namespace stepagent::cli {

// driver, cupti, device-trial. `exit_status` of the program tells no driver from no device.
[[nodiscard]] Checks DeviceFindings(const Trial& trial);
// processes, agent, cuda, rival, ranges, step, capture of the user's command.
[[nodiscard]] Checks CommandFindings(const Ground& ground, const Trial& trial);
// The command that records, with a step source if the trial showed one.
[[nodiscard]] std::string NextCommand(const Ground& ground, const Trial* trial);

}  // namespace stepagent::cli
