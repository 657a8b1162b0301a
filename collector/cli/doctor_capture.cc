#include "collector/cli/doctor_capture.h"

#include <algorithm>

#include "collector/cli/doctor_gpu.h"
#include "collector/launch/session_files.h"

namespace stepagent::cli {
namespace {

using launch::Member;
using launch::TextMember;
using nlohmann::json;
using State = Check::State;

constexpr const char* kRealPath = "the real path: what the host asked for and what came back";

bool IsRequested(const json& manifest, const char* kind) {
  const json& requested = Member(Member(Member(manifest, "kinds"), kind), "requested");
  return requested.is_boolean() && requested.get<bool>();
}

std::string Recorded(const json& manifest) {
  return std::to_string(WrittenOf(manifest, "kernel")) + " kernels, " +
         std::to_string(WrittenOf(manifest, "memcpy")) + " copies, " +
         std::to_string(WrittenOf(manifest, "memset")) + " sets";
}

// Without the calls, or without the kernels, there is nothing to hold against each other.
Check OneSided(const json& manifest) {
  const bool has_kernels = IsRequested(manifest, "kernel");
  Check check{"capture", State::kOk, Recorded(manifest) + " recorded; ", kRealPath, ""};
  if (has_kernels && WrittenOf(manifest, "kernel") == 0) {
    check.state = State::kWarning;
    check.type = "--trial 5m if it only starts slowly; send a server requests meanwhile";
  }
  check.found += has_kernels ? "launches are not asked for (--activities): how many kernels were "
                               "due is not known"
                             : "kernels are not asked for (--activities)";
  return check;
}

Check CaptureOf(const json& manifest) {
  if (!IsRequested(manifest, "launch") || !IsRequested(manifest, "kernel"))
    return OneSided(manifest);
  const json& joins = Member(manifest, "joins");
  const uint64_t launches = NumberMember(joins, "launches"), failed = NumberMember(joins, "failed");
  const uint64_t captured = NumberMember(joins, "captured");
  const uint64_t without = NumberMember(joins, "launches_without_device_work");
  const uint64_t expected = launches - std::min(launches, failed + captured);
  const uint64_t obtained = expected - std::min(expected, without);
  Check check{"capture", State::kOk,
              CountText(obtained, expected, "launches have their device records") + "; " +
                  Recorded(manifest),
              kRealPath, ""};
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

// A window that another client kept from us, though one before it went well.
const json* KeptByAnother(const Trial& trial) {
  for (const json& manifest : trial.manifests) {
    const std::string code = TextMember(Member(manifest, "gpu"), "reason_code");
    if (code == "slot_taken" || code == "not_compatible") return &manifest;
  }
  return nullptr;
}

Check NoRival(const Trial& trial, const json& gpu) {
  Check check{"rival", State::kOk,
              trial.looked_twice
                  ? "no other CUPTI client in two windows, with CUPTI left free in between"
                  : "no other CUPTI client when our window began; whether one comes later was not "
                    "tried: the command ended, or --trial was over",
              WhyItMatters("rival"), ""};
  if (TextMember(gpu, "cupti_choice").starts_with("already loaded"))
    check.found +=
        "; the program loads CUPTI itself: a profiler of its own that begins while a "
        "window of ours is open gets nothing";
  return check;
}

}  // namespace

Checks CaptureFindings(const Trial& trial, const json& manifest) {
  const json& gpu = Member(manifest, "gpu");
  Check capture = CaptureOf(manifest);
  Check rival = NoRival(trial, gpu);
  const bool loads_cupti = TextMember(gpu, "cupti_choice").starts_with("already loaded");
  if (const json* kept = KeptByAnother(trial)) {
    rival = FailureOf(Member(*kept, "gpu"));
    rival.found = "it came after our first window: " + rival.found;
  } else if (loads_cupti && capture.state == State::kFailure) {
    // A client that does not hold the subscription may still have taken the buffers.
    rival.state = State::kFailure;
    rival.found = "the program has loaded CUPTI itself (" + TextMember(gpu, "cupti_path") +
                  "), and of its device records most did not come to us";
    rival.type = CureOf("slot_taken");
    capture.state = State::kWarning;
    capture.type = "";
  }
  return {rival, capture};
}

Check NothingAsked(const Ground& ground) {
  return {"capture", State::kOk,
          "no device activity is asked for (--activities " +
              proto::SettingsText(ground.settings).at("activities") +
              "): driver and CUPTI are left alone in it",
          "what is not asked for is not tried", ""};
}

}  // namespace stepagent::cli
