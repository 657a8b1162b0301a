#pragma once
// How the frames of a launch's stack read.
//
// Purpose: one spelling of a frame for every format that carries stacks.
// Thread rule: pure functions of an immutable cycle.
// Failure rule: none; what is not known is left out, never an empty text.
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::writers {

// Leaf first; nullptr: none was taken for this call.
[[nodiscard]] const std::vector<model::Frame>* StackOf(const model::Cycle& cycle,
                                                       const model::Call& call);
// Its function, else `module+0xaddress`.
[[nodiscard]] std::string FrameName(const model::Cycle& cycle, const model::Frame& frame);
// One line for a viewer's panel, leaf first, frames separated by ';': `file.cc(12): function`.
[[nodiscard]] std::string CallStackText(const model::Cycle& cycle,
                                        const std::vector<model::Frame>& stack);

}  // namespace stepagent::writers
