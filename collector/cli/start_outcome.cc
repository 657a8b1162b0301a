#include "collector/cli/start_outcome.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "collector/cli/targets.h"
#include "collector/launch/run_rows.h"
#include "proto/shell_word.h"

namespace stepagent::cli {
namespace {

using launch::Answer;
using launch::CycleEntry;

// Whatever else is there stands beside them.
bool IsTrace(const std::string& file) {
  for (const char* other : {"/manifest.json", "/summary.json", "/summary.txt", "/steps.csv"})
    if (file.ends_with(other)) return false;
  return true;
}

// What the agent itself says it wrote since: its folder may lie in another container's mounts.
std::vector<std::string> WrittenElsewhere(const v1::AgentStatus& status, const Answer& before) {
  std::set<std::string> old;
  if (before.message)
    old.insert(before.message->status().written().begin(),
               before.message->status().written().end());
  std::vector<std::string> files;
  for (const std::string& file : status.written())
    if (IsTrace(file) && !old.contains(file)) files.push_back(file);
  return files;
}

bool IsGood(const CycleEntry& cycle) { return cycle.state == "written" && cycle.ended != "killed"; }

}  // namespace

bool WasTaken(const Answer& answer) {
  return answer.message && answer.message->verdict() == v1::ControlAnswer::OK;
}

StartOutcome OutcomeOf(const Answer& answer, const Answer& before) {
  StartOutcome outcome;
  if (!WasTaken(answer)) return outcome;
  const v1::AgentStatus& status = answer.message->status();
  if (auto session = launch::ReadSession(status.session_dir())) {
    outcome.session = *std::move(session);
    const uint32_t cycles_before = before.message ? before.message->status().cycle() : 0;
    std::vector<CycleEntry>& cycles = outcome.session.cycles;
    std::erase_if(cycles, [&](const CycleEntry& cycle) { return cycle.index < cycles_before; });
    outcome.is_good = !cycles.empty() && std::all_of(cycles.begin(), cycles.end(), IsGood);
  } else {
    outcome.seen_elsewhere = WrittenElsewhere(status, before);
    outcome.is_good = !outcome.seen_elsewhere.empty();
  }
  return outcome;
}

void PrintOutcome(const Answer& answer, const StartOutcome& outcome) {
  std::printf("%s\n", StatusLine(answer).c_str());
  if (!WasTaken(answer)) {
    if (answer.message) std::printf("  %s\n", VerdictLine(answer).c_str());
    return;
  }
  for (const CycleEntry& cycle : outcome.session.cycles) {
    for (const std::string& file : cycle.files)
      if (IsTrace(file)) std::printf("  %s\n", file.c_str());
    for (const std::string& remark :
         launch::CycleRemarks(outcome.session, cycle, /*is_whole=*/false))
      std::printf("  %s\n", remark.c_str());
    if (!cycle.IsWritten() && !cycle.IsDeferred())
      std::printf("  cycle %llu is not written yet: stepagent wait %s\n",
                  static_cast<unsigned long long>(cycle.index),
                  proto::ShellWord(outcome.session.folder).c_str());
    const std::string reading =
        launch::FirstReadingOf(launch::CycleFolder(outcome.session, cycle.index));
    if (!reading.empty()) std::printf("  %s\n", reading.c_str());
  }
  for (const std::string& file : outcome.seen_elsewhere)
    std::printf("  %s (as the process sees it: not visible from here)\n", file.c_str());
  if (!outcome.session.cycles.empty() || !outcome.seen_elsewhere.empty()) return;
  const std::string& error = answer.message->status().last_error();
  std::printf("  nothing was written%s%s\n", error.empty() ? "" : ": ", error.c_str());
}

}  // namespace stepagent::cli
