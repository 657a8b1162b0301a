#pragma once
// What came of the command's own device work, and who else wants it.
//
// Purpose: rival and capture, from all windows of a trial: a client that came between two of them
// shows in the second.
// Thread rule: pure functions. Failure rule: what was not asked for, or not tried, is said to be
// so.
#include "collector/cli/doctor_check.h"
#include "collector/cli/doctor_trial.h"

namespace stepagent::cli {

// `manifest`: the window that tells most.
[[nodiscard]] Checks CaptureFindings(const Trial& trial, const nlohmann::json& manifest);
// capture: nothing of the device's is asked for.
[[nodiscard]] Check NothingAsked(const Ground& ground);

}  // namespace stepagent::cli
