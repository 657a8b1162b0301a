#pragma once
// The device part of a trial's manifest, as checks.
//
// Purpose: driver and CUPTI that worked, or the reason why not under the check that it belongs to,
// with its cure.
// Thread rule: pure functions. Failure rule: a member that is missing or of another type is zero or
// empty.
#include <cstdint>
#include <string>

#include "collector/cli/doctor_check.h"
#include "nlohmann/json.hpp"

namespace stepagent::cli {

[[nodiscard]] uint64_t NumberMember(const nlohmann::json& object, const char* key);
// Records of a kind that were written.
[[nodiscard]] uint64_t WrittenOf(const nlohmann::json& manifest, const char* kind);
[[nodiscard]] std::string CountText(uint64_t obtained, uint64_t expected, const char* what);

// By the check's id.
[[nodiscard]] const char* WhyItMatters(const std::string& check);
// What to type against a reason; "" where none is known. By the agent's reason codes.
[[nodiscard]] std::string CureOf(const std::string& code);
// `gpu` of a manifest.
[[nodiscard]] Check FailureOf(const nlohmann::json& gpu);
[[nodiscard]] Check DriverOk(const nlohmann::json& gpu);
// A warning where another file stood in its way that does not load.
[[nodiscard]] Check CuptiOk(const nlohmann::json& gpu);

}  // namespace stepagent::cli
