#pragma once
// One begin step for several processes.
//
// Purpose: `start --all` (or any set of processes) with steps: all record the same steps, so one
// step ahead of every one of them is chosen in one place, and those that refuse because they
// passed it meanwhile make all of them try again farther ahead.
// Thread rule: one thread. Failure rule: `error` says why no common step could be agreed on; then
// nothing is left armed.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/launch/control_client.h"

namespace stepagent::cli {

struct CommonStart {
  std::vector<launch::Answer> answers;  // one per target, in their order
  std::optional<uint64_t> at_step;      // the first active step of all; nullopt: each its own
  std::string error;
};

// What of `targets` (with their state) counts the same steps: more than one, one NVTX step source,
// and a request that goes by steps.
[[nodiscard]] bool CountsTogether(const std::vector<launch::Answer>& targets,
                                  const v1::ControlRequest& request);
// Steps ahead of `now` that leave `lead_seconds` at the fastest process's pace.
[[nodiscard]] uint64_t ChooseStep(const std::vector<launch::Answer>& before,
                                  const std::vector<launch::Answer>& now, double seconds_between,
                                  double lead_seconds, uint64_t warmup);
// Sends the start. `at_step`: asked for by the user, else chosen.
[[nodiscard]] CommonStart StartTogether(const std::vector<launch::Answer>& targets,
                                        v1::ControlRequest request, std::optional<uint64_t> at_step,
                                        uint64_t warmup);

}  // namespace stepagent::cli
