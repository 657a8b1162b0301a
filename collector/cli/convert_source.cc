#include "collector/cli/convert_source.h"

#include <filesystem>
#include <optional>

#include "collector/analysis/kineto_reader.h"
#include "collector/cli/cut_short.h"
#include "collector/cli/input_file.h"
#include "collector/ingest/cycle_output.h"
#include "collector/ingest/recovery_state.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/spool/recover.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;
using OnCycle = std::function<void(SourceCycle)>;

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// `only`: the name of the one cycle folder that is wanted; empty takes all.
void ReadRaw(const std::string& path, const std::string& only, const std::string& session,
             const OnCycle& on_cycle, ConvertReport* out) {
  const ingest::OldState old = ingest::ReadOldState(fs::path(path).parent_path().string());
  const ingest::WriteFacts facts{.has_duplicate_rank = old.has_duplicate_rank,
                                 .rank_holder = old.rank_holder,
                                 .rank_conflicts = old.rank_conflicts};
  spool::RawReport report;
  size_t found = 0;
  const bool goes_on = GoesOn(path);
  std::string error = spool::ReadCycles(
      path,
      [&](model::Cycle cycle) {
        if (!only.empty() && spool::CycleName(cycle.index) != only) return;
        ++found;
        if (goes_on) NoteGoesOn(&cycle);
        std::string line = CutShortLine(path + " cycle " + std::to_string(cycle.index),
                                        cycle.complete, cycle.ended, cycle.reason);
        if (!line.empty()) out->problems.push_back(std::move(line));
        if (cycle.session.formats.empty()) cycle.session.formats = {"chrome"};
        ingest::AddWriteNotes(facts, &cycle);
        on_cycle({std::move(cycle), session, facts.has_duplicate_rank});
      },
      &report);
  if (!error.empty()) {
    out->error = std::move(error);
    return;
  }
  for (std::string& line : spool::ProblemsOf(report, path)) {
    out->problems.push_back(std::move(line));
  }
  if (found == 0) {
    out->problems.push_back(path + (only.empty() ? ": no step was recorded" : ": has no " + only));
  }
}

void ReadKineto(const std::string& path, const OnCycle& on_cycle, ConvertReport* out) {
  analysis::KinetoReadResult read = analysis::ReadKinetoFile(path);
  if (!read.ok) {
    out->error = read.error;
    return;
  }
  out->problems = read.problems;
  on_cycle({std::move(read.cycle), "", false});
}

void ReadRun(const fs::path& run, const OnCycle& on_cycle, ConvertReport* out) {
  size_t found = 0;
  for (const std::string& name : spool::RealFoldersIn((run / "sessions").string())) {
    const fs::path raw = run / "sessions" / name / spool::kRawName;
    if (!Exists(raw)) continue;
    ++found;
    ConvertReport session;
    ReadRaw(raw.string(), "", name, on_cycle, &session);
    // One unreadable session is a problem of the run, not its end.
    if (!session.error.empty()) session.problems.push_back(std::move(session.error));
    out->problems.insert(out->problems.end(), session.problems.begin(), session.problems.end());
  }
  if (found == 0) out->error = run.string() + ": holds no session";
}

void ReadFolder(fs::path path, const OnCycle& on_cycle, ConvertReport* out) {
  if (!path.has_filename()) path = path.parent_path();  // a slash at the end
  const fs::path own = path / spool::kRawName, parent = path.parent_path() / spool::kRawName;
  const std::string name = path.filename().string();
  if (Exists(own)) return ReadRaw(own.string(), "", "", on_cycle, out);
  if (name.starts_with("cycle-") && Exists(parent)) {
    return ReadRaw(parent.string(), name, "", on_cycle, out);
  }
  if (Exists(path / "sessions")) return ReadRun(path, on_cycle, out);
  out->error = path.string() + ": is no run, session or cycle; name OUT/<run> or what is in it";
}

}  // namespace

ConvertReport ReadForConvert(const std::string& path, const OnCycle& on_cycle) {
  ConvertReport out;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    out.error = path + ": " + (error ? error.message() : "No such file or directory");
  } else if (fs::is_directory(status)) {
    ReadFolder(path, on_cycle, &out);
  } else {
    const InputKind kind = KindOfFile(path, &out.error);
    if (kind == InputKind::kJson) ReadKineto(path, on_cycle, &out);
    if (kind == InputKind::kRaw) ReadRaw(path, "", "", on_cycle, &out);
  }
  return out;
}

}  // namespace stepagent::cli
