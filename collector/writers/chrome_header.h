#pragma once
// What stands before and after the events of a Chrome file.
//
// Purpose: Kineto's top-level keys. Some readers look for the rank line by line with a regular
// expression and stop at the first hit, others parse up to `traceEvents` and know maps of scalars
// only; so the rank comes first, on a line of its own, and our own object is flat.
// Thread rule: free functions.
// Failure rule: cannot fail.
#include <string>

#include "collector/model/cycle.h"

namespace stepagent::writers {

// Ends with the opening bracket of traceEvents.
[[nodiscard]] std::string ChromeHeader(const model::Cycle& cycle, int64_t base_unix_ns);
// Begins with the closing bracket.
[[nodiscard]] std::string ChromeTail(const std::string& trace_name);
// "" or " [host only: <reason>]": appended to names of processes.
[[nodiscard]] std::string HostOnlyMark(const model::Cycle& cycle);

}  // namespace stepagent::writers
