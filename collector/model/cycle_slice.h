#pragma once
// Some steps of a cycle as a cycle of their own.
//
// Purpose: a trace too large for its viewers is written in parts, each of whole steps.
// Thread rule: pure function of an immutable cycle.
// Failure rule: none; indexes past the end count as the end.
//
// Every call and device item is in exactly one part: that of its step, outside steps that of its
// call's begin. What runs across a border is cut there and marked so: ranges are in each part they
// touch. Counts, balances and notes stay those of the whole cycle.
#include <cstddef>

#include "collector/model/cycle.h"

namespace stepagent::model {

// Steps [first, last) by position in cycle.steps.
[[nodiscard]] Cycle SliceSteps(const Cycle& cycle, size_t first, size_t last);

}  // namespace stepagent::model
