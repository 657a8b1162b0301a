#include "collector/launch/run_rows.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "nlohmann/json.hpp"
#include "proto/shell_word.h"

namespace stepagent::launch {
namespace {

using nlohmann::json;
// More paths than these push the rest off the screen; they differ in rank and cycle alone.
constexpr size_t kFilesListed = 4;
constexpr size_t kLossesListed = 8;

std::string RankText(int64_t rank) { return rank < 0 ? "rank -" : "rank " + std::to_string(rank); }

// What there is to say of the session's cycles, each once.
std::string Remarks(const RunPlan& plan, const SessionEntry& session,
                    const std::vector<LateSession>& late) {
  std::vector<std::string> remarks;
  for (const LateSession& one : late)
    if (one.folder == session.folder) remarks.push_back(one.Text());
  for (const CycleEntry& cycle : session.cycles)
    for (std::string& text : CycleRemarks(session, cycle, plan.is_whole))
      if (std::find(remarks.begin(), remarks.end(), text) == remarks.end())
        remarks.push_back(std::move(text));
  std::string text;
  for (const std::string& remark : remarks) text += "; " + remark;
  return text;
}

// What there is to open: the traces, or where none was asked for (--activities none) the steps.
std::vector<std::string> ShownFiles(const SessionEntry& session) {
  std::vector<std::string> files;
  for (const CycleEntry& cycle : session.cycles)
    for (std::string& file : TraceFiles(cycle)) files.push_back(std::move(file));
  if (!files.empty()) return files;
  for (const CycleEntry& cycle : session.cycles)
    for (const std::string& file : cycle.files)
      if (file.ends_with("/steps.csv")) files.push_back(file);
  return files;
}

// Written, though session.json could not be told: every format is in the manifest, which comes
// last.
bool IsWholeOnDisk(const SessionEntry& session, const std::filesystem::path& cycle) {
  std::error_code error;
  const json manifest = ReadJson((cycle / "manifest.json").string());
  if (manifest.empty() || !std::filesystem::exists(cycle / "summary.json", error)) return false;
  std::set<std::string> formats;
  for (const json& file : Member(manifest, "files")) formats.insert(TextMember(file, "format"));
  std::istringstream wanted(session.formats);
  for (std::string format; std::getline(wanted, format, ',');)
    if (!formats.contains(format)) return false;
  return true;
}

// By what is on disk: where it was full, session.json may know less than there is.
std::string CyclesText(const SessionEntry& session) {
  std::set<uint64_t> begun, whole;
  for (const CycleEntry& cycle : session.cycles) {
    begun.insert(cycle.index);
    if (cycle.state == "written" || cycle.IsDeferred()) whole.insert(cycle.index);
  }
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(session.folder, error)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with("cycle-")) continue;
    const uint64_t index = std::strtoull(name.c_str() + 6, nullptr, 10);
    begun.insert(index);
    const bool is_failed =
        std::any_of(session.cycles.begin(), session.cycles.end(),
                    [&](const auto& c) { return c.index == index && c.state == "failed"; });
    if (!is_failed && IsWholeOnDisk(session, item.path())) whole.insert(index);
  }
  const std::string count = std::to_string(begun.size());
  if (whole.size() == begun.size()) return count + (begun.size() == 1 ? " cycle" : " cycles");
  return std::to_string(whole.size()) + " of " + count +
         (begun.size() == 1 ? " cycle written" : " cycles written");
}

std::string SessionRow(const RunPlan& plan, const SessionEntry& session,
                       const std::vector<LateSession>& late) {
  std::string state;
  if (!session.IsSettled())
    state = session.IsAlive() ? "; still running" : "; not finished: stepagent report finishes it";
  return "  " + RankText(session.rank) + "  " + session.exe + " (pid " +
         std::to_string(session.pid) + ")  " + CyclesText(session) + Remarks(plan, session, late) +
         state;
}

// Of many files: how many there are, and the folders that hold them.
std::string FoldersLine(const SessionEntry& session, const std::vector<std::string>& files) {
  std::set<std::string> folders;
  for (const std::string& file : files)
    folders.insert(std::filesystem::path(file).parent_path().string());
  const bool is_of_traces = folders.begin()->starts_with(session.run_folder + "/traces/");
  const std::string what = std::to_string(files.size()) + " files in ";
  if (!is_of_traces) return "    " + what + proto::ShellWord(session.run_folder + "/sessions");
  std::string line = "    " + what + proto::ShellWord(*folders.begin());
  if (folders.size() == 1) return line;
  return line + (folders.size() == 2 ? " and " : " to ") +
         std::filesystem::path(*folders.rbegin()).filename().string();
}

