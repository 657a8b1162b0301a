#include "collector/launch/run_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "collector/analysis/rank_report.h"
#include "collector/launch/setting_args.h"
#include "nlohmann/json.hpp"

namespace stepagent::launch {
namespace {

using nlohmann::json;
constexpr size_t kRangesShown = 10;

struct RangeCount {
  std::string name, domain;
  uint64_t count = 0, total_ns = 0;
};

std::string StepValue(const RangeCount& range) {
  proto::StepSetting step;
  step.kind = proto::StepSetting::Kind::kNvtx;
  step.name = range.name;
  step.domain = range.domain;
  return step.Text();
}

void AddRanges(std::vector<RangeCount> ranges, std::vector<std::string>* lines) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const RangeCount& a, const RangeCount& b) {
    return std::pair(a.count, a.total_ns) > std::pair(b.count, b.total_ns);
  });
  for (size_t i = 0; i < std::min(ranges.size(), kRangesShown); ++i)
    lines->push_back("  --step " + ShellWord(StepValue(ranges[i])) + "   (" +
                     std::to_string(ranges[i].count) + " times)");
}

std::vector<RangeCount> MergeByName(const std::vector<RangeCount>& ranges) {
  std::map<std::pair<std::string, std::string>, RangeCount> merged;
  for (const RangeCount& range : ranges) {
    if (range.name.empty()) continue;
    RangeCount& sum =
        merged.try_emplace({range.name, range.domain}, RangeCount{range.name, range.domain})
            .first->second;
    sum.count += range.count;
    sum.total_ns += range.total_ns;
  }
  std::vector<RangeCount> list;
  for (auto& [key, sum] : merged) list.push_back(std::move(sum));
  return list;
}

uint64_t CountMember(const json& object, const char* key) {
  const json& member = Member(object, key);
  return member.is_number_unsigned() ? member.get<uint64_t>() : 0;
}

std::vector<RangeCount> RangesOfSummaries(const std::vector<SessionEntry>& sessions) {
  std::vector<RangeCount> ranges;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles) {
      const json summary = ReadJson(CycleFolder(session, cycle.index) + "/summary.json");
      for (const json& row : Member(summary, "ranges"))
        ranges.push_back({TextMember(row, "name"), TextMember(row, "domain"),
                          CountMember(row, "count"), CountMember(row, "total_ns")});
    }
  return MergeByName(ranges);
}

std::string RankText(int64_t rank) { return rank < 0 ? "rank -" : "rank " + std::to_string(rank); }

// "host only: no device", "ended: exit", … of the session's cycles, each once.
std::string Remarks(const RunPlan& plan, const SessionEntry& session) {
  std::vector<std::string> remarks;
  const auto add = [&](const std::string& text) {
    if (!text.empty() && std::find(remarks.begin(), remarks.end(), text) == remarks.end())
      remarks.push_back(text);
  };
  for (const CycleEntry& cycle : session.cycles) {
    const json manifest = ReadJson(CycleFolder(session, cycle.index) + "/manifest.json");
    const json& gpu = Member(manifest, "gpu");
    const std::string status = TextMember(gpu, "status"), why = TextMember(gpu, "reason");
    const std::string reason = why.empty() ? "" : ": " + why;
    if (status == "unavailable") add("host only" + reason);
    if (status == "partial") add("device part incomplete" + reason);
    const bool is_ordinary = cycle.ended == "schedule" || cycle.ended == "signal" ||
                             cycle.ended == "request" || (plan.is_whole && cycle.ended == "exit");
    if (!cycle.ended.empty() && !is_ordinary)
      add("cycle " + std::to_string(cycle.index) + " ended by: " + cycle.ended);
    for (const json& note : Member(manifest, "notes"))
      if (TextMember(note, "code") == "duplicate_rank") add(TextMember(note, "text"));
  }
  std::string text;
  for (const std::string& remark : remarks) text += "; " + remark;
  return text;
}

std::vector<std::string> TraceFiles(const SessionEntry& session) {
  std::vector<std::string> files;
  for (const CycleEntry& cycle : session.cycles)
    for (const std::string& file : cycle.files)
      if (file.find(".pt.trace.json") != std::string::npos) files.push_back(file);
  return files;
}

