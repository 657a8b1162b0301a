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

UnseenRanks RanksNotSeen(const Ground& ground, const Trial& trial) {
  UnseenRanks unseen;
  if (!ground.settings.ranks) return unseen;
  std::set<int64_t> told;
  int64_t world = -1;
  for (const TrialProcess& process : trial.processes) {
    if (process.seen.told_rank >= 0) told.insert(process.seen.told_rank);
    world = std::max(world, process.seen.told_world);
  }
  if (told.empty()) return unseen;  // without ranks nothing can be said of them
  for (const uint32_t rank : *ground.settings.ranks) {
    if (told.contains(rank)) continue;
    (world < 0 ? unseen.unknown : rank < world ? unseen.late : unseen.none).insert(rank);
  }
  return unseen;
}

std::optional<Check> PartlySeen(const Ground& ground, const Trial& trial) {
  const UnseenRanks unseen = RanksNotSeen(ground, trial);
  std::string found;
  const auto add = [&found](const std::set<int64_t>& ranks, const std::string& what) {
    if (ranks.empty()) return;
    found += (found.empty() ? "" : "; ") + std::string(ranks.size() == 1 ? "rank " : "ranks ") +
             launch::RankList(ranks) + " of --ranks " + what;
  };
  const std::string seconds = std::to_string(static_cast<int>(trial.seconds)) + " s";
  add(unseen.none, "not below the number of ranks: no process is that");
  add(unseen.late, "not met in " + seconds + ", though there are so many ranks");
  add(unseen.unknown, "not met in " + seconds + "; how many ranks there are nobody was told");
  if (found.empty()) return std::nullopt;
  std::set<int64_t> met, kept;
  for (const TrialProcess& process : trial.processes)
    if (process.seen.told_rank >= 0) met.insert(process.seen.told_rank);
  for (const uint32_t rank : *ground.settings.ranks)
    if (!unseen.none.contains(rank)) kept.insert(rank);
  return Check{"ranks", State::kWarning, found + " (met: " + launch::RankList(met) + ")",
               "a rank that there is not records nothing",
               unseen.none.empty() ? "--trial 5m if they start slowly" : launch::LeftOutCure(kept)};
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
