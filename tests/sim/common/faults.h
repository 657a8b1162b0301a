// Scripted failures and the call log.
//
// STEPAGENT_SIM_FAULTS="name=code[@first][xcount];..." makes a function (shell pattern) return a
// code from its first-th call on, count times (default: from the first call, for ever). It serves
// cu* and cupti* functions; the runtime's follow from the driver's. STEPAGENT_SIM_LOG=<file> gets one line per CUPTI call.
//
// Threads: any. Failure: a script that does not parse ends the program with a message.
#pragma once

#include <atomic>
#include <cstdint>

namespace stepagent::sim {

// True when any fault is scripted: lets a hot path skip the search.
[[nodiscard]] bool HasFaults();

// The scripted result of this call of `function`, if it has one. Counts the call.
[[nodiscard]] bool FaultFor(const char* function, int* code);

[[nodiscard]] bool HasCallLog();

// Appends "<monotonic ns> <pid> <tid> <text>\n" with one write(2).
void LogCall(const char* function, int result);
void LogText(const char* text);

}  // namespace stepagent::sim
