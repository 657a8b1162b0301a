#include "collector/analysis/known_window.h"

#include <algorithm>
#include <set>

namespace stepagent::analysis {

IntervalUnion StepsLeftOut(const model::Cycle& cycle) {
  std::vector<Interval> out;
  for (const model::Step& step : cycle.steps) {
    if (HoldsTracerStart(step)) out.push_back({step.begin_ns, step.end_ns});
  }
  IntervalUnion left_out = MakeUnion(std::move(out));
  const int64_t window = cycle.window_end_ns - cycle.window_begin_ns;
  const bool has_others = std::any_of(cycle.steps.begin(), cycle.steps.end(),
                                      [](const model::Step& s) { return !HoldsTracerStart(s); });
  // Threads may step side by side: then the time of such a step is others' too.
  if (!has_others || left_out.CoveredNs(cycle.window_begin_ns, cycle.window_end_ns) >= window) {
    return {};
  }
  return left_out;
}

model::TimeNs KnownFrom(const DeviceWork& work) {
  int32_t first_step = model::kNoStep;
  bool has_any = false;
  std::set<uint32_t> lanes;
  model::TimeNs from = 0;
  work.ForEach([&](const WorkItem& item) {
    if (!has_any) first_step = item.step, has_any = true;
    // Without steps the first work alone says where the cycle's own begins.
    if (item.step != first_step || (first_step < 0 && !lanes.empty())) return;
    if (lanes.insert(item.lane).second) from = item.begin_ns;
  });
  return from;
}

}  // namespace stepagent::analysis
