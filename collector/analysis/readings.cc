#include "collector/analysis/readings.h"

#include <algorithm>
#include <array>

#include "collector/analysis/reading_rules.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;

constexpr std::array<Threshold, kThresholdCount> kTable = {{
    {"idle_in_range_share", 0.10, "of the window; below, step-to-step noise hides any change"},
    {"small_kernel_ns", 10e3, "a launch costs the host 3 to 10 us: shorter kernels cannot hide it"},
    {"kernels_per_step", 100, "fewer small launches cannot add up to a step"},
    {"launch_bound_busy_share", 0.70, "of the device span; above, the device is fed well enough"},
    {"dominant_kernel_share", 0.50, "of busy time: more than all other kernels together"},
    {"dominant_busy_share", 0.30, "of the window; below, the kernel is not what a step waits for"},
    {"drain_share", 0.05, "of the window idle between a wait's end and the next work"},
    {"drains_per_step", 2, "one wait a step is how most loops read their loss"},
    {"pageable_share", 0.02, "of the window in such copies, on the device or in their calls"},
    {"exposed_share", 0.10, "of the device span; below, hiding it would not be felt in the step"},
    {"idle_window_share", 0.30, "of the window; below, launch gaps and step borders explain it"},
}};

bool IsLaunching(const model::Call& call) {
  return call.cls != CallClass::kSync && call.cls != CallClass::kOther &&
         call.cls != CallClass::kAlloc;
}

ReadingContext Prepare(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
                       const Json& kernels) {
  ReadingContext c{cycle, work, ranges, kernels, cycle.window_end_ns - cycle.window_begin_ns,
                   {},    {},   {},     {}};
  work.ForEach([&](const WorkItem& item) { c.busy.Add(item.begin_ns, item.end_ns); });
  c.launches_in_range.resize(cycle.ranges.size());
  c.thread_launches.resize(cycle.threads.size());
  for (size_t i = 0; i < cycle.calls.size(); ++i) {
    if (!IsLaunching(cycle.calls[i])) continue;
    const uint32_t thread = cycle.calls[i].thread;
    if (thread < c.thread_launches.size()) c.thread_launches[thread] = true;
    for (const uint32_t r : ranges.RangesOf(static_cast<int32_t>(i))) ++c.launches_in_range[r];
  }
  std::vector<Interval> quiet;
  for (size_t i = 0; i < cycle.ranges.size(); ++i) {
    const model::Range& range = cycle.ranges[i];
    if (c.launches_in_range[i] > 0 || range.thread >= c.thread_launches.size()) continue;
    if (c.thread_launches[range.thread]) quiet.push_back({range.begin_ns, range.end_ns});
  }
  c.quiet_host = MakeUnion(std::move(quiet));
  return c;
}

}  // namespace

double At(ThresholdIndex index) { return kTable[index].value; }

std::span<const Threshold> Thresholds() { return kTable; }

Json Readings(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
              const Json& kernels) {
  Json out = Json::array();
  if (cycle.HostOnly() || cycle.window_end_ns <= cycle.window_begin_ns) return out;
  const ReadingContext context = Prepare(cycle, work, ranges, kernels);
  std::vector<Reading> found;
  for (const Rule rule :
       {IdleInRange, SmallLaunches, DominantKernel, Drains, PageableCopies, ExposedCollectives}) {
    if (std::optional<Reading> reading = rule(context)) found.push_back(std::move(*reading));
  }
  // One reading for one idle time: the general one speaks only where no particular one has.
  const bool explains_idle = std::any_of(found.begin(), found.end(), [](const Reading& r) {
    const std::string_view id = r.id;
    return id == "device_idle_in_range" || id == "many_small_launches" ||
           id == "waits_drain_the_queue";
  });
  if (!explains_idle) {
    if (std::optional<Reading> reading = IdleDevice(context)) found.push_back(std::move(*reading));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Reading& a, const Reading& b) { return a.share > b.share; });
  for (size_t i = 0; i < found.size(); ++i) {
    Reading& r = found[i];
    out.push_back({{"id", r.id},
                   {"rank", i + 1},
                   {"observation", std::move(r.observation)},
                   {"evidence", std::move(r.evidence)},
                   {"hypothesis", std::move(r.hypothesis)},
                   {"next_check", std::move(r.next_check)}});
  }
  return out;
}

}  // namespace stepagent::analysis
