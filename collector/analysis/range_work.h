#pragma once
// Which ranges a host call belongs to.
//
// Purpose: projects ranges onto calls, and by correlation onto device work, for the summary and for
// the annotation rows of traces. A call belongs to every range that its own thread had open when
// the call began; a start/end range counts for the thread that started it.
// Thread rule: immutable after construction.
// Failure rule: none; memory is one number a call and two short lists a range.
#include <cstdint>
#include <span>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

class RangeWork {
 public:
  explicit RangeWork(const model::Cycle& cycle);
  // Indices into Cycle::ranges, in the order they were opened. Empty for kNoIndex.
  [[nodiscard]] std::span<const uint32_t> RangesOf(int32_t call) const {
    if (call < 0 || static_cast<size_t>(call) >= set_of_call_.size()) return {};
    const uint32_t set = set_of_call_[static_cast<size_t>(call)];
    return std::span(members_).subspan(set_begin_[set], set_begin_[set + 1] - set_begin_[set]);
  }

 private:
  struct ThreadState;
  void BeginThreads(const model::Cycle& cycle, std::vector<ThreadState>& threads);
  uint32_t AddSet(const std::vector<uint32_t>& open);

  std::vector<uint32_t> set_of_call_;
  std::vector<uint32_t> set_begin_{0, 0};  // set 0 is the empty one
  std::vector<uint32_t> members_;
};

}  // namespace stepagent::analysis
