#pragma once
// `start --steps` and `--for`: until what was started is written.
//
// Purpose: follows the processes that took a start until each is idle again with all its cycles
// written.
// Thread rule: one thread (the asking uses its own).
// Failure rule: what is said of a process is what it said itself at that time: one that hangs makes
// no other's word old. A process that dies meanwhile is followed in its session's files.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "collector/cli/common_step.h"
#include "collector/launch/control_client.h"

namespace stepagent::cli {

// Processes that were to begin with one common step and did not come to it.
struct Laggards {
  std::vector<std::optional<uint64_t>> at_steps;  // by answer; nullopt: it has no common step
  std::chrono::nanoseconds patience;              // once the first is done
  Deadline deadline;                              // of the whole command
  std::vector<std::string> names = {};            // "rank 5 (pid 4711) is at step 12"
};

// Replaces each answer's status by the last one seen; one whose process has ended is_gone then.
// `before`: the state ahead of the start.
void WaitUntilIdle(std::vector<launch::Answer>* answers, const std::vector<launch::Answer>& before,
                   const proto::RuntimeDirs& dirs, Laggards* laggards);
// Idle or done, with every begun cycle written.
[[nodiscard]] bool IsAtRest(const v1::AgentStatus& status);

}  // namespace stepagent::cli
