// Agent::Start: a list of named steps; the first that fails makes the agent inert.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/agent.h"
#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/guard/last_thread.h"
#include "agent/guard/log.h"
#include "agent/guard/thread.h"
#include "agent/nvtx/nvtx_entry.h"
#include "proto/address.h"

namespace stepagent::agent {
namespace {

using core::HostClock;
using proto::LogLevel;
using Kind = proto::StepSetting::Kind;

constexpr uint32_t kNvtxActivity = 6;  // batch.proto Activity

bool HasVariable(char* const* environment, std::string_view entry) {
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    if (entry == *e) return true;
  }
  return false;
}

// Text that outlives everything: matching reads it on hot paths, also after exit began.
const char* Leak(const std::string& text) { return strdup(text.c_str()); }

nvtx::StepMatch MatchOf(const proto::StepSetting& step) {
  nvtx::StepMatch match;
  if (step.kind == Kind::kNvtx) match.kind = nvtx::StepMatch::Kind::kExact;
  if (step.kind == Kind::kNvtxGlob) match.kind = nvtx::StepMatch::Kind::kGlob;
  if (match.kind == nvtx::StepMatch::Kind::kNone) return match;
  match.name = Leak(step.name);
  match.domain = Leak(step.domain);
  match.any_domain = step.any_domain;
  return match;
}

core::GateConfig GateConfigOf(const proto::Settings& settings) {
  core::GateConfig config;
  config.extent = settings.step_extent == proto::StepExtent::kPeriod
                      ? core::GateConfig::Extent::kPeriod
                      : core::GateConfig::Extent::kRange;
  config.arm_wait_ns = settings.arm_wait_ns;
  config.max_cycles = settings.max_traces;
  config.collect_bits = 0;
  if ((settings.activities & proto::ActivityBit(kNvtxActivity)) != 0) {
    config.collect_bits |= core::kBitRanges;
  }
  if ((settings.activities & kDeviceKinds) != 0) config.collect_bits |= core::kBitCalls;
  return config;
}

}  // namespace

void Agent::ForgetParent() noexcept {
  nvtx::ForgetAll();
  core::RingRegistry::ForgetAll();
  cupti::Backend().ForgetAll();
}

Agent* Agent::Create(stepagent_stub* stub, char* const* environment) noexcept {
  Agent* agent = new (std::nothrow) Agent(stub, environment);
  if (agent == nullptr) return nullptr;
  try {
    agent->inert_ = !agent->Start();
  } catch (...) {
    agent->inert_ = true;
  }
  return agent;
}

bool Agent::Start() {
  static constexpr StartStep kSteps[] = {
      {"settings", &Agent::ReadSettings}, {"defaults", &Agent::ApplyDefaults},
      {"identity", &Agent::ReadWho},      {"memory", &Agent::MapCore},
      {"gate", &Agent::ConfigureGate},    {"sources", &Agent::ConfigureSources},
      {"uplink", &Agent::StartUplink},    {"thread", &Agent::StartThreads},
      {"arming", &Agent::ArmAtStart},
  };
  for (const StartStep& step : kSteps) {
    if ((this->*step.run)()) continue;
    if (last_error_.empty()) GoInert(std::string("could not set up: ") + step.name);
    return false;
  }
  return true;
}

void Agent::GoInert(const std::string& reason) {
  last_error_ = reason;
  guard::Log(LogLevel::kError, "not recording: " + reason);
}

bool Agent::ReadSettings() {
  settings_ = proto::DefaultSettings();
  std::vector<std::string> unknown;
  const auto error = proto::ApplyEnvironment(environment_, &settings_, &unknown);
  guard::StartLog(settings_.log_level, settings_.log_file, stub_->stderr_is_ours);
  if (error) {
    GoInert(error->Line());
    return false;
  }
  for (const std::string& name : unknown) {
    guard::Log(LogLevel::kWarn, name + " is not a setting of this version; ignored");
  }
  return true;
}

// The contract's table of what is given and what results.
bool Agent::ApplyDefaults() {
  has_step_source_ = proto::HasStepSource(settings_);
  whole_run_ = HasVariable(environment_, "STEPAGENT_RUN_MODE=whole");
  if (settings_.schedule && !has_step_source_ && !whole_run_) {
    GoInert(
        "STEPAGENT_SCHEDULE needs a step source: set STEPAGENT_STEP, for instance nvtx:train_step");
    return false;
  }
  // On demand a request says which steps; until then nothing is scheduled.
  if (proto::ApplyDefaultSchedule(&settings_) && settings_.arm != proto::ArmMode::kDemand) {
    guard::Log(LogLevel::kWarn, "no schedule given: " + settings_.schedule->Text());
  }
  if (whole_run_ && settings_.arm == proto::ArmMode::kUnset) settings_.arm = proto::ArmMode::kStart;
  settings_.arm = proto::EffectiveArm(settings_);
  if (!settings_.out.empty() && settings_.out[0] != '/') {
    const std::string start = stub_->start_dir == nullptr ? "" : stub_->start_dir;
    if (start.empty()) {
      GoInert("--out '" + settings_.out + "' is relative and the working directory is unknown");
      return false;
    }
    settings_.out = start + "/" + settings_.out;
  }
  capture_ = settings_;
  return true;
}

