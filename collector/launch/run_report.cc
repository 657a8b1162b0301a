#include "collector/launch/run_report.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "collector/analysis/rank_report.h"
#include "collector/launch/missing_ranks.h"
#include "collector/launch/run_rows.h"
#include "collector/launch/seen_ranks.h"
#include "collector/launch/step_choice.h"
#include "nlohmann/json.hpp"
#include "proto/out_folder.h"
#include "proto/shell_word.h"

namespace stepagent::launch {
namespace {

using nlohmann::json;
constexpr size_t kRangesShown = 10;

void AddRanges(std::vector<SeenRange> ranges, std::vector<std::string>* lines) {
  OrderAsSteps(&ranges);
  for (size_t i = 0; i < std::min(ranges.size(), kRangesShown); ++i)
    lines->push_back("  --step " + proto::ShellWord(StepValue(ranges[i])) + "   (" +
                     std::to_string(ranges[i].count) + " times)");
}

std::vector<SeenRange> RangesOfSummaries(const std::vector<SessionEntry>& sessions) {
  std::vector<SeenRange> ranges;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles)
      AddRangesOf(ReadJson(CycleFolder(session, cycle.index) + "/summary.json"), &ranges);
  return ranges;
}

// The cycle that most sessions have, of several the last: a rank may have recorded alone since.
uint64_t MostSharedCycle(const std::vector<SessionEntry>& sessions) {
  std::map<uint64_t, size_t> holders;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles)
      if (cycle.IsWritten()) ++holders[cycle.index];
  uint64_t shared = 0;
  for (const auto& [index, count] : holders)
    if (count >= holders[shared]) shared = index;
  return shared;
}

// The ranks side by side.
void AddRanks(const std::vector<SessionEntry>& sessions, std::vector<std::string>* lines) {
  using Document = nlohmann::ordered_json;
  const uint64_t last = MostSharedCycle(sessions);
  std::vector<Document> summaries;
  for (const SessionEntry& session : sessions) {
    std::ifstream file(CycleFolder(session, last) + "/summary.json", std::ios::binary);
    Document summary = Document::parse(file, nullptr, false);
    if (summary.is_object()) summaries.push_back(std::move(summary));
  }
  std::vector<const Document*> pointers;
  for (const Document& summary : summaries) pointers.push_back(&summary);
  const Document compared = analysis::CompareRanks(pointers);
  for (const Document& one : compared) {
    lines->push_back("ranks in cycle " + std::to_string(last) + analysis::IncarnationText(one) +
                     ":");
    std::istringstream rows(analysis::RankRowsText(one));
    for (std::string row; std::getline(rows, row);) lines->push_back(row);
  }
}

// Of the newest cycle that most ranks have.
std::string TraceToOpen(const std::vector<SessionEntry>& sessions) {
  const uint64_t newest = MostSharedCycle(sessions);
  std::string any;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles)
      for (const std::string& file : TraceFiles(cycle)) {
        if (cycle.index == newest) return file;
        if (any.empty()) any = file;
      }
  return any;
}

void AddNext(const std::vector<SessionEntry>& sessions, std::vector<std::string>* lines) {
  const std::string first = TraceToOpen(sessions);
  const std::string run = sessions.front().run_folder;
  lines->push_back("next:");
  lines->push_back("  stepagent report " + proto::ShellWord(run));
  if (first.empty()) return;
  lines->push_back("  HTA, TensorBoard: " +
                   proto::ShellWord(std::filesystem::path(first).parent_path().string()));
  lines->push_back("  https://ui.perfetto.dev: " + proto::ShellWord(first));
}

// Of a collector that was named: it writes into a folder of its own.
std::string WhyNothingAt(const std::string& collector, const CollectorWord& word,
                         const std::string& run) {
  using State = CollectorWord::State;
  const std::string at = "the collector at " + proto::ShellWord(collector);
  switch (word.state) {
    case State::kNobody:
      return "no collector listens at " + word.error + ": start one (stepcollector --socket " +
             proto::ShellWord(collector) + " --out DIR), or leave out --collector";
    case State::kOthers:
      return at + " is user " + std::to_string(word.uid) + "'s and takes nothing of user " +
             std::to_string(geteuid()) + ": start one of your own, or leave out --collector";
    case State::kSilent:
      return at + " did not answer (" + word.error + "); what it has is in its --out, run " + run;
    case State::kAnswered:
      break;
  }
  if (word.run_folder.empty())
    return at + " has no session of this run: no process came to a first warmup";
  return at + " writes into " + proto::ShellWord(word.run_folder) +
         ", which holds no cycle yet "
         "or cannot be read from here: stepagent report " +
         proto::ShellWord(word.run_folder);
}

// Below this no document of ours fits.
constexpr uint64_t kNoSpaceBytes = 64 * 1024;

