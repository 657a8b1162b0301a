#pragma once
// What a trial's windows hold.
//
// Purpose: tells a window that settles something from one that does not, while the trial goes on,
// and reads all of them when it is over.
// Thread rule: pure, but for reading files. Failure rule: a document of another shape holds
// nothing.
#include <cstdint>
#include <vector>

#include "collector/cli/doctor_trial.h"
#include "collector/launch/session_files.h"

namespace stepagent::cli {

enum class WindowAnswer {
  kNone,   // not yet: no CUDA so far, no kernel
  kWork,   // device work was recorded (of the kinds that are asked for)
  kFinal,  // the device cannot be recorded, or is not to be, and that will not change
};
// `activities`: the settings' set of bits.
[[nodiscard]] WindowAnswer AnswerOf(const nlohmann::json& manifest, uint32_t activities);
[[nodiscard]] bool Asks(uint32_t activities, const char* activity);
[[nodiscard]] nlohmann::json ReadManifest(const launch::SessionEntry& session,
                                          const launch::CycleEntry& cycle);
// Manifests and ranges of all sessions.
void AddResults(const std::vector<launch::SessionEntry>& sessions, Trial* trial);

}  // namespace stepagent::cli
