// What the agent tells others about itself: Hello, status, where its collector is.
#include <unistd.h>

#include <map>

#include "agent/agent.h"
#include "agent/core/clock.h"
#include "proto/address.h"
#include "proto/build_id.h"
#include "proto/visible_devices.h"

namespace stepagent::agent {
namespace {

using core::HostClock;

std::vector<std::string> ActivityNames(uint32_t bits) {
  std::vector<std::string> names;
  for (uint32_t activity = 1; activity < drain::kActivityKinds; ++activity) {
    if ((bits & proto::ActivityBit(activity)) != 0)
      names.emplace_back(proto::ActivityText(activity));
  }
  return names;
}

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Whether our parent is the launcher: it will tell the collector how this process ended.
bool IsWatchedByLauncher(char* const* environment) {
  const std::string entry =
      std::string(proto::kRunLauncherVariable) + "=" + std::to_string(getppid());
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e)
    if (entry == *e) return true;
  return false;
}

}  // namespace

std::string Agent::EncodeHello() const {
  drain::HelloData hello;
  hello.agent_version = proto::VersionText(STEPAGENT_VERSION);
  hello.identity = {identity_.run, identity_.session, identity_.host, identity_.rank};
  hello.pid = static_cast<uint32_t>(getpid());
  hello.ppid = static_cast<uint32_t>(getppid());
  hello.exe = identity_.exe;
  hello.exe_path = identity_.exe_path;
  hello.title = ReadTitle(identity_);
  hello.argv = identity_.argv;
  hello.rank_source = identity_.rank_source;
  hello.rank_conflicts = identity_.rank_conflicts;
  hello.world_size = identity_.world_size;
  hello.local_rank = identity_.local_rank;
  if (identity_.has_cuda_visible_devices) {
    hello.cuda_visible_devices = identity_.cuda_visible_devices;
  }
  hello.clock_host = HostClock::SourceName();
  hello.base_unix_ns = HostClock::base_unix_ns();
  hello.base_mono_ns = HostClock::base_mono_ns();
  if (capture_.schedule) {
    const proto::ScheduleSetting& s = *capture_.schedule;
    hello.schedule = {s.skip_first, s.wait, s.warmup, s.active, s.repeat, s.skip_first_wait};
  }
  const proto::Settings shown = Redacted(capture_);
  hello.step_source = shown.step.Text();
  hello.step_extent = capture_.step_extent == proto::StepExtent::kPeriod ? "period" : "range";
  hello.settings = proto::SettingsText(shown);
  hello.labels = capture_.labels;
  hello.out = capture_.out;
  if (identity_.run_given) hello.run_dir = identity_.run;
  hello.formats = capture_.formats;
  hello.redact = capture_.redact;
  hello.activities = ActivityNames(capture_.activities);
  hello.require = ActivityNames(capture_.require);
  hello.process_start_ticks = identity_.process_start_ticks;
  hello.max_traces = capture_.max_traces;
  hello.max_bytes = capture_.max_bytes;
  hello.launcher_watches = IsWatchedByLauncher(environment_);
  if (redactor_ != nullptr) redactor_->Apply(&hello);
  return drain::EncodeHello(hello);
}

// Beside the library's folder, wherever the prefix was moved to.
std::string Agent::CollectorProgram() const {
  const std::string lib = Folder(stub_->path);
  for (const char* way : {"/../bin/stepcollector", "/stepcollector", "/../../bin/stepcollector",
                          "/../../../bin/stepcollector"}) {
    const std::string path = lib + way;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return lib + "/../bin/stepcollector";
}

std::string Agent::CollectorAddressText() const {
  const std::string& given = capture_.collector;
  if (given == "auto") {
    // A folder that cannot be used (XDG_RUNTIME_DIR of a host, in a container) is no reason to lose
    // a recording: all ranks of a run see it alike and take the abstract name.
    const bool is_usable = proto::EnsureSocketFolder(control_folder_);
    return proto::CollectorAddress(is_usable ? control_folder_ : "", geteuid(), identity_.run)
        .Text();
  }
  if (given.empty() || given[0] == '/' || given[0] == '@') return given;
  return std::string(stub_->start_dir == nullptr ? "" : stub_->start_dir) + "/" + given;
}

drain::AgentStatusData Agent::Status() {
  const core::StepGate::Snapshot gate = core::Gate().snapshot();
  const drain::io::Uplink::Status link = uplink_->status();
  drain::AgentStatusData status;
  status.pid = static_cast<uint32_t>(getpid());
  status.title = ReadTitle(identity_);
  status.exe = identity_.exe;
  status.rank = identity_.rank;
  status.session = identity_.session;
  status.run = identity_.run;
  status.phase = static_cast<uint32_t>(gate.phase);
  status.step = gate.process_index;
  status.cycle = cycles_begun_;
  status.records = drainer_->records();
  status.last_error = last_error_;
  status.session_dir = link.session_dir;
  for (const uint32_t device : controller_->DevicesInUse()) {
    status.gpus.push_back(static_cast<uint32_t>(
        proto::PhysicalDevice(static_cast<int32_t>(device), identity_.cuda_visible_devices)));
  }
  status.busy_count = busy_count_;
  status.written.assign(written_.begin(), written_.end());
  status.step_source = capture_.step.Text();
  status.top_ranges = TopRangeRows(10);
  status.has_cuda = controller_->HasCuda();
  status.cycles_written = cycles_written_;
  status.awaits_files = controller_->IsRecording() || AwaitsFile();
  status.cycles_lost = cycles_lost_;
  status.signal_off = settings_.signal_number != 0 && stub_->signal_is_ours() == 0;
  return status;
}

}  // namespace stepagent::agent