void AddSession(const RunPlan& plan, const SessionEntry& session, std::vector<std::string>* lines) {
  const std::vector<std::string> files = TraceFiles(session);
  const std::string who = "  " + RankText(session.rank) + "  " + session.exe + " (pid " +
                          std::to_string(session.pid) + ")  ";
  std::string state;
  if (!session.IsSettled())
    state = session.IsAlive() ? "; still running" : "; not finished: stepagent report finishes it";
  lines->push_back(who + std::to_string(session.cycles.size()) +
                   (session.cycles.size() == 1 ? " cycle" : " cycles") + Remarks(plan, session) +
                   state);
  for (const std::string& file : files) lines->push_back("    " + ShellWord(file));
}

// The ranks side by side, in the last cycle that was written.
void AddRanks(const std::vector<SessionEntry>& sessions, std::vector<std::string>* lines) {
  using Document = nlohmann::ordered_json;
  uint64_t last = 0;
  for (const SessionEntry& session : sessions)
    for (const CycleEntry& cycle : session.cycles)
      if (cycle.IsWritten()) last = std::max(last, cycle.index);
  std::vector<Document> summaries;
  for (const SessionEntry& session : sessions) {
    std::ifstream file(CycleFolder(session, last) + "/summary.json", std::ios::binary);
    Document summary = Document::parse(file, nullptr, false);
    if (summary.is_object()) summaries.push_back(std::move(summary));
  }
  std::vector<const Document*> pointers;
  for (const Document& summary : summaries) pointers.push_back(&summary);
  const Document compared = analysis::CompareRanks(pointers);
  if (compared.empty()) return;
  lines->push_back("ranks in cycle " + std::to_string(last) + ":");
  std::istringstream rows(analysis::RankRowsText(compared.front()));
  for (std::string row; std::getline(rows, row);) lines->push_back(row);
}

void AddNext(const std::vector<SessionEntry>& sessions, std::vector<std::string>* lines) {
  std::string first;
  for (const SessionEntry& session : sessions)
    for (const std::string& file : TraceFiles(session))
      if (first.empty()) first = file;
  const std::string run = sessions.front().run_folder;
  lines->push_back("next:");
  lines->push_back("  stepagent report " + ShellWord(run));
  if (first.empty()) return;
  lines->push_back("  HTA, TensorBoard: " +
                   ShellWord(std::filesystem::path(first).parent_path().string()));
  lines->push_back("  https://ui.perfetto.dev: " + ShellWord(first));
}

void AddNothing(const RunOutcome& outcome, std::vector<std::string>* lines) {
  lines->push_back("nothing was recorded");
  lines->push_back("  " + (outcome.program_warning.empty()
                               ? "no process of the run came to a first warmup"
                               : outcome.program_warning));
}

}  // namespace

std::vector<std::string> RunReport(const RunPlan& plan, const RunOutcome& outcome) {
  std::vector<std::string> lines;
  const std::vector<SessionEntry>& sessions = outcome.written.sessions;
  size_t cycles = 0;
  for (const SessionEntry& session : sessions) cycles += session.cycles.size();
  if (cycles == 0) {
    AddNothing(outcome, &lines);
    return lines;
  }
  lines.push_back("traces in " + ShellWord(sessions.front().run_folder));
  if (!plan.is_first_task) return lines;
  std::vector<SessionEntry> rows = sessions;
  std::stable_sort(rows.begin(), rows.end(), [](const SessionEntry& a, const SessionEntry& b) {
    return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
  });
  for (const SessionEntry& session : rows) AddSession(plan, session, &lines);
  if (outcome.written.end == WaitEnd::kInterrupted)
    lines.push_back("  (did not wait for the rest)");
  if (plan.is_whole) {
    const auto ranges = RangesOfSummaries(sessions);
    lines.push_back(ranges.empty() ? "no step source was given, and no NVTX ranges were seen"
                                   : "no step source was given; ranges seen, as values of --step:");
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
