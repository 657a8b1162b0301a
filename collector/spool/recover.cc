#include "collector/spool/recover.h"

#include <algorithm>
#include <climits>

#include <sys/stat.h>
#include <unistd.h>

#include "collector/ingest/pipeline.h"
#include "collector/ingest/process_watch.h"
#include "collector/ingest/recovery_state.h"
#include "collector/spool/first_hello.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "proto/redaction.h"

namespace stepagent::spool {
namespace {

using ingest::CycleOutput;
using ingest::SessionPipeline;

std::string RawPath(const std::string& session_dir) {
  return session_dir + "/" + std::string(kRawName);
}

bool HasRaw(const std::string& session_dir) {
  struct stat st {};
  return lstat(RawPath(session_dir).c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

// A closed session all of whose cycles are written needs no second look at its raw file.
bool IsFinished(const ingest::OldState& old, bool leaves_deferred) {
  return old.is_closed &&
         std::all_of(old.cycles.begin(), old.cycles.end(), [&](const CycleEntry& c) {
           return c.state == "written" || (leaves_deferred && c.state == "deferred");
         });
}

}  // namespace

std::optional<bool> ProcessLives(const std::string& session_dir) {
  FirstHello first;
  // Only the Hello itself tells a reused pid.
  if (!FindHello(RawPath(session_dir), &first).empty() || first.payload.empty()) {
    return std::nullopt;
  }
  const v1::Hello& hello = first.hello;
  char host[HOST_NAME_MAX + 1] = {};
  const std::string& wrote = hello.identity().host();
  if (gethostname(host, sizeof host - 1) != 0) return false;
  if (wrote != host && !proto::IsRedactedHost(wrote)) return false;
  const ingest::PeerProcess process{
      .pid = static_cast<pid_t>(hello.pid()), .uid = 0, .start_ticks = hello.process_start_ticks()};
  return ingest::LifeOf(process) == ingest::Life::kAlive;
}

void RecoverSession(const std::string& session_dir, Living living, RecoverReport* report,
                    const RecoverProgress& progress, const v1::TargetEnded* ended,
                    std::shared_ptr<ingest::MemoryBudget> memory) {
  ++report->sessions;
  if (IsLive(RawPath(session_dir))) {
    ++report->live;
    return;
  }
  const ingest::OldState old = ingest::ReadOldState(session_dir);
  if (IsFinished(old, memory != nullptr)) return;
  if (living == Living::kLeaveAlone && ProcessLives(session_dir).value_or(false)) {
    ++report->live;
    return;
  }
  ingest::PipelineHooks hooks;
  hooks.memory = std::move(memory);
  hooks.on_problem = [report](const std::string& line) { report->problems.push_back(line); };
  hooks.write_cycle = [&progress](const model::Cycle& cycle, const ingest::CyclePlace& place) {
    return ingest::WriteCycleShowing(cycle, place, progress);
  };
  hooks.on_cycle = [report, &old](const model::Cycle& cycle, const CycleOutput& output) {
    const bool was_deferred =
        std::any_of(old.cycles.begin(), old.cycles.end(), [&](const CycleEntry& entry) {
          return entry.index == cycle.index && entry.state == "deferred";
        });
    report->cycles_written += output.error.empty() ? 1 : 0;
    report->deferred_written += output.error.empty() && was_deferred ? 1 : 0;
    report->files.insert(report->files.end(), output.files.begin(), output.files.end());
  };
  bool is_live = false;
  std::shared_ptr<SessionPipeline> pipeline;
  const std::string error =
      SessionPipeline::Recover(session_dir, std::move(hooks), &is_live, &pipeline);
  if (is_live) {
    ++report->live;
  } else if (!error.empty()) {
    report->problems.push_back(error);
  } else {
    report->cut_bytes += pipeline->raw_cut_bytes();
    if (ended != nullptr && ended->pid() == pipeline->pid()) pipeline->OnTargetEnded(*ended);
    pipeline->Finish();
  }
}

std::string CurrentSessionDir(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || IsRealFolder(path)) return path;
  const std::string folder = path.substr(0, slash), name = path.substr(slash + 1);
  // The last two words of the name: <pid>_<8 hex>.
  const size_t hex = name.rfind('_');
  if (hex == std::string::npos || hex == 0) return path;
  const size_t pid = name.rfind('_', hex - 1);
  if (pid == std::string::npos) return path;
  const std::string tail = name.substr(pid);
  for (const std::string& other : RealFoldersIn(folder)) {
    const bool is_same = other.size() > tail.size() &&
                         other.compare(other.size() - tail.size(), tail.size(), tail) == 0;
    if (is_same) return folder + "/" + other;
  }
  return path;
}

RecoverReport RecoverAll(const std::string& path, Living living, const RecoverProgress& progress,
                         const std::shared_ptr<ingest::MemoryBudget>& memory) {
  RecoverReport report;
  const std::string root =
      path.size() > 1 && path.back() == '/' ? path.substr(0, path.size() - 1) : path;
  if (HasRaw(root)) {
    RecoverSession(root, living, &report, progress, nullptr, memory);
    return report;
  }
  std::vector<std::string> runs{root};
  for (const std::string& name : RealFoldersIn(root)) runs.push_back(root + "/" + name);
  for (const std::string& run : runs) {
    for (const std::string& name : RealFoldersIn(run + "/sessions")) {
      const std::string session_dir = run + "/sessions/" + name;
      if (HasRaw(session_dir))
        RecoverSession(session_dir, living, &report, progress, nullptr, memory);
    }
  }
  return report;
}

}  // namespace stepagent::spool
