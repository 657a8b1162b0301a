#include "collector/analysis/range_work.h"

#include <algorithm>

namespace stepagent::analysis {

struct RangeWork::ThreadState {
  std::vector<uint32_t> ranges;  // by begin
  size_t next = 0;
  std::vector<uint32_t> open;
  uint32_t set = 0;
};

void RangeWork::BeginThreads(const model::Cycle& cycle, std::vector<ThreadState>& threads) {
  for (uint32_t i = 0; i < cycle.ranges.size(); ++i) {
    const uint32_t thread = cycle.ranges[i].thread;
    if (thread >= threads.size()) threads.resize(thread + 1);
    threads[thread].ranges.push_back(i);
  }
  for (ThreadState& state : threads) {
    std::stable_sort(state.ranges.begin(), state.ranges.end(), [&](uint32_t a, uint32_t b) {
      const model::Range &ra = cycle.ranges[a], &rb = cycle.ranges[b];
      if (ra.begin_ns != rb.begin_ns) return ra.begin_ns < rb.begin_ns;
      return ra.end_ns > rb.end_ns;
    });
  }
}

uint32_t RangeWork::AddSet(const std::vector<uint32_t>& open) {
  if (open.empty()) return 0;
  members_.insert(members_.end(), open.begin(), open.end());
  set_begin_.push_back(static_cast<uint32_t>(members_.size()));
  return static_cast<uint32_t>(set_begin_.size() - 2);
}

RangeWork::RangeWork(const model::Cycle& cycle) : set_of_call_(cycle.calls.size(), 0) {
  std::vector<ThreadState> threads;
  BeginThreads(cycle, threads);
  for (size_t i = 0; i < cycle.calls.size(); ++i) {
    const model::Call& call = cycle.calls[i];
    if (call.thread >= threads.size()) continue;
    ThreadState& state = threads[call.thread];
    bool changed = false;
    while (state.next < state.ranges.size() &&
           cycle.ranges[state.ranges[state.next]].begin_ns <= call.begin_ns) {
      state.open.push_back(state.ranges[state.next++]);
      changed = true;
    }
    changed |= std::erase_if(state.open, [&](uint32_t r) {
                 return cycle.ranges[r].end_ns <= call.begin_ns;
               }) > 0;
    if (changed) state.set = AddSet(state.open);
    set_of_call_[i] = state.set;
  }
}

}  // namespace stepagent::analysis
