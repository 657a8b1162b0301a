#pragma once
// `stepagent wait PATH|PID… [--timeout S]`.
//
// Purpose: returns when all cycles are written: of an OUT, run or session folder, or of a process.
// Those of living processes that are yet to begin are waited for, too (agents_at_work.h).
// Sessions whose process and collector are both gone are finished from their raw files.
// Thread rule: called once, from main.
// Failure rule: 0 written; 1 not (timeout, nothing there, not to be finished), with a line; 2
// usage.
#include <string>
#include <vector>

namespace stepagent::cli {

[[nodiscard]] int WaitMain(const std::vector<std::string>& args, char* const* environment);

}  // namespace stepagent::cli