// "": there is room where the run's files go.
std::string WhyNoSpace(const RunPlan& plan) {
  if (plan.settings.collector != "auto") return {};  // a folder of its own
  struct statvfs space {};
  const std::string folder = proto::ExistingFolder(plan.RunFolder());
  if (statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return {};
  if (uint64_t{space.f_bavail} * space.f_frsize >= kNoSpaceBytes) return {};
  return folder +
         ": no space left on its file system: not all could be written; give --out DIR on "
         "another one, or free some";
}

// The folder that somebody removed while the program ran; "" where nobody did.
std::string RemovedFolder(const RunPlan& plan, const RunOutcome& outcome) {
  if (plan.settings.collector != "auto") return {};  // its folder may be in other mounts
  std::string folder = outcome.collector.run_folder;
  if (folder.empty() && outcome.saw_folder) folder = plan.RunFolder();
  std::error_code error;
  return folder.empty() || std::filesystem::exists(folder, error) ? "" : folder;
}

std::string WhyNothing(const RunPlan& plan, const RunOutcome& outcome) {
  if (!outcome.program_warning.empty()) return outcome.program_warning;
  if (std::string why = WhyNoSpace(plan); !why.empty()) return why;
  if (!outcome.written.sessions.empty())
    return "a process came to a warmup and no cycle of it is here: the run ended before its first "
           "active step, or before the agent had sent it (then it said so above)";
  if (const std::string why = WhyLeftOut(plan.settings, outcome.seen_ranks); !why.empty())
    return why + ": " + LeftOutCure(outcome.seen_ranks);
  const std::string& collector = plan.settings.collector;
  if (collector != "auto") return WhyNothingAt(collector, outcome.collector, plan.run);
  if (outcome.collector.state == CollectorWord::State::kOthers)
    return "a process of user " + std::to_string(outcome.collector.uid) +
           " holds this run's socket: give STEPAGENT_RUNTIME_DIR a folder of your own";
  if (const std::string why = proto::WhyNotCreatable(plan.settings.out); !why.empty())
    return why + "; give " + proto::OutFolderCure();
  return "no process of the run came to a first warmup";
}

}  // namespace

std::vector<std::string> RunReport(const RunPlan& plan, const RunOutcome& outcome) {
  std::vector<std::string> lines;
  const std::vector<SessionEntry>& sessions = outcome.written.sessions;
  size_t cycles = 0;
  for (const SessionEntry& session : sessions) cycles += session.cycles.size();
  if (const std::string folder = RemovedFolder(plan, outcome); cycles == 0 && !folder.empty())
    return {"nothing is left of what was recorded",
            "  " + proto::ShellWord(folder) +
                " was removed while the program ran: leave it until the end, or give --out DIR"};
  if (cycles == 0) return {"nothing was recorded", "  " + WhyNothing(plan, outcome)};
  lines.push_back("traces in " + proto::ShellWord(sessions.front().run_folder));
  if (!plan.is_first_task) return lines;
  std::vector<SessionEntry> rows = sessions;
  std::stable_sort(rows.begin(), rows.end(), [](const SessionEntry& a, const SessionEntry& b) {
    return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
  });
  for (const auto& more : {SessionRows(plan, rows, outcome.written.late), LossLines(rows)})
    lines.insert(lines.end(), more.begin(), more.end());
  if (const std::string why = WhyNoSpace(plan); !why.empty()) lines.push_back("  " + why);
  // The other tasks of a job step may only be on their way.
  if (!plan.is_task)
    for (const std::string& line : MissingRanks(sessions)) lines.push_back("  " + line);
  if (outcome.written.end == WaitEnd::kInterrupted)
    lines.push_back("  (did not wait for the rest)");
  if (plan.is_whole) {
    const auto ranges = RangesOfSummaries(sessions);
    lines.push_back(ranges.empty() ? "no step source was given, and no NVTX ranges were seen"
                                   : "no step source was given; ranges seen, as values of --step, "
                                     "the likeliest first:");
    AddRanges(ranges, &lines);
  }
  if (rows.size() > 1) AddRanks(rows, &lines);
  AddNext(rows, &lines);
  return lines;
}

uint32_t MissingKinds(const RunPlan& plan, const std::vector<SessionEntry>& sessions) {
  const uint32_t required = plan.settings.require;
  uint32_t missing = 0;
  size_t cycles = 0;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles) {
      ++cycles;
      const json manifest = ReadJson(CycleFolder(session, cycle.index) + "/manifest.json");
      for (uint32_t i = 1; *proto::ActivityText(i) != '\0'; ++i) {
        const json& kind = Member(Member(manifest, "kinds"), proto::ActivityText(i));
        const json &enabled = Member(kind, "enabled"), &error = Member(kind, "error");
        const bool is_collected = enabled.is_boolean() && enabled.get<bool>() && !error.is_string();
        if (!is_collected) missing |= required & proto::ActivityBit(i);
      }
    }
  return cycles == 0 ? required : missing;
}

}  // namespace stepagent::launch
