#pragma once
// steps.csv: one line per step that was timed, for `--activities none` and for spreadsheets.
//
// Purpose: index, phase, begin, duration of every step the agent timed.
// Thread rule: free function over an immutable cycle.
// Failure rule: as every writer: path and errno text, nothing left under the final name.
#include <string>

#include "collector/model/cycle.h"
#include "collector/writers/writer.h"

namespace stepagent::writers {

// Writes <cycle_dir>/steps.csv. Never overwrites.
[[nodiscard]] WriteResult WriteStepsCsv(const model::Cycle& cycle, const std::string& cycle_dir);

}  // namespace stepagent::writers
