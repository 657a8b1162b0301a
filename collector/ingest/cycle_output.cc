#include "collector/ingest/cycle_output.h"

#include <cerrno>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/analysis/summary.h"
#include "collector/ingest/agent_session.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/writers/manifest.h"
#include "collector/writers/steps_csv.h"
#include "collector/writers/trace_parts.h"
#include "collector/writers/writer.h"

namespace stepagent::ingest {
namespace {

std::string CycleDir(const CyclePlace& place, uint32_t cycle) {
  return place.session_dir + "/" + spool::CycleName(cycle);
}
std::string TracesDir(const CyclePlace& place, uint32_t cycle) {
  return place.run_dir + "/traces/" + spool::CycleName(cycle);
}

// `--activities none`: steps are timed, nothing is recorded.
bool HasStepsOnly(const model::Cycle& cycle) { return cycle.session.activities.empty(); }

std::string MakeCycleFolders(const CyclePlace& place, const model::Cycle& cycle) {
  std::vector<std::string> folders{CycleDir(place, cycle.index)};
  if (!HasStepsOnly(cycle)) {
    folders.push_back(place.run_dir + "/traces");
    folders.push_back(TracesDir(place, cycle.index));
  }
  for (const std::string& folder : folders) {
    if (std::string error = spool::MakeFolder(folder); !error.empty()) return error;
  }
  return {};
}

void Append(std::string* errors, const std::string& error) {
  if (error.empty()) return;
  if (!errors->empty()) *errors += "; ";
  *errors += error;
}

void Take(const writers::WriteResult& result, CycleOutput* out) {
  for (const writers::WrittenFile& file : result.files) {
    out->files.push_back(file.path);
    out->bytes += file.bytes;
  }
  if (!result.ok) Append(&out->error, result.error);
}

// Regular files of `folder` whose names begin with `prefix`, temporary ones (leading '.') included.
void RemoveFiles(const std::string& folder, const std::string& prefix) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    const size_t at = !name.empty() && name[0] == '.' ? 1 : 0;
    if (name == "." || name == ".." || name.compare(at, prefix.size(), prefix) != 0) continue;
    const std::string path = folder + "/" + name;
    struct stat st {};
    if (lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)) unlink(path.c_str());
  }
  closedir(dir);
}

std::string Stem(const model::Cycle& cycle, const CyclePlace& place) {
  return spool::TraceStem(cycle.session, place.with_pid, cycle.index);
}

template <typename Keep>
void WriteFormats(const model::Cycle& cycle, const writers::WriteTarget& target, Keep keep,
                  CycleOutput* out) {
  for (const std::string& format : cycle.session.formats) {
    const std::unique_ptr<writers::Writer> writer = writers::MakeWriter(format);
    if (writer == nullptr) {
      Append(&out->error, "format '" + format + "' is not known to this collector");
    } else {
      const int64_t begin_ns = SteadyNowNs();
      keep(writer->Write(cycle, target));
      out->format_ns.emplace_back(format, SteadyNowNs() - begin_ns);
    }
  }
}

// Which of several rank variables was taken, and why.
void AddConflictNote(const std::vector<std::string>& conflicts, model::Cycle* cycle) {
  std::string left_out;
  for (const std::string& entry : conflicts) left_out += (left_out.empty() ? "" : ", ") + entry;
  const std::string rank = std::to_string(cycle->session.rank);
  const std::string text =
      cycle->session.rank_source == "assigned"
          ? "rank " + rank + " was assigned: no variable of a launcher holds a rank (" + left_out +
                ")"
          : "rank " + rank + " is from " + cycle->session.rank_source +
                ", the first of RANK, OMPI_COMM_WORLD_RANK, PMI_RANK and SLURM_PROCID that holds a "
                "rank; not taken: " +
                left_out;
  cycle->notes.push_back({"rank_conflict", text});
}

}  // namespace

bool IsWritten(const CyclePlace& place, uint32_t cycle) {
  const std::string path = CycleDir(place, cycle) + "/" + std::string(spool::kManifestName);
  return access(path.c_str(), F_OK) == 0;
}

void RemoveLeftovers(const model::Cycle& cycle, const CyclePlace& place) {
  if (IsWritten(place, cycle.index)) return;
  const std::string traces = TracesDir(place, cycle.index);
  RemoveFiles(traces, Stem(cycle, place) + ".");
  for (size_t part = 1; spool::IsRealFolder(writers::PartFolder(traces, part)); ++part) {
    RemoveFiles(writers::PartFolder(traces, part), Stem(cycle, place) + ".");
  }
  RemoveFiles(CycleDir(place, cycle.index), "");
}

void AddWriteNotes(const WriteFacts& facts, model::Cycle* cycle) {
  if (facts.has_duplicate_rank) {
    const std::string rank = std::to_string(cycle->session.rank);
    const std::string other = facts.rank_holder.empty()
                                  ? "another session of this run has rank " + rank
                                  : "rank " + rank + " had been given to " + facts.rank_holder +
                                        ", which came before and has no rank of its own";
    cycle->notes.push_back({"duplicate_rank", other + "; this one's files carry its pid"});
  }
  if (!facts.rank_conflicts.empty()) AddConflictNote(facts.rank_conflicts, cycle);
  const model::SessionInfo& session = cycle->session;
  if (session.world_size >= 0 && session.rank >= session.world_size)
    cycle->notes.push_back(
        {"rank_beyond_world",
         "rank " + std::to_string(session.rank) + " (" + session.rank_source +
             ") is not below the number of ranks, " + std::to_string(session.world_size) +
             ": what its launcher or script told it disagrees; it is taken as it is"});
  if (facts.raw_cut_bytes > 0) {
    cycle->notes.push_back({"raw_cut", std::to_string(facts.raw_cut_bytes) +
                                           " bytes after the last whole frame were cut off"});
  }
  if (HasStepsOnly(*cycle)) return;
  for (model::Note& note : writers::SizeNotes(*cycle)) cycle->notes.push_back(std::move(note));
}

CycleOutput WriteCycle(const model::Cycle& cycle, const CyclePlace& place) {
  return WriteCycleShowing(cycle, place, {});
}

CycleOutput WriteCycleShowing(const model::Cycle& cycle, const CyclePlace& place,
                              const WriteProgress& progress) {
  CycleOutput out;
  out.error = MakeCycleFolders(place, cycle);
  if (!out.error.empty()) return out;
  const writers::WriteTarget target{.traces_dir = TracesDir(place, cycle.index),
                                    .cycle_dir = CycleDir(place, cycle.index),
                                    .trace_stem = Stem(cycle, place),
                                    .progress = progress};
  std::vector<writers::WrittenFile> written;
  const auto keep = [&](const writers::WriteResult& result) {
    Take(result, &out);
    written.insert(written.end(), result.files.begin(), result.files.end());
  };
  if (HasStepsOnly(cycle)) {
    keep(writers::WriteStepsCsv(cycle, target.cycle_dir));
  } else {
    WriteFormats(cycle, target, keep, &out);
  }
  keep(analysis::WriteSummary(cycle, target.cycle_dir));
  // The manifest says that all is there. Without it the next `report` writes the cycle anew.
  if (!out.error.empty()) return out;
  Take(writers::WriteManifest(cycle, written, target.cycle_dir, place.run_dir), &out);
  return out;
}

}  // namespace stepagent::ingest
