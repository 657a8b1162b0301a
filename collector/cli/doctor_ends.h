#pragma once
// Why a trial shows nothing, or not much: its processes were left out, or it was killed.
//
// Purpose: these come before what the rest of a trial seems to say.
// Thread rule: pure functions. Failure rule: what a trial did not show is said, not guessed.
#include <optional>
#include <string>

#include "collector/cli/doctor_check.h"
#include "collector/cli/doctor_trial.h"

namespace stepagent::cli {

[[nodiscard]] bool WasRecorded(const Trial& trial);
// By a signal, before we ended it.
[[nodiscard]] bool WasKilled(const Trial& trial);
[[nodiscard]] std::string SignalText(const Trial& trial);  // "signal 11 (Segmentation fault)"
// exit: of the user's command.
[[nodiscard]] Check Killed(const Ground& ground, const Trial& trial);
// ranks: nothing was recorded, and --ranks leaves out every process that could have.
[[nodiscard]] std::optional<Check> LeftOut(const Ground& ground, const Trial& trial);

}  // namespace stepagent::cli
