// The table of steps: host time, and the device time of the work each launched.
#include <algorithm>
#include <optional>

#include "collector/analysis/cost.h"
#include "collector/analysis/tables.h"

namespace stepagent::analysis {

using model::Activity;

namespace {

// Per step: time in its collectives with no compute on their device, added over the devices.
std::vector<int64_t> ExposedCollectives(const model::Cycle& cycle, const DeviceWork& work) {
  std::map<std::pair<size_t, int32_t>, IntervalUnion> collectives;  // by step and device
  work.ForEach([&](const WorkItem& item) {
    const auto step = static_cast<size_t>(item.step);
    if (item.cls != WorkClass::kCollective || item.step < 0 || step >= cycle.steps.size()) return;
    collectives[{step, item.device}].Add(item.begin_ns, item.end_ns);
  });
  std::vector<int64_t> exposed(cycle.steps.size(), 0);
  for (const auto& [place, times] : collectives) {
    for (const DeviceTime& device : work.devices()) {
      if (device.ordinal != place.second) continue;
      for (const Interval& part : times.parts()) {
        exposed[place.first] +=
            part.end_ns - part.begin_ns - device.compute.CoveredNs(part.begin_ns, part.end_ns);
      }
    }
  }
  return exposed;
}

}  // namespace

Json StepTable(const model::Cycle& cycle, const DeviceWork& work) {
  const std::vector<int64_t> exposed = ExposedCollectives(cycle, work);
  std::vector<RunningUnion> busy(cycle.steps.size());
  work.ForEach([&](const WorkItem& item) {
    if (item.step < 0 || static_cast<size_t>(item.step) >= busy.size()) return;
    busy[static_cast<size_t>(item.step)].Add(item.begin_ns, item.end_ns);
  });
  const bool has_launches = Collected(cycle, Activity::kLaunch);
  const bool has_kernels = Collected(cycle, Activity::kKernel);
  const bool has_busy = WhyNotAllKinds(cycle).empty();
  const bool is_missing = !WhyWorkIsMissing(cycle).empty();
  const auto count = [](const std::optional<uint64_t>& v) { return v ? Json(*v) : Json(nullptr); };
  std::vector<int64_t> counted;
  Json each = Json::array();
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    const model::Step& step = cycle.steps[i];
    const int64_t wall = std::max<int64_t>(0, step.end_ns - step.begin_ns);
    if (step.complete && !step.contains_tracer_start) counted.push_back(wall);
    // Of a step whose work was recorded in part there is no telling how long it ran.
    const bool is_whole = !step.partial && (step.complete || !is_missing);
    each.push_back(
        {{"index", step.index},
         {"process_index", step.process_index},
         {"begin_ns", step.begin_ns},
         {"wall_ns", wall},
         {"device_ns", has_busy && is_whole ? Json(busy[i].total_ns()) : Json(nullptr)},
         {"exposed_collective_ns", has_kernels && is_whole ? Json(exposed[i]) : Json(nullptr)},
         {"launches", has_launches && !step.partial ? Json(step.launches) : Json(nullptr)},
         {"kernels", count(step.kernels)},
         {"copies", count(step.copies)},
         {"complete", step.complete},
         {"contains_tracer_start", step.contains_tracer_start},
         {"partial", step.partial}});
  }
  const Json d = Distribution(std::move(counted));
  return {{"count", cycle.steps.size()},
          {"counted", d.at("steps")},
          {"median_ns", d.at("median_ns")},
          {"min_ns", d.at("min_ns")},
          {"max_ns", d.at("max_ns")},
          {"p90_ns", d.at("p90_ns")},
          {"each", each}};
}

}  // namespace stepagent::analysis
