#pragma once
// `stepagent run [options] -- COMMAND [ARGUMENT…]`.
//
// Purpose: starts a program with the agent in it, ends like it, and says where the traces are.
// Thread rule: called once, from main, before any other thread exists.
// Failure rule: exit status 2 for a usage error, 125 for our own failure, 126 and 127 for a command
// that cannot be executed or found; else the child's. Writes to stderr only.
#include <string>
#include <vector>

namespace stepagent::launch {

[[nodiscard]] int RunMain(const std::vector<std::string>& args, char* const* environment);

}  // namespace stepagent::launch
