// Everything a replay does, in one order.
//
// The order is that of the recorded begin times over all threads. A range ends before whatever
// else happens at that moment and begins before it, so that half-open windows hold the same calls.
//
// Thread rule: pure functions.
// Failure rule: none.
#pragma once

#include <cstdint>
#include <vector>

#include "recording.h"

namespace stepagent::replay {

enum class ActionType : uint8_t { kPop, kRangeEnd, kPush, kRangeStart, kCall };

struct Action {
  int64_t time_ns;
  uint32_t thread;
  uint32_t index;  // into annotations or calls
  ActionType type;
};

// Annotations that do not nest on their thread become start/end ranges, since push and pop could
// not express them.
std::vector<Action> MakeTimeline(const Recording& recording, bool with_ranges);

}  // namespace stepagent::replay
