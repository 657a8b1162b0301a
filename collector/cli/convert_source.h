#pragma once
// Reads what `convert` was given, cycle by cycle.
//
// Purpose: one cycle in memory at a time, whatever the path was: raw.steps, a session's folder, a
// cycle's folder (its session's raw file holds it) or a Kineto file. Nothing is written.
// Thread rule: one call, one thread. Failure rule: `error` where nothing could be read; what is odd
// inside is a line in `problems`.
#include <functional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::cli {

struct ConvertReport {
  std::string error;
  std::vector<std::string> problems;
};

[[nodiscard]] ConvertReport ReadForConvert(const std::string& path,
                                           const std::function<void(model::Cycle)>& on_cycle);

}  // namespace stepagent::cli
