// The table of devices: when each had work, of which kinds, and what was launched outside of all.
#include "collector/analysis/tables.h"
#include "collector/writers/json_text.h"

namespace stepagent::analysis {

using model::Activity;
using writers::ValidUtf8;

namespace {

// Per device: time in which work ran that was launched in no step, and in no range.
struct Outside {
  RunningUnion steps, ranges;
};

std::map<int32_t, Outside> OutsideOf(const DeviceWork& work, const RangeWork& ranges) {
  std::map<int32_t, Outside> out;
  work.ForEach([&](const WorkItem& item) {
    if (item.step < 0) out[item.device].steps.Add(item.begin_ns, item.end_ns);
    if (ranges.RangesOf(item.call).empty()) out[item.device].ranges.Add(item.begin_ns, item.end_ns);
  });
  return out;
}

}  // namespace

// A figure that needs work which was not collected, or not all of it, is not zero: nobody knows it.
Json DeviceTable(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges) {
  const bool is_missing = !WhyWorkIsMissing(cycle).empty();
  const bool has_kernels = !is_missing && Collected(cycle, Activity::kKernel);
  const bool has_copies =
      !is_missing && Collected(cycle, Activity::kMemcpy) && Collected(cycle, Activity::kMemset);
  const auto known = [](bool is_known, int64_t ns) { return is_known ? Json(ns) : Json(nullptr); };
  const bool has_all = has_kernels && has_copies;
  // Whose work is, its launch tells.
  const bool has_launches = has_all && Collected(cycle, Activity::kLaunch);
  const bool has_steps = has_launches && !cycle.steps.empty();
  const bool has_ranges = has_launches && Collected(cycle, Activity::kNvtx);
  std::map<int32_t, Outside> outside = OutsideOf(work, ranges);
  Json out = Json::array();
  for (const DeviceTime& d : work.devices()) {
    Json uuid = nullptr, name = nullptr;
    for (const model::DeviceInfo& info : cycle.devices) {
      if (info.ordinal != d.ordinal) continue;
      if (!info.uuid.empty()) uuid = ValidUtf8(info.uuid);
      name = ValidUtf8(info.name);
    }
    out.push_back(
        {{"ordinal", d.ordinal},
         {"name", name},
         {"uuid", uuid},
         {"device_span",
          {{"begin_ns", d.span_begin_ns}, {"end_ns", d.span_end_ns}, {"dur_ns", d.SpanNs()}}},
         {"busy_ns", known(has_all, d.busy.TotalNs())},
         {"idle_ns", known(has_all, d.IdleNs())},
         {"compute_ns", known(has_kernels, d.compute.TotalNs())},
         {"copy_ns", known(has_copies, d.copy.TotalNs())},
         {"collective_ns", known(has_kernels, d.collective.TotalNs())},
         {"exposed_collective_ns", known(has_kernels, d.ExposedCollectiveNs())},
         {"overlap_ns", known(has_all, d.OverlapNs())},
         {"busy_in_window_ns",
          known(has_all, d.busy.CoveredNs(cycle.window_begin_ns, cycle.window_end_ns))},
         {"launched_outside_steps_ns", known(has_steps, outside[d.ordinal].steps.total_ns())},
         {"launched_outside_ranges_ns", known(has_ranges, outside[d.ordinal].ranges.total_ns())}});
    if (is_missing) out.back()["busy_at_least_ns"] = d.busy.TotalNs();
  }
  return out;
}

}  // namespace stepagent::analysis
