#pragma once
// steps.csv: one line per step that was timed, for `--activities none` and for spreadsheets.
//
// Purpose: index, begin, duration of every step the agent timed, and what was collected in it.
// Thread rule: free function over an immutable cycle.
// Failure rule: as every writer: path and errno text, nothing left under the final name.
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/model/cycle.h"
#include "collector/writers/writer.h"

namespace stepagent::writers {

// Writes <cycle_dir>/steps.csv. Never overwrites.
[[nodiscard]] WriteResult WriteStepsCsv(const model::Cycle& cycle, const std::string& cycle_dir);

// Adds to the text of such a file the steps behind its last one; how many rows it has then.
// `armed_at`: the process index of step 0.
uint64_t AddLaterRows(const model::AllSteps& all, uint64_t armed_at, std::string* text);

// no, warmup, active or finishing, by what the agent says of a step.
[[nodiscard]] std::string_view CollectingName(uint8_t collecting);

}  // namespace stepagent::writers