// What the collector notes of records that it never had (model/verdict_notes.cc), and what gives
// them more room where the note itself does not say so.
struct LossNote {
  const char *code, *advice;
};
constexpr LossNote kLossNotes[] = {
    {"ring_full", ""},
    {"no_buffer", ""},
    {"uplink_full", ""},
    {"record_limit", ""},
    {"cupti_dropped", "; --activities records less"},
    {"lost_batches", "; --activities records less, so that fewer are under way"}};

// "" where nothing was lost.
std::string LossOf(const json& manifest) {
  std::string text;
  for (const json& note : Member(manifest, "notes"))
    for (const LossNote& loss : kLossNotes)
      if (TextMember(note, "code") == loss.code)
        text += (text.empty() ? "" : "; ") + TextMember(note, "text") + loss.advice;
  if (!text.empty()) return text;
  uint64_t dropped = 0;
  for (const json& kind : Member(manifest, "balance")) {
    const json& count = Member(kind, "dropped");
    dropped += count.is_number_unsigned() ? count.get<uint64_t>() : 0;
  }
  return dropped == 0 ? "" : std::to_string(dropped) + " records; --activities records less";
}

}  // namespace

std::vector<std::string> CycleRemarks(const SessionEntry& session, const CycleEntry& cycle,
                                      bool is_whole) {
  std::vector<std::string> remarks;
  const json manifest = ReadJson(CycleFolder(session, cycle.index) + "/manifest.json");
  const json& gpu = Member(manifest, "gpu");
  const std::string status = TextMember(gpu, "status"), why = TextMember(gpu, "reason");
  const std::string reason = why.empty() ? "" : ": " + why;
  if (status == "unavailable") remarks.push_back("host only" + reason);
  if (status == "partial") remarks.push_back("device part incomplete" + reason);
  const bool is_ordinary = cycle.ended == "schedule" || cycle.ended == "signal" ||
                           cycle.ended == "request" || (is_whole && cycle.ended == "exit");
  // Not written, and why: what to type is in it.
  if (!cycle.error.empty())
    remarks.push_back("cycle " + std::to_string(cycle.index) + " " +
                      (cycle.IsDeferred() ? "" : "was not written: ") + cycle.error);
  const std::string cause = TextMember(Member(manifest, "cycle"), "reason");
  if (!cycle.ended.empty() && !is_ordinary)
    remarks.push_back("cycle " + std::to_string(cycle.index) + " ended by: " + cycle.ended +
                      (cause.empty() ? "" : " (" + cause + ")"));
  for (const json& note : Member(manifest, "notes"))
    if (TextMember(note, "code") == "duplicate_rank") remarks.push_back(TextMember(note, "text"));
  return remarks;
}

std::vector<std::string> TraceFiles(const CycleEntry& cycle) {
  std::vector<std::string> files;
  for (const std::string& file : cycle.files)
    if (file.find(".pt.trace.json") != std::string::npos) files.push_back(file);
  return files;
}

std::vector<std::string> SessionRows(const RunPlan& plan, const std::vector<SessionEntry>& rows,
                                     const std::vector<LateSession>& late) {
  std::vector<std::string> all;
  for (const SessionEntry& session : rows)
    for (std::string& file : ShownFiles(session)) all.push_back(std::move(file));
  const bool is_few = all.size() <= kFilesListed;
  std::vector<std::string> lines;
  for (const SessionEntry& session : rows) {
    lines.push_back(SessionRow(plan, session, late));
    if (!is_few) continue;
    for (const std::string& file : ShownFiles(session))
      lines.push_back("    " + proto::ShellWord(file));
  }
  if (!is_few) lines.push_back(FoldersLine(rows.front(), all));
  return lines;
}

std::vector<std::string> LossLines(const std::vector<SessionEntry>& rows) {
  std::vector<std::string> lines;
  size_t left = 0;
  for (const SessionEntry& session : rows)
    for (const CycleEntry& cycle : session.cycles) {
      const std::string text =
          LossOf(ReadJson(CycleFolder(session, cycle.index) + "/manifest.json"));
      if (text.empty()) continue;
      if (lines.size() == kLossesListed) {
        ++left;
        continue;
      }
      lines.push_back("  " + RankText(session.rank) + ", cycle " + std::to_string(cycle.index) +
                      " lost records: " + text);
    }
  if (left > 0)
    lines.push_back("  … and " + std::to_string(left) +
                    (left == 1 ? " more cycle" : " more cycles") +
                    " lost records: stepagent report names each");
  return lines;
}

}  // namespace stepagent::launch
