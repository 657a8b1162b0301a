#include "collector/cli/doctor_findings.h"

#include <fnmatch.h>
#include <sys/wait.h>

#include <algorithm>
#include <tuple>

#include "collector/cli/doctor_device.h"
#include "collector/cli/doctor_ends.h"
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

uint64_t Number(const json& object, const char* key) {
  const json& member = Member(object, key);
  return member.is_number_unsigned() ? member.get<uint64_t>() : 0;
}

std::string CudaVersion(uint64_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

uint64_t Written(const json& manifest, const char* kind) {
  return Number(Member(Member(manifest, "balance"), kind), "written");
}

// The cycle that tells most: with kernels, else with a driver, else the first.
const json* BestManifest(const Trial& trial) {
  const json* best = nullptr;
  const auto key = [](const json& manifest) {
    const json& gpu = Member(manifest, "gpu");
    return std::tuple(Written(manifest, "kernel"), TextMember(gpu, "status") == "collected",
                      Number(gpu, "driver_version"));
  };
  for (const json& manifest : trial.manifests)
    if (best == nullptr || key(*best) < key(manifest)) best = &manifest;
  return best;
}

struct Cure {
  const char *code, *check, *type;
};
// By the reason codes of the agent (agent/cupti/availability.cc).
constexpr Cure kCures[] = {
    {"no_driver", "driver", "nvidia-smi; in a container: --gpus all and the driver's libraries"},
    {"stub_driver", "driver", "take the folder 'stubs' out of LD_LIBRARY_PATH"},
    {"no_device", "driver", "nvidia-smi; echo $CUDA_VISIBLE_DEVICES; docker run --gpus all"},
    {"driver_mismatch", "driver", "reboot, or mount the host's libcuda.so.1 into the container"},
    {"cuda_not_initialized", "driver", "nvidia-smi"},
    {"forked_child", "driver", "start workers with spawn, not fork"},
    {"cupti_missing", "cupti",
     "pip install nvidia-cuda-cupti, or STEPAGENT_CUPTI=/path/libcupti.so"},
    {"cupti_too_new", "cupti", "STEPAGENT_CUPTI=/path/of/an/older/libcupti.so, or a newer driver"},
    {"slot_taken", "rival", "switch the other profiler off for the steps to be traced"},
    {"not_compatible", "rival", "switch the other profiler off for the steps to be traced"},
    {"not_permitted", "permission",
     "run as root, with CAP_SYS_ADMIN, or load the kernel module with "
     "NVreg_RestrictProfilingToAdminUsers=0"},
    {"vgpu_not_permitted", "permission", "ask the administrator to allow profiling on the vGPU"},
    {"confidential_computing", "permission", "switch the device to its devtools mode"},
};

const Cure* CureOf(const std::string& code) {
  for (const Cure& cure : kCures)
    if (code == cure.code) return &cure;
  return nullptr;
}

const char* WhyItMatters(const std::string& check) {
  if (check == "driver") return "without a working driver there is no device work to trace";
  if (check == "cupti") return "kernels and copies come from it; without it traces are host only";
  if (check == "rival") return "only one tool at a time can use CUPTI in a process";
  if (check == "permission") return "without it the driver gives no records";
  return "a trace without it is host only";
}

// The reason why a window has no device part, under the check that it belongs to.
Check FailureOf(const json& gpu) {
  const std::string code = TextMember(gpu, "reason_code");
  const Cure* cure = CureOf(code);
  Check check{cure != nullptr ? cure->check : "capture", State::kFailure, TextMember(gpu, "reason"),
              "", cure != nullptr ? cure->type : "nvidia-smi"};
  const std::string holder = TextMember(gpu, "holder");
  if (!holder.empty() && check.found.find(holder) == std::string::npos)
    check.found += " (" + holder + ")";
  check.why = WhyItMatters(check.id);
  const bool is_broken = check.found.find("cannot be loaded") != std::string::npos ||
                         check.found.find("is no usable CUPTI") != std::string::npos;
  if (check.id == "cupti" && is_broken)
    check.type =
        "install the package that file is of again, or take the file away; another one: "
        "STEPAGENT_CUPTI=/path/libcupti.so";
  return check;
}

Check DriverOk(const json& gpu) {
  Check check{"driver", State::kOk, "supports CUDA " + CudaVersion(Number(gpu, "driver_version")),
              WhyItMatters("driver"), ""};
  const json& devices = Member(gpu, "devices");
  check.found +=
      ", " + std::to_string(devices.size()) + " device" + (devices.size() == 1 ? "" : "s");
  if (devices.is_array() && !devices.empty()) check.found += ": " + TextMember(devices[0], "name");
  return check;
}

Check CuptiOk(const json& gpu) {
  return {"cupti", State::kOk,
          TextMember(gpu, "cupti_path") + " (API " + std::to_string(Number(gpu, "cupti_version")) +
              "), " + TextMember(gpu, "cupti_choice"),
          WhyItMatters("cupti"), ""};
}

std::string CountText(uint64_t obtained, uint64_t expected, const char* what) {
  return std::to_string(obtained) + " of " + std::to_string(expected) + " " + what;
}

Check DeviceTrial(const json& manifest) {
  const uint64_t kernels = Written(manifest, "kernel"), copies = Written(manifest, "memcpy");
  const uint64_t sets = Written(manifest, "memset");
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
    check.type = CureOf("no_driver")->type;
  } else if (!line.empty()) {
    check.found = line;
    check.type = CureOf("no_device")->type;
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
                                            : " [without the library";
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
  const bool is_preloaded =
      std::any_of(trial.processes.begin(), trial.processes.end(),
                  [](const TrialProcess& p) { return !p.seen.stepagent.empty(); });
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

Check CaptureOf(const json& manifest) {
  const json& joins = Member(manifest, "joins");
  const uint64_t launches = Number(joins, "launches"), failed = Number(joins, "failed");
  const uint64_t captured = Number(joins, "captured");
  const uint64_t without = Number(joins, "launches_without_device_work");
  const uint64_t expected = launches - std::min(launches, failed + captured);
  const uint64_t obtained = expected - std::min(expected, without);
  Check check{"capture", State::kOk,
              CountText(obtained, expected, "launches have their device records") + "; " +
                  std::to_string(Written(manifest, "kernel")) + " kernels, " +
                  std::to_string(Written(manifest, "memcpy")) + " copies, " +
                  std::to_string(Written(manifest, "memset")) + " sets",
              "the real path: what the host asked for and what came back", ""};
  if (expected == 0) {
    check.state = State::kWarning;
    check.found = "no kernel or graph was launched while it was watched";
    check.type = "--trial 5m if it only starts slowly; send a server requests meanwhile";
  } else if (obtained * 10 < expected * 9) {
    check.state = State::kFailure;
    check.type = "STEPAGENT_LOG=debug stepagent doctor -- CMD";
  }
  return check;
}

// A client that does not hold the subscription may still have taken the buffers.
void AddCapture(const json& manifest, Checks* checks) {
  const json& gpu = Member(manifest, "gpu");
  Check capture = CaptureOf(manifest);
  Check rival{"rival", State::kOk, "no other CUPTI client in it", WhyItMatters("rival"), ""};
  const bool loads_cupti = TextMember(gpu, "cupti_choice").starts_with("already loaded");
  if (loads_cupti && capture.state == State::kFailure) {
    rival.state = State::kFailure;
    rival.found = "the program has loaded CUPTI itself (" + TextMember(gpu, "cupti_path") +
                  "), and of its device records most did not come to us";
    rival.type = CureOf("slot_taken")->type;
    capture.state = State::kWarning;
    capture.type = "";
  }
  checks->push_back(rival);
  checks->push_back(capture);
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
  const json* manifest = BestManifest(trial);
  if (manifest != nullptr) {
    const json& gpu = Member(*manifest, "gpu");
    const std::string code = TextMember(gpu, "reason_code");
    if (code == "no_driver" || code == "cuda_not_initialized") {
      checks.push_back({"cuda", State::kWarning, "no process of it used CUDA while it was watched",
                        "a trace without it is host only",
                        "--trial 5m if it only starts slowly; send a server requests meanwhile"});
    } else if (TextMember(gpu, "status") == "unavailable") {
      checks.push_back(FailureOf(gpu));
    } else {
      Check cupti = CuptiOk(gpu);
      cupti.id = "command-cupti";
      cupti.why = "the one in the command's own process; it decides";
      // Killed before its agent told.
      if (!TextMember(gpu, "cupti_path").empty()) checks.push_back(cupti);
      AddCapture(*manifest, &checks);
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
