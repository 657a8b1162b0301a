#include "collector/cli/report_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "collector/analysis/cost_amend.h"
#include "collector/analysis/kineto_reader.h"
#include "collector/analysis/per_step.h"
#include "collector/analysis/summary.h"
#include "collector/cli/cut_short.h"
#include "collector/cli/input_file.h"
#include "collector/ingest/recovery_state.h"
#include "collector/launch/missing_ranks.h"
#include "collector/launch/progress_bar.h"
#include "collector/launch/session_files.h"
#include "collector/model/process_end.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/spool/recover.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsTraceName(const std::string& name) {
  return !name.starts_with(".") && (name.ends_with(".json") || name.ends_with(".json.gz"));
}

// nullopt-like: a discarded value where the file is not a whole JSON document.
Json ReadJson(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return Json::parse(file, nullptr, false);
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::vector<std::string> TracesOf(const Json& manifest, const std::string& run_dir) {
  std::vector<std::string> out;
  if (!manifest.is_object() || !manifest.contains("files")) return out;
  for (const Json& file : manifest.at("files")) {
    if (file.value("format", "") != "summary") {
      out.push_back(run_dir + "/" + file.value("name", ""));
    }
  }
  return out;
}

}  // namespace

void ReportSource::Unreadable(std::string line) {
  ++unreadable_;
  problems_.push_back(std::move(line));
}

void ReportSource::Take(std::string origin, Json summary, std::vector<std::string> files) {
  const Json& cycle = summary.at("cycle");
  const auto text = [&cycle](const char* key) {
    const Json& member = cycle.at(key);
    return member.is_string() ? member.get<std::string>() : std::string();
  };
  std::string line =
      CutShortLine(origin, cycle.at("complete") != false, text("ended"), text("reason"));
  if (!line.empty()) problems_.push_back(std::move(line));
  for (const auto& [kind, loss] : summary.at("losses").items()) {
    problems_.push_back(origin + ": " + kind + ": " + loss.at("dropped").dump() + " dropped, " +
                        loss.at("invalid").dump() + " invalid");
  }
  cycles_.push_back({std::move(origin), std::move(summary), std::move(files)});
}

void ReportSource::Add(const std::string& given) {
  const std::string path = WithoutSlash(given);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Unreadable(path + ": " + (error ? error.message() : std::strerror(ENOENT)));
  }
  fs::is_directory(status) ? AddFolder(path) : AddFile(path);
}

void ReportSource::AddFolder(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (Exists(path + "/" + std::string(spool::kRawName)) ||
      Exists(path + "/" + std::string(spool::kSessionJsonName))) {
    return AddSession(path);
  }
  if (Exists(path + "/" + std::string(spool::kManifestName)) || Exists(path + "/summary.json")) {
    return AddCycle(path, fs::path(path).parent_path().parent_path().parent_path().string());
  }
  if (Exists(path + "/sessions")) return AddRun(path);
  const fs::path run = fs::absolute(path).parent_path();
  if (name == "traces" && Exists(run.string() + "/sessions")) return AddRun(run.string());
  std::vector<std::string> traces = FilesIn(path);
  std::erase_if(traces, [](const std::string& file) { return !IsTraceName(file); });
  if (!traces.empty()) return AddTraces(path, traces);
  AddOut(path);
}

// OUT: the newest run, and where the others are.
void ReportSource::AddOut(const std::string& path) {
  std::vector<std::string> runs;
  for (const std::string& name : spool::RealFoldersIn(path)) {
    if (Exists(path + "/" + name + "/sessions")) runs.push_back(name);
  }
  if (runs.empty()) return Unreadable(path + ": holds no run, session, cycle or trace");
  std::error_code error;
  std::string newest = fs::read_symlink(path + "/latest", error).filename().string();
  if (error || std::find(runs.begin(), runs.end(), newest) == runs.end()) newest = runs.back();
  AddRun(path + "/" + newest);
  if (runs.size() == 1) return;
  remarks_.push_back(path + ": " + std::to_string(runs.size() - 1) +
                     " other runs; this is the newest, " + newest);
}

void ReportSource::Recover(const std::string& path) {
  using Bar = launch::ProgressBar;
  Bar bar(STDERR_FILENO, "writing what was interrupted", Bar::Clock::now());
  const spool::RecoverReport report = spool::RecoverAll(
      path, spool::Living::kLeaveAlone,
      [&bar](uint64_t done, uint64_t total) { bar.Show(done, total, Bar::Clock::now()); });
  problems_.insert(problems_.end(), report.problems.begin(), report.problems.end());
  const uint32_t interrupted = report.cycles_written - report.deferred_written;
  if (report.deferred_written > 0) {
    remarks_.push_back(path + ": " + std::to_string(report.deferred_written) +
                       " cycles that needed more than the collector's memory limit written now");
  }
  if (interrupted > 0) {
    remarks_.push_back(path + ": interrupted; " + std::to_string(interrupted) +
                       " cycles written now");
  }
  if (report.live > 0) {
    remarks_.push_back(path + ": " + std::to_string(report.live) + " sessions are still open");
  }
}

// What was found damaged, or could not be written, when the session was finished: true of it ever
// after, whoever finished it.
void ReportSource::RepeatProblems(const std::string& session_dir) {
  for (const std::string& line : ingest::ReadOldState(session_dir).problems) {
    if (std::find(problems_.begin(), problems_.end(), line) == problems_.end())
      problems_.push_back(line);
  }
}

