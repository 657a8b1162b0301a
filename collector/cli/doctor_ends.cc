#include "collector/cli/doctor_ends.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "collector/launch/seen_ranks.h"
#include "proto/rank_info.h"
#include "proto/shell_word.h"

namespace stepagent::cli {
namespace {

using State = Check::State;

// The ranks that the processes of the trial were told; without one, this process's own.
std::set<int64_t> ToldRanks(const Ground& ground, const Trial& trial) {
  std::set<int64_t> told;
  for (const TrialProcess& process : trial.processes)
    if (!process.seen.stepagent.empty()) told.insert(process.seen.told_rank);
  launch::Environment environment = ground.environment;
  if (told.empty()) told.insert(proto::ReadRank(environment.Pointers().data()).rank);
  return told;
}

}  // namespace

bool WasRecorded(const Trial& trial) {
  return !trial.manifests.empty() || std::any_of(trial.processes.begin(), trial.processes.end(),
                                                 [](const TrialProcess& p) { return p.has_agent; });
}

bool WasKilled(const Trial& trial) { return trial.has_ended && WIFSIGNALED(trial.wait_status); }

std::string SignalText(const Trial& trial) {
  const int number = WTERMSIG(trial.wait_status);
  return "signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

Check Killed(const Ground& ground, const Trial& trial) {
  std::string command;
  for (const std::string& word : ground.command)
    command += (command.empty() ? "" : " ") + proto::ShellWord(word);
  return {"exit", State::kFailure,
          "the command was ended by " + SignalText(trial) + " after " +
              std::to_string(static_cast<int>(trial.seconds)) + " s",
          "what else a trial of it shows is of a program that dies",
          command +
              " (does it live without stepagent? then STEPAGENT_LOG=debug stepagent doctor -- " +
              command + ")"};
}

std::optional<Check> LeftOut(const Ground& ground, const Trial& trial) {
  if (WasRecorded(trial)) return std::nullopt;
  const std::set<int64_t> told = ToldRanks(ground, trial);
  const std::string why = launch::WhyLeftOut(ground.settings, told);
  if (why.empty()) return std::nullopt;
  return Check{"ranks", State::kFailure, why,
               "a process whose rank is not among them records nothing", launch::LeftOutCure(told)};
}

}  // namespace stepagent::cli
