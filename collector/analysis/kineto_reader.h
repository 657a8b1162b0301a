#pragma once
// Reads a Kineto / torch.profiler Chrome JSON file (plain or gzip) into a canonical cycle.
//
// Purpose: `report` gives torch.profiler users the same tables and readings. The file is parsed as
// a stream, one event at a time, so hundreds of MB need no more memory than the cycle itself.
// Thread rule: a call owns all it uses.
// Failure rule: `ok` false only when the file is not a readable trace; whatever is odd inside is
// counted in `problems` and left out.
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

struct KinetoReadResult {
  bool ok = false;
  std::string error;                  // "path: what"
  std::vector<std::string> problems;  // one sentence each
  model::Cycle cycle;
};

[[nodiscard]] KinetoReadResult ReadKinetoFile(const std::string& path);

}  // namespace stepagent::analysis