// What the collector left to be written once the process has ended, which it has not.
void ReportSource::RemarkDeferred(const std::string& session_dir) {
  const auto session = launch::ReadSession(session_dir);
  if (!session) return;
  for (const launch::CycleEntry& cycle : session->cycles) {
    if (cycle.IsDeferred())
      remarks_.push_back(session_dir + ": cycle " + std::to_string(cycle.index) + " " +
                         cycle.error);
  }
}

void ReportSource::AddRun(const std::string& path) {
  Recover(path);
  const std::string sessions = path + "/sessions";
  for (const std::string& name : spool::RealFoldersIn(sessions)) {
    RepeatProblems(sessions + "/" + name);
    RemarkDeferred(sessions + "/" + name);
    for (const std::string& cycle : spool::RealFoldersIn(sessions + "/" + name)) {
      if (cycle.starts_with("cycle-")) AddCycle(sessions + "/" + name + "/" + cycle, path);
    }
  }
  RemarkRanks(path);
}

// Missing ones not while the run goes on: they may only be on their way.
void ReportSource::RemarkRanks(const std::string& run) {
  std::vector<launch::SessionEntry> entries;
  bool goes_on = false;
  for (const std::string& folder : launch::FindSessionFolders(run)) {
    auto session = launch::ReadSession(folder);
    goes_on |= !session || session->state != "closed";
    if (session) entries.push_back(*std::move(session));
  }
  for (const std::string& line : launch::RanksBeyondWorld(entries))
    remarks_.push_back(run + ": " + line);
  if (goes_on) return;
  for (const std::string& line : launch::MissingRanks(entries))
    remarks_.push_back(run + ": " + line);
}

void ReportSource::AddSession(const std::string& path) {
  Recover(path);
  RepeatProblems(path);
  RemarkDeferred(path);
  const std::string run_dir = fs::path(path).parent_path().parent_path().string();
  size_t found = 0;
  for (const std::string& name : spool::RealFoldersIn(path)) {
    if (!name.starts_with("cycle-")) continue;
    AddCycle(path + "/" + name, run_dir);
    ++found;
  }
  // A session whose process lives and whose collector does not: read, without writing anything.
  const std::string raw = path + "/" + std::string(spool::kRawName);
  if (found == 0 && Exists(raw)) AddRaw(raw);
}

void ReportSource::AddCycle(const std::string& path, const std::string& run_dir) {
  const std::string file = path + "/summary.json";
  if (!Exists(file)) {
    remarks_.push_back(path + ": not written yet");
    return;
  }
  Json summary = ReadJson(file);
  if (!summary.is_object() || summary.value("schema", "") != "stepagent.summary/1") {
    return Unreadable(file + ": not a stepagent.summary/1");
  }
  const Json manifest = ReadJson(path + "/" + std::string(spool::kManifestName));
  Take(path, std::move(summary), TracesOf(manifest, run_dir));
}

void ReportSource::AddTraces(const std::string& path, const std::vector<std::string>& names) {
  for (const std::string& name : names) AddKineto(path + "/" + name);
}

void ReportSource::AddFile(const std::string& path) {
  const fs::path as_path(path);
  const std::string name = as_path.filename().string();
  if (name == "summary.json" || name == spool::kManifestName || name == spool::kSessionJsonName) {
    return AddFolder(as_path.has_parent_path() ? as_path.parent_path().string() : ".");
  }
  std::string why;
  const InputKind kind = KindOfFile(path, &why);
  if (kind == InputKind::kNone) return Unreadable(std::move(why));
  kind == InputKind::kJson ? AddKineto(path) : AddRaw(path);
}

void ReportSource::AddRaw(const std::string& path) {
  spool::RawReport report;
  size_t found = 0;
  const bool goes_on = GoesOn(path);
  analysis::RecordedSteps recorded;  // of the last cycle
  uint32_t last = 0;
  const std::string error = spool::ReadCycles(
      path,
      [&](model::Cycle cycle) {
        if (goes_on) NoteGoesOn(&cycle);
        Take(path + " cycle " + std::to_string(cycle.index), analysis::Summarize(cycle), {});
        recorded = analysis::RecordedStepsOf(cycle);
        last = cycle.index;
        ++found;
      },
      &report,
      [&](const model::LaterSteps& later) {
        if (found == 0 || later.cycle != last) return;
        AddLaterSteps(recorded, later, goes_on && !report.said_goodbye);
      });
  if (!error.empty()) return Unreadable(error);
  for (std::string& line : spool::ProblemsOf(report, path)) {
    problems_.push_back(std::move(line));
  }
  if (found == 0) problems_.push_back(path + ": no step was recorded");
}

// To the cycle taken last.
void ReportSource::AddLaterSteps(const analysis::RecordedSteps& recorded,
                                 const model::LaterSteps& later, bool goes_on) {
  Json& summary = cycles_.back().summary;
  const Json& source = summary.at("session").at("step_source");
  analysis::AmendSummary(
      recorded,
      {.steps = &later.all_steps,
       .until = later.until,
       .why_not_compared =
           source.is_string() ? analysis::WhyStepsDoNotCompare(source.get<std::string>()) : "",
       .why_none_before = {},
       .why_none_after = goes_on ? std::string(model::kGoesOnText) : later.why_none},
      &summary);
}

void ReportSource::AddKineto(const std::string& path) {
  const analysis::KinetoReadResult read = analysis::ReadKinetoFile(path);
  if (!read.ok) return Unreadable(read.error);
  problems_.insert(problems_.end(), read.problems.begin(), read.problems.end());
  Take(path, analysis::Summarize(read.cycle), {path});
}

}  // namespace stepagent::cli
