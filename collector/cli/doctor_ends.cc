#include "collector/cli/doctor_ends.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "proto/rank_info.h"
#include "proto/shell_word.h"

namespace stepagent::cli {
namespace {

using State = Check::State;

// Every process that could have recorded has a rank that --ranks leaves out; "" otherwise.
std::string RanksLeftOut(const Ground& ground, const Trial& trial) {
  if (!ground.settings.ranks) return "";
  const std::vector<uint32_t>& chosen = *ground.settings.ranks;
  std::set<int64_t> told;
  for (const TrialProcess& process : trial.processes)
    if (!process.seen.stepagent.empty()) told.insert(process.seen.told_rank);
  launch::Environment environment = ground.environment;
  if (told.empty()) told.insert(proto::ReadRank(environment.Pointers().data()).rank);
  std::string text;
  for (const int64_t rank : told) {
    const bool records = rank < 0 || std::find(chosen.begin(), chosen.end(),
                                               static_cast<uint32_t>(rank)) != chosen.end();
    if (records) return "";
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  }
  return text;
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
  const std::string ranks = WasRecorded(trial) ? "" : RanksLeftOut(ground, trial);
  if (ranks.empty()) return std::nullopt;
  return Check{"ranks", State::kFailure,
               "--ranks " + proto::SettingsText(ground.settings).at("ranks") +
                   " leaves out every process that was seen (rank " + ranks + ")",
               "a process whose rank is not among them records nothing",
               "--ranks " + ranks + ", or leave --ranks (STEPAGENT_RANKS) out"};
}

}  // namespace stepagent::cli
