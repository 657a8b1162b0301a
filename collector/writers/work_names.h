#pragma once
// What a piece of work is called, the same in every format.
//
// Purpose: counts and sums per name agree between formats only if the names do. Kernel names are
// the demangled ones; copies, sets and synchronisations carry Kineto's words. Thread rule: free
// functions. Failure rule: an unknown index gives "unknown", never an error.
#include <string>
#include <string_view>

#include "collector/model/cycle.h"

namespace stepagent::writers {

// Has possible stamps and a stream: what every format holds.
[[nodiscard]] inline bool IsDrawn(const model::Cycle& cycle, const model::DeviceItem& item) {
  return item.placed && item.lane < cycle.lanes.size() && item.end_ns >= item.begin_ns;
}

[[nodiscard]] std::string_view KernelName(const model::Cycle& cycle, const model::Kernel& kernel);
[[nodiscard]] std::string CopyName(const model::Copy& copy);
[[nodiscard]] std::string SetName(const model::Set& set);
[[nodiscard]] std::string GraphLaunchName(const model::GraphLaunch& launch);
[[nodiscard]] std::string StepName(const model::Step& step);
// A range that reads ProfilerStep#<n> would be counted as a step by readers: it says "range" first.
[[nodiscard]] std::string RangeName(const model::Cycle& cycle, const model::Range& range);
// The step's own range whose text reads ProfilerStep#<n>: the step's row stands for it.
[[nodiscard]] bool IsStepRow(const model::Cycle& cycle, const model::Range& range);
// gemm of "void ns::gemm<float, 128>(float const*)"; the whole text where it is no such thing.
[[nodiscard]] std::string ShortKernelName(std::string_view demangled);

}  // namespace stepagent::writers
