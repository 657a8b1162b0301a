#pragma once
// Kineto's per-kernel figures that follow from launch shape and device: blocks and warps per SM,
// estimated achieved occupancy.
//
// Purpose: the fields that torch-tb-profiler's kernel view averages.
// Thread rule: free function.
// Failure rule: a figure whose inputs are unknown (no device data, an architecture whose limits are
// not in the table) is absent; it is never guessed.
#include <optional>

#include "collector/model/cycle.h"

namespace stepagent::writers {

struct LaunchFigures {
  std::optional<double> blocks_per_sm;
  std::optional<double> warps_per_sm;
  std::optional<int> occupancy_percent;  // estimated achieved, rounded
};

[[nodiscard]] LaunchFigures ComputeLaunchFigures(const model::Shape& shape,
                                                 const model::DeviceInfo* device);

}  // namespace stepagent::writers
