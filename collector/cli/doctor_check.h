#pragma once
// One finding of `stepagent doctor`, and what finds it.
//
// Purpose: each check looks at one thing and says what was found, why it matters and what to type.
// Nothing here changes anything but a folder of the doctor's own.
// Thread rule: one thread. Failure rule: what cannot be looked at is a warning, never an abort.
#include <string>
#include <vector>

#include "collector/launch/environment.h"
#include "collector/launch/setting_args.h"
#include "proto/address.h"
#include "proto/settings.h"

namespace stepagent::cli {

struct Check {
  enum class State { kOk, kWarning, kFailure };
  std::string id;
  State state = State::kOk;
  std::string found;
  std::string why;
  std::string type;  // "" nothing to do
};
using Checks = std::vector<Check>;

// What the doctor was told, resolved as `run` would.
struct Ground {
  launch::Environment environment{nullptr};
  std::vector<std::pair<std::string, std::string>> given;  // flags: name without dashes, value
  proto::Settings settings;                                // with absolute paths
  std::string settings_error;                              // one line, "" good
  std::vector<std::string> unknown_variables;
  std::vector<std::string> command;  // "" none
  std::string library, library_error;
  proto::RuntimeDirs dirs;
};

[[nodiscard]] Ground SurveyGround(const launch::SettingArgs& taken, char* const* environment);
// Everything that can be told without starting a program.
[[nodiscard]] Checks CheckGround(const Ground& ground);

}  // namespace stepagent::cli
