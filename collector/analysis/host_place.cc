#include "collector/analysis/host_place.h"

namespace stepagent::analysis {
namespace {

template <typename Item>
std::vector<uint32_t> OfThread(const std::vector<Item>& items, uint32_t thread) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < items.size(); ++i) {
    if (items[i].thread == thread) out.push_back(i);
  }
  return out;
}

// Outer ones first.
std::vector<uint32_t> RangesOfThread(const model::Cycle& cycle, uint32_t thread) {
  std::vector<uint32_t> out = OfThread(cycle.ranges, thread);
  std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
    const model::Range &ra = cycle.ranges[a], &rb = cycle.ranges[b];
    if (ra.begin_ns != rb.begin_ns) return ra.begin_ns < rb.begin_ns;
    if (ra.end_ns != rb.end_ns) return ra.end_ns > rb.end_ns;
    return ra.depth < rb.depth;
  });
  return out;
}

}  // namespace

HostPlace::HostPlace(const model::Cycle& cycle, uint32_t thread)
    : ranges_(cycle.ranges, RangesOfThread(cycle, thread)),
      calls_(cycle.calls, OfThread(cycle.calls, thread)) {}

}  // namespace stepagent::analysis
