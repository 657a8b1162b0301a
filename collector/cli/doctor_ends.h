#pragma once
// Why a trial shows nothing, or not much: its processes were left out, or it was killed.
//
// Purpose: these come before what the rest of a trial seems to say.
// Thread rule: pure functions. Failure rule: what a trial did not show is said, not guessed.
#include <cstdint>
#include <optional>
#include <set>
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
// Members of --ranks that no process of the trial was told to be.
struct UnseenRanks {
  std::set<int64_t> late;     // below the number of ranks: there is one, and it was not met yet
  std::set<int64_t> none;     // not below it
  std::set<int64_t> unknown;  // nobody was told how many ranks there are
};
[[nodiscard]] UnseenRanks RanksNotSeen(const Ground& ground, const Trial& trial);
// ranks: some of --ranks was recorded, and some of it is no process of the trial.
[[nodiscard]] std::optional<Check> PartlySeen(const Ground& ground, const Trial& trial);
// ranks: nothing was recorded, and --ranks leaves out every process that could have.
[[nodiscard]] std::optional<Check> LeftOut(const Ground& ground, const Trial& trial);

}  // namespace stepagent::cli
