#include "collector/cli/doctor_findings.h"

#include <fnmatch.h>
#include <sys/wait.h>

#include <algorithm>
#include <tuple>

#include "collector/cli/doctor_capture.h"
#include "collector/cli/doctor_device.h"
#include "collector/cli/doctor_ends.h"
#include "collector/cli/doctor_gpu.h"
#include "collector/launch/session_files.h"
#include "collector/launch/setting_args.h"
#include "proto/shell_word.h"

namespace stepagent::cli {
namespace {

using launch::Member;
using launch::SeenRange;
using launch::TextMember;
using nlohmann::json;
using State = Check::State;
constexpr size_t kRangesShown = 8;

// The cycle that tells most: with kernels, else with a driver, else the first.
const json* BestManifest(const Trial& trial) {
  const json* best = nullptr;
  const auto key = [](const json& manifest) {
    const json& gpu = Member(manifest, "gpu");
    return std::tuple(WrittenOf(manifest, "kernel"), TextMember(gpu, "status") == "collected",
                      NumberMember(gpu, "driver_version"));
  };
  for (const json& manifest : trial.manifests)
    if (best == nullptr || key(*best) < key(manifest)) best = &manifest;
  return best;
}

Check DeviceTrial(const json& manifest) {
  const uint64_t kernels = WrittenOf(manifest, "kernel"), copies = WrittenOf(manifest, "memcpy");
  const uint64_t sets = WrittenOf(manifest, "memset");
  Check check{"device-trial", State::kOk,
              "a program of our own: " + CountText(kernels, kDoctorKernels, "kernels") + ", " +
                  CountText(copies, kDoctorCopies, "copies") + ", " +
                  CountText(sets, kDoctorSets, "sets") + " recorded",
              "library, driver, CUPTI, collector and files work together", ""};
  if (kernels != kDoctorKernels || copies != kDoctorCopies || sets != kDoctorSets) {
    check.state = State::kFailure;
    check.type = "STEPAGENT_LOG=debug stepagent doctor";
  }
  return check;
}

// What the program of our own says when the agent says nothing: it was never called.
Check NoSession(const Trial& trial) {
  Check check{"driver", State::kFailure, trial.error, WhyItMatters("driver"), ""};
  std::string line = trial.output;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (!trial.error.empty()) {
    check.id = "device-trial";
    check.why = "a trial tells what no look at files can";
    check.type = "TMPDIR=DIR with a folder that can be written to";
  } else if (WIFEXITED(trial.wait_status) && WEXITSTATUS(trial.wait_status) == 2) {
    check.found = "no CUDA driver library: " + line;
    check.type = CureOf("no_driver");
  } else if (line.starts_with(kStubDriver)) {
    check.found = line;
    check.type = CureOf("stub_driver");
  } else if (!line.empty()) {
    check.found = line;
    check.type = CureOf("no_device");
  } else {
    check.id = "agent";
    check.found = "the program of our own ran, and the library did not get in";
    check.why = "the loader or the driver did not load it";
    check.type = "LD_DEBUG=libs stepagent doctor; is the library on a noexec mount?";
  }
  return check;
}

std::string ProcessText(const TrialProcess& process) {
  std::string text = std::to_string(process.seen.pid) + " " + process.seen.title.substr(0, 60);
  text += process.has_agent                 ? " [agent"
          : !process.seen.stepagent.empty() ? " [preloaded, unused"
          : process.looks > 1               ? " [without the library"
                                            : " [too short to be looked into";
  if (process.rank >= 0) text += ", rank " + std::to_string(process.rank);
  if (process.has_cuda)
    text += ", CUDA";
  else if (!process.seen.driver.empty())
    text += ", driver mapped, no cuInit";
  return text + "]";
}

Check ProcessesOf(const Trial& trial) {
  Check check{"processes", State::kOk, "", "each process with CUDA becomes a session of its own",
              ""};
  for (const TrialProcess& process : trial.processes)
    check.found += (check.found.empty() ? "" : "; ") + ProcessText(process);
  if (trial.processes.empty()) check.found = "ended before it could be looked at";
  const bool is_preloaded = std::any_of(
      trial.processes.begin(), trial.processes.end(),
      [](const TrialProcess& p) { return !p.seen.stepagent.empty() || p.looks < 2; });
  if (WasRecorded(trial) || WasKilled(trial)) return check;
  check.state = State::kFailure;
  check.why = "nothing is recorded in a process that does not use CUDA or NVTX";
  check.type = is_preloaded || trial.processes.empty()
                   ? "a command that uses CUDA, or --trial 5m if it only starts slowly"
                   : "does it clear LD_PRELOAD (sudo, env -i, ssh)? put stepagent run after that";
  return check;
}

bool MatchesStep(const SeenRange& range, const proto::StepSetting& step) {
  if (!step.any_domain && range.domain != step.domain) return false;
  if (step.kind == proto::StepSetting::Kind::kNvtx) return range.name == step.name;
  return step.kind == proto::StepSetting::Kind::kNvtxGlob &&
         fnmatch(step.name.c_str(), range.name.c_str(), FNM_NOESCAPE) == 0;
}

std::string StepOf(const SeenRange& range) { return proto::ShellWord(launch::StepValue(range)); }

std::string RangeText(const SeenRange& range) {
  const char* kind = range.registered == 0             ? "plain"
                     : range.registered == range.count ? "registered"
                                                       : "plain and registered";
  return StepOf(range) + " " + std::to_string(range.count) + " times, " + kind;
}

Check RangesOf(const Trial& trial) {
  Check check{"ranges", State::kOk, "",
              "a step is one of them (a --step value), the likeliest first", ""};
  for (size_t i = 0; i < std::min(trial.ranges.size(), kRangesShown); ++i)
    check.found += (i == 0 ? "" : "; ") + RangeText(trial.ranges[i]);
  if (!trial.ranges.empty()) return check;
  check.state = State::kWarning;
  check.found = "the program emitted no NVTX ranges in " +
                std::to_string(static_cast<int>(trial.seconds)) + " s";
  check.type = "--step every:500ms, or switch its ranges on (docs/servers.md)";
  return check;
}

// Whether the step that was asked for was there.
void CheckStep(const Ground& ground, const Trial& trial, Checks* checks) {
  using Kind = proto::StepSetting::Kind;
  const proto::StepSetting& step = ground.settings.step;
  if (step.kind != Kind::kNvtx && step.kind != Kind::kNvtxGlob) return;
  Check check{"step", State::kOk, "", "the schedule counts these", ""};
  uint64_t count = 0;
  for (const SeenRange& range : trial.ranges)
    if (MatchesStep(range, step)) count += range.count;
  check.found = step.Text() + ": seen " + std::to_string(count) + " times";
  if (count == 0) {
    check.state = WasKilled(trial) ? State::kWarning : State::kFailure;
    check.type = trial.ranges.empty() ? "--step every:500ms" : "--step " + StepOf(trial.ranges[0]);
  }
  checks->push_back(check);
}

}  // namespace

Checks DeviceFindings(const Trial& trial) {
  if (trial.error.empty() && WasKilled(trial))
    return {{"device-trial", State::kFailure,
             "a program of our own was ended by " + SignalText(trial),
             "driver and CUPTI of this machine are tried with it",
             "stepagent doctor-device (does it live without the library?), then nvidia-smi"}};
  const json* manifest = BestManifest(trial);
  if (manifest == nullptr) return {NoSession(trial)};
  const json& gpu = Member(*manifest, "gpu");
  if (TextMember(gpu, "status") == "unavailable") {
    Checks checks;
    const Check failure = FailureOf(gpu);
    if (failure.id != "driver") checks.push_back(DriverOk(gpu));
    if (failure.id != "driver" && failure.id != "cupti") checks.push_back(CuptiOk(gpu));
    checks.push_back(failure);
    return checks;
  }
  return {DriverOk(gpu), CuptiOk(gpu), DeviceTrial(*manifest)};
}

Checks CommandFindings(const Ground& ground, const Trial& trial) {
  if (!trial.error.empty())
    return {{"trial", State::kFailure, trial.error, "nothing could be tried", "--out DIR"}};
  const std::optional<Check> left_out = LeftOut(ground, trial);
  if (left_out) return {*left_out};  // nothing else was tried
  Checks checks{ProcessesOf(trial)};
  if (const auto partly = PartlySeen(ground, trial)) checks.push_back(*partly);
  const json* manifest = BestManifest(trial);
  if (manifest != nullptr) {
    const json& gpu = Member(*manifest, "gpu");
    const std::string code = TextMember(gpu, "reason_code");
    if (code == "no_driver" || code == "cuda_not_initialized") {
      checks.push_back({"cuda", State::kWarning, "no process of it used CUDA while it was watched",
                        "a trace without it is host only",
                        "--trial 5m if it only starts slowly; send a server requests meanwhile"});
    } else if (code == "not_asked") {
      checks.push_back(NothingAsked(ground));
    } else if (TextMember(gpu, "status") == "unavailable") {
      checks.push_back(FailureOf(gpu));
    } else {
      Check cupti = CuptiOk(gpu);
      cupti.id = "command-cupti";
      cupti.why = "the one in the command's own process; it decides";
      // Killed before its agent told.
      if (!TextMember(gpu, "cupti_path").empty()) checks.push_back(cupti);
      for (Check& check : CaptureFindings(trial, *manifest)) checks.push_back(std::move(check));
    }
  }
  checks.push_back(RangesOf(trial));
  CheckStep(ground, trial, &checks);
  if (WasKilled(trial)) checks.push_back(Killed(ground, trial));
  if (trial.has_ended && WIFEXITED(trial.wait_status) && WEXITSTATUS(trial.wait_status) != 0)
    checks.push_back({"exit", State::kWarning,
                      "the command ended with " + std::to_string(WEXITSTATUS(trial.wait_status)),
                      "a trial of a program that fails tells little", ""});
  return checks;
}

std::string NextCommand(const Ground& ground, const Trial* trial) {
  std::string line = "stepagent run";
  for (const auto& [name, value] : ground.given)
    line += " --" + name + " " + proto::ShellWord(value);
  if (!proto::HasStepSource(ground.settings) && trial != nullptr && !trial->ranges.empty())
    line += " --step " + StepOf(trial->ranges[0]);
  line += " --";
  for (const std::string& word : ground.command) line += " " + proto::ShellWord(word);
  return ground.command.empty() ? "stepagent doctor -- python train.py" : line;
}

}  // namespace stepagent::cli
