#pragma once
// Which processes a control command means.
//
// Purpose: PID, --all, --rank, --gpu, --name, --session, or the only one there is; asked for their
// state first, so that what matches is decided by what they say of themselves.
// Thread rule: one thread (the asking uses its own).
// Failure rule: `error` says why nothing, or more than one, matched.
#include <cstdint>
#include <string>
#include <vector>

#include "collector/launch/control_client.h"

namespace stepagent::cli {

struct TargetRules {
  std::vector<int64_t> pids;
  bool all = false;
  std::vector<uint32_t> ranks;
  int64_t gpu = -1;
  std::string name;     // glob over the process title
  std::string session;  // the id or the beginning of it
  [[nodiscard]] bool IsBare() const {
    return pids.empty() && !all && ranks.empty() && gpu < 0 && name.empty() && session.empty();
  }
};

struct Targets {
  std::vector<launch::Answer> matched;  // with their state; those that hang are among them
  std::string error;
};

// `bare_means_all`: for commands that change nothing.
[[nodiscard]] Targets FindTargets(const TargetRules& rules, bool bare_means_all,
                                  const proto::RuntimeDirs& dirs,
                                  std::chrono::milliseconds timeout = launch::kAnswerTimeout);
[[nodiscard]] bool Matches(const TargetRules& rules, const launch::Answer& answer);
// "" unless --gpu had nothing to compare with: no process has told which one it uses.
[[nodiscard]] std::string WhyNoGpuMatches(const TargetRules& rules,
                                          const std::vector<launch::Answer>& answers);
// Processes with a device first, then by rank and pid.
void SortTargets(std::vector<launch::Answer>* answers);
// What a launcher gave it, or what the collector assigned with its first cycle; -1: none yet.
[[nodiscard]] int64_t RankOf(const launch::Answer& answer);
// Of those that did not answer what /proc tells of them, or what they said `before` (may be empty).
void DescribeSilent(const std::vector<launch::Answer>& before, std::vector<launch::Answer>* answers);
// "1234 python train.py rank 0 active step 41 cycle 1 records 10234"
[[nodiscard]] std::string StatusLine(const launch::Answer& answer);
// "ok", "busy", "refused", "no answer"
[[nodiscard]] const char* VerdictText(const launch::Answer& answer);
// With its reason: "busy: already active"
[[nodiscard]] std::string VerdictLine(const launch::Answer& answer);

}  // namespace stepagent::cli
