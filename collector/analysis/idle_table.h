#pragma once
// Where the host was while a device had no work of this process.
//
// Purpose: the idle time of each device, split by the innermost range of one thread of the host,
// and within it by the call that thread was in and what it waited for. The rows of a device add up
// to its idle time exactly.
// Thread rule: free functions over immutable input.
// Failure rule: where idle time is not known there is no table but a reason.
#include <string>

#include "collector/analysis/tables.h"

namespace stepagent::analysis {

// "" where idle time is known.
[[nodiscard]] std::string WhyNoIdleTable(const model::Cycle& cycle);
// {thread {tid name why} looked_at_ns steps_left_out left_out_ns not_known_ns devices [{ordinal
// idle_ns outside_steps_ns}] rows [{device range domain call waits_for idle_ns share_of_idle
// outside_steps_ns}]}; `range` null: in none; `call` null: in none that is recorded.
[[nodiscard]] Json IdleTable(const model::Cycle& cycle, const DeviceWork& work);

}  // namespace stepagent::analysis
