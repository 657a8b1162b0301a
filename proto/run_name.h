#pragma once
// RunName: which run this process belongs to.
//
// Purpose: every process of one `stepagent run`, one torchrun run or one job step finds the same
// name by itself, whenever it starts and however it was started: there is one folder and one
// collector for a run because all agree on its name.
// Thread rule: any thread, once at first use. Failure rule: a name always comes out; without /proc
// the processes of a run still agree.
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace stepagent::proto {

// What STEPAGENT_RUN may be: a folder's name that no command takes for an option and no shell needs
// quoted, short enough for an abstract socket's, and not `latest`, which is the link beside it.
[[nodiscard]] bool IsRunId(std::string_view run);
inline constexpr const char* kRunIdAllowed =
    "letters, digits, _ - and ., at most 64, not beginning with - or ., and not 'latest'";

// <UTC yyyymmddThhmmss>_<8 hex>. *is_given: by the launcher or by what a launcher told its ranks;
// else the process is a run of its own, named by the time and `random`.
[[nodiscard]] std::string RunName(char* const* environment, uint64_t random, bool* is_given);

// The same for the processes of a torchrun run or a job step; "" for others.
[[nodiscard]] std::string SharedRunName(char* const* environment);
// <UTC yyyymmddThhmmss>_<8 hex> of a run of its own, named by the time and `random`.
[[nodiscard]] std::string OwnRunName(uint64_t random);

// For tests. What a run has that no other has, and the variable that each of its ranks was given.
struct RunKey {
  std::string text;  // "": neither torchrun, nor a Slurm job step, nor Open MPI
  std::string_view rank_variable;
};
[[nodiscard]] RunKey SharedRunKey(char* const* environment);
// When the launcher of the ranks started, in seconds of UNIX time: the nearest ancestor, from
// `parent` on, whose environment lacks `rank_variable`, so that a shell around a rank, or a rank
// around a child of its own, makes no difference. `proc` is /proc.
[[nodiscard]] int64_t LauncherStart(const std::string& proc, pid_t parent,
                                    std::string_view rank_variable);

}  // namespace stepagent::proto
