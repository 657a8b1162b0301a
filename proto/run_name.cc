#include "proto/run_name.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "proto/process_files.h"

namespace stepagent::proto {
namespace {

// Longer chains of shells and wrappers than this are not followed.
constexpr int kMostAncestors = 32;
constexpr size_t kMostStatBytes = 4096;
constexpr size_t kMostEnvironmentBytes = size_t{1} << 20;
// The line of interrupts, before the one that is sought, grows with cores and devices.
constexpr size_t kMostSystemStatBytes = size_t{1} << 20;
constexpr size_t kMostRunIdBytes = 64;

uint64_t Fnv(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::string UtcStamp(time_t when) {
  tm parts;
  if (gmtime_r(&when, &parts) == nullptr) return "19700101T000000";
  char text[32];
  strftime(text, sizeof text, "%Y%m%dT%H%M%S", &parts);
  return text;
}

// When the machine started, as the kernel says it. Not the difference of two clocks: in whole
// seconds that is one more or one less by the moment one looks, and ranks look at different ones.
int64_t BootSeconds(const std::string& proc) {
  const std::string stat = ReadFile(proc + "/stat", kMostSystemStatBytes);
  constexpr std::string_view kLine = "\nbtime ";
  const size_t at = stat.find(kLine);
  int64_t seconds = 0;
  if (at != std::string::npos) {
    std::from_chars(stat.data() + at + kLine.size(), stat.data() + stat.size(), seconds);
  }
  return seconds;
}

bool HasVariable(const std::string& environment, std::string_view name) {
  const std::string entry = std::string(name) + "=";
  return environment.starts_with(entry) ||
         environment.find(std::string(1, '\0') + entry) != std::string::npos;
}

}  // namespace

RunKey SharedRunKey(char* const* environment) {
  const std::string_view elastic = Variable(environment, "TORCHELASTIC_RUN_ID");
  if (!elastic.empty()) {
    return {"torchrun/" + std::string(elastic) + "/" +
                std::string(Variable(environment, "MASTER_ADDR")) + "/" +
                std::string(Variable(environment, "MASTER_PORT")),
            "RANK"};
  }
  // Before Slurm's: several jobs of mpirun's may share the step or shell they were started in.
  const std::string_view open_mpi = Variable(environment, "OMPI_MCA_ess_base_jobid");
  if (!open_mpi.empty()) return {"ompi/" + std::string(open_mpi), "OMPI_COMM_WORLD_RANK"};
  const std::string_view job = Variable(environment, "SLURM_JOB_ID");
  const std::string_view step = Variable(environment, "SLURM_STEP_ID");
  if (!job.empty() && !step.empty()) {
    return {"slurm/" + std::string(job) + "/" + std::string(step), "SLURM_PROCID"};
  }
  return {};
}

int64_t LauncherStart(const std::string& proc, pid_t parent, std::string_view rank_variable) {
  uint64_t ticks = 0;
  auto pid = static_cast<uint64_t>(parent);
  for (int i = 0; pid > 0 && i < kMostAncestors; ++i) {
    const std::string folder = proc + "/" + std::to_string(pid);
    const std::string stat = ReadFile(folder + "/stat", kMostStatBytes);
    ticks = StatField(stat, kStartTimeField);
    // One of another user (slurmstepd is root's) shows no environment: it is no rank.
    if (!HasVariable(ReadFile(folder + "/environ", kMostEnvironmentBytes), rank_variable)) break;
    pid = StatField(stat, kParentField);
  }
  const long per_second = sysconf(_SC_CLK_TCK);
  const uint64_t since_boot = per_second > 0 ? ticks / static_cast<uint64_t>(per_second) : 0;
  return BootSeconds(proc) + static_cast<int64_t>(since_boot);
}

std::string SharedRunName(char* const* environment) {
  const RunKey key = SharedRunKey(environment);
  if (key.text.empty()) return {};
  return UtcStamp(LauncherStart("/proc", getppid(), key.rank_variable)) + "_" +
         Hex(Fnv(key.text), 8);
}

std::string OwnRunName(uint64_t random) { return UtcStamp(time(nullptr)) + "_" + Hex(random, 8); }

bool IsRunId(std::string_view run) {
  return !run.empty() && run.size() <= kMostRunIdBytes && run[0] != '.' && run[0] != '-' &&
         run != "latest" && std::all_of(run.begin(), run.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

std::string RunName(char* const* environment, uint64_t random, bool* is_given) {
  const std::string_view from_launcher = Variable(environment, "STEPAGENT_RUN");
  *is_given = true;
  if (IsRunId(from_launcher)) return std::string(from_launcher);
  std::string shared = SharedRunName(environment);
  if (!shared.empty()) return shared;
  *is_given = false;
  return OwnRunName(random);
}

}  // namespace stepagent::proto
