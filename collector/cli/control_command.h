#pragma once
// `stepagent status|start|stop|toggle [PID…] [--all] [--rank LIST] [--gpu N] [--name GLOB]
// [--session ID] [--json]`.
//
// Purpose: steers running processes and shows their state, one line each.
// Thread rule: called once, from main.
// Failure rule: 0 all took it; 1 something was refused, hung, or nothing matched; 2 usage.
#include <string>
#include <vector>

namespace stepagent::cli {

[[nodiscard]] int ControlMain(const std::string& verb, const std::vector<std::string>& args,
                              char* const* environment);

}  // namespace stepagent::cli