bool Agent::ReadWho() {
  identity_ = ReadIdentity(environment_);
  ReadRedactKey();
  for (const std::string& line : identity_.rank_warnings) guard::Log(LogLevel::kWarn, line);
  if (settings_.ranks && identity_.rank >= 0 &&
      std::find(settings_.ranks->begin(), settings_.ranks->end(),
                static_cast<uint32_t>(identity_.rank)) == settings_.ranks->end()) {
    last_error_ = "rank not in --ranks";
    guard::Log(LogLevel::kInfo, "rank " + std::to_string(identity_.rank) + " is not in --ranks");
    return false;
  }
  return true;
}

bool Agent::MapCore() {
  core::RingRegistry::SetGrownBytes(settings_.ring_memory);
  HostClock::Start();
  core::RingRegistry::Prepare();
  return core::MapPhaseWords() && core::NameTable::Init();
}

bool Agent::ConfigureGate() {
  core::Gate().Configure(GateConfigOf(settings_));
  controller_ = std::make_unique<PhaseController>(&core::Gate(), &cupti::Backend());
  ApplyCapture(settings_);
  return true;
}

bool Agent::ConfigureSources() {
  toggle_ = std::make_unique<trigger::Toggle>();
  std::optional<core::Schedule> schedule;
  if (settings_.schedule && has_step_source_) schedule = ToCoreSchedule(*settings_.schedule);
  profiler_ = std::make_unique<trigger::ProfilerRange>(&core::Gate(), schedule);
  ApplyStepSource(settings_.step);
  if (settings_.signal_number == 0) return true;
  // Installed when the process started: the application may have taken the signal since.
  const bool is_ours = stub_->signal_number != 0
                           ? stub_->signal_is_ours() != 0
                           : stub_->install_signal(settings_.signal_number) == 0;
  if (!is_ours && !said_signal_taken_) {
    said_signal_taken_ = true;
    guard::Log(settings_.signal_asked ? LogLevel::kWarn : LogLevel::kInfo,
               "signal " + std::to_string(settings_.signal_number) +
                   " has a disposition of the application's; use `stepagent toggle`");
  }
  return true;
}

void Agent::ApplyStepSource(const proto::StepSetting& step) {
  nvtx::SetStepMatch(MatchOf(step));
  source_ = trigger::MakeStepSource(step, &core::Gate());
}

bool Agent::StartUplink() {
  control_folder_ = proto::SocketFolder(proto::RuntimeDirsFromEnvironment(environment_));
  uplink_ = std::make_unique<drain::io::Uplink>();
  drain::io::UplinkConfig config;
  config.control_folder = control_folder_;
  config.session = identity_.session;
  if (!uplink_->Start(config)) {
    GoInert("the thread stepagent-io could not be made");
    return false;
  }
  drain::DrainConfig drain_config;
  drain_config.identity = {identity_.run, identity_.session, identity_.host, identity_.rank};
  drain_config.max_records = settings_.max_records;
  drainer_ = std::make_unique<drain::Drainer>(drain_config, uplink_.get());
  drainer_->SetGateObserver([this](const core::GateEvent& event) { OnGateEvent(event); });
  controller_->SetDrainer(drainer_.get());
  ApplyRedaction();
  return true;
}

bool Agent::StartThreads() {
  guard::WatchMainThread(&main_ended_, &core::g_words->wake);
  if (guard::StartThread(&Agent::ThreadBody, this)) {
    stub_->wake.store(&core::g_words->wake, std::memory_order_release);
    return true;
  }
  GoInert("the thread stepagent could not be made");
  return false;
}

bool Agent::ArmAtStart() {
  signals_seen_ = stub_->signals.load(std::memory_order_relaxed);
  if (settings_.arm == proto::ArmMode::kStart) (void)BeginCapture(settings_, 0);
  return true;
}

void Agent::ApplyCapture(const proto::Settings& settings) {
  capture_ = settings;
  hello_is_current_ = false;
  ApplyRedaction();
  (void)core::Gate().Reconfigure(GateConfigOf(settings));
  CaptureOptions options;
  options.activities = settings.activities;
  options.require = settings.require;
  options.graph_nodes = settings.graph == proto::GraphLevel::kNode;
  options.native_stacks = settings.native_stacks;
  options.max_window_ns = settings.max_window_ns;
  options.max_records = settings.max_records;
  controller_->SetOptions(options);
}

}  // namespace stepagent::agent
