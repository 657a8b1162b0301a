#pragma once
// One begin step for several processes.
//
// Purpose: `start --all` (or any set of processes) with steps: the processes of one run that count
// the same steps record the same steps, so one step ahead of every one of them is chosen in one
// place, and those that refuse because they passed it meanwhile make all of them try again farther
// ahead. A process of another run or step source, or one that is recording already, has no say.
// Thread rule: one thread. Failure rule: `error` says why no common step could be agreed on; then
// nothing is left armed. Nothing is left half armed either when another start came in between.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/launch/control_client.h"

namespace stepagent::cli {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

struct CommonStart {
  std::vector<launch::Answer> answers;            // one per target, in their order
  std::vector<std::optional<uint64_t>> at_steps;  // its first active step; nullopt: its own
  std::string error;
};

// What of `targets` (with their state) counts the same steps, as positions in it: those of one run
// and one NVTX step source, in a request that goes by steps. Whoever is in none starts by itself.
[[nodiscard]] std::vector<std::vector<size_t>> CountTogether(
    const std::vector<launch::Answer>& targets, const v1::ControlRequest& request);
// The time a request may take: that of an agent that only waits, or a quarter of what is left, so
// that one that hangs takes neither the others' turn nor the command's time.
[[nodiscard]] std::chrono::milliseconds AnswerTime(const Deadline& deadline);
// Steps ahead of `now` that leave `lead_seconds` at the fastest process's pace.
[[nodiscard]] uint64_t ChooseStep(const std::vector<launch::Answer>& before,
                                  const std::vector<launch::Answer>& now, double seconds_between,
                                  double lead_seconds, uint64_t warmup);
// Sends the start, each group with its step. `at_step`: asked for by the user for all of them.
[[nodiscard]] CommonStart StartTogether(const std::vector<launch::Answer>& targets,
                                        const v1::ControlRequest& request,
                                        std::optional<uint64_t> at_step, uint64_t warmup,
                                        const Deadline& deadline);

}  // namespace stepagent::cli
