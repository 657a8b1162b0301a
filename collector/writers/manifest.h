#pragma once
// manifest.json: what one cycle is, what it holds, what it lost and what it cost.
//
// Purpose: the machine-readable statement beside every cycle (`stepagent.manifest/1`); its keys are
// a contract with other people's scripts.
// Thread rule: free functions over an immutable cycle.
// Failure rule: the Result carries path and errno text; nothing is left under the final name.
#include <string>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/writer.h"
#include "nlohmann/json_fwd.hpp"

namespace stepagent::writers {

// `files` are named relative to `run_dir` (OUT/<run>). The manifest never lists itself.
[[nodiscard]] nlohmann::ordered_json BuildManifest(const model::Cycle& cycle,
                                                   const std::vector<WrittenFile>& files,
                                                   const std::string& run_dir);

// {count each[{index dur_ns collecting}]}.
[[nodiscard]] nlohmann::ordered_json AllStepsJson(const model::AllSteps& all);

// Writes <cycle_dir>/manifest.json. Never overwrites: a second call fails with EEXIST.
[[nodiscard]] WriteResult WriteManifest(const model::Cycle& cycle,
                                        const std::vector<WrittenFile>& files,
                                        const std::string& cycle_dir, const std::string& run_dir);

}  // namespace stepagent::writers
