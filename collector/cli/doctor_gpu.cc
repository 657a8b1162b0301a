#include "collector/cli/doctor_gpu.h"

#include "collector/launch/session_files.h"

namespace stepagent::cli {
namespace {

using launch::Member;
using launch::TextMember;
using nlohmann::json;
using State = Check::State;

constexpr const char* kReinstall =
    "install the package that file is of again, or take the file away";

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

const Cure* FindCure(const std::string& code) {
  for (const Cure& cure : kCures)
    if (code == cure.code) return &cure;
  return nullptr;
}

std::string CudaVersion(uint64_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

uint64_t NumberMember(const json& object, const char* key) {
  const json& member = Member(object, key);
  return member.is_number_unsigned() ? member.get<uint64_t>() : 0;
}

uint64_t WrittenOf(const json& manifest, const char* kind) {
  return NumberMember(Member(Member(manifest, "balance"), kind), "written");
}

std::string CureOf(const std::string& code) {
  const Cure* cure = FindCure(code);
  return cure != nullptr ? cure->type : "";
}

const char* WhyItMatters(const std::string& check) {
  if (check == "driver") return "without a working driver there is no device work to trace";
  if (check == "cupti") return "kernels and copies come from it; without it traces are host only";
  if (check == "rival") return "only one tool at a time can use CUPTI in a process";
  if (check == "permission") return "without it the driver gives no records";
  return "a trace without it is host only";
}

Check FailureOf(const json& gpu) {
  const std::string code = TextMember(gpu, "reason_code");
  const Cure* cure = FindCure(code);
  Check check{cure != nullptr ? cure->check : "capture", State::kFailure, TextMember(gpu, "reason"),
              "", cure != nullptr ? cure->type : "nvidia-smi"};
  const std::string holder = TextMember(gpu, "holder");
  if (!holder.empty() && check.found.find(holder) == std::string::npos)
    check.found += " (" + holder + ")";
  check.why = WhyItMatters(check.id);
  const bool is_broken = check.found.find("cannot be loaded") != std::string::npos ||
                         check.found.find("is no usable CUPTI") != std::string::npos;
  if (check.id == "cupti" && is_broken)
    check.type = std::string(kReinstall) + "; another one: STEPAGENT_CUPTI=/path/libcupti.so";
  return check;
}

Check DriverOk(const json& gpu) {
  Check check{"driver", State::kOk,
              "supports CUDA " + CudaVersion(NumberMember(gpu, "driver_version")),
              WhyItMatters("driver"), ""};
  const json& devices = Member(gpu, "devices");
  if (!devices.is_array() || devices.empty()) return check;  // not asked, as without a CUPTI
  check.found += ", " + std::to_string(devices.size()) +
                 (devices.size() == 1 ? " device: " : " devices: ") +
                 TextMember(devices[0], "name");
  return check;
}

Check CuptiOk(const json& gpu) {
  const std::string choice = TextMember(gpu, "cupti_choice");
  Check check{"cupti", State::kOk,
              TextMember(gpu, "cupti_path") + " (API " +
                  std::to_string(NumberMember(gpu, "cupti_version")) + "), " + choice,
              WhyItMatters("cupti"), ""};
  if (choice.find("; passed over: ") != std::string::npos) {
    check.state = State::kWarning;
    check.type = std::string("nothing for this run; for the file passed over: ") + kReinstall;
  }
  return check;
}

std::string CountText(uint64_t obtained, uint64_t expected, const char* what) {
  return std::to_string(obtained) + " of " + std::to_string(expected) + " " + what;
}

}  // namespace stepagent::cli
