// What was collected of a cycle, and why a figure is not known.
#include "collector/analysis/tables.h"
#include "collector/writers/json_text.h"

namespace stepagent::analysis {

using model::Activity;
using writers::ValidUtf8;

namespace {

// The process ended before anything of the device's came: that is no device at rest.
bool NothingArrived(const model::Cycle& cycle) {
  return cycle.gpu.status == "partial" && cycle.gpu.reason_code == "not_reported" &&
         cycle.kernels.empty() && cycle.copies.empty() && cycle.sets.empty();
}

bool IsDeviceWork(Activity activity) {
  return activity == Activity::kKernel || activity == Activity::kMemcpy ||
         activity == Activity::kMemset;
}

}  // namespace

bool Collected(const model::Cycle& cycle, Activity activity) {
  const model::KindStatus& kind = cycle.kinds[static_cast<size_t>(activity)];
  if (activity == Activity::kNvtx) return kind.requested;
  if (IsDeviceWork(activity) && NothingArrived(cycle)) return false;
  return !cycle.HostOnly() && kind.requested && kind.enabled;
}

std::string WhyAbsent(const model::Cycle& cycle, Activity activity) {
  const model::KindStatus& kind = cycle.kinds[static_cast<size_t>(activity)];
  if (!kind.requested) {
    return cycle.is_from_trace ? "not in this file" : "not asked for (--activities)";
  }
  if (cycle.HostOnly() || (IsDeviceWork(activity) && NothingArrived(cycle))) {
    return cycle.gpu.reason.empty() ? std::string("host only") : ValidUtf8(cycle.gpu.reason);
  }
  return kind.error.empty() ? std::string("not enabled") : ValidUtf8(kind.error);
}

std::string WhyNotAllKinds(const model::Cycle& cycle) {
  for (const Activity activity : {Activity::kKernel, Activity::kMemcpy, Activity::kMemset}) {
    if (Collected(cycle, activity)) continue;
    return std::string(model::ActivityName(activity)) + ": " + WhyAbsent(cycle, activity);
  }
  return {};
}

std::string WhyWorkIsMissing(const model::Cycle& cycle) {
  if (cycle.is_from_trace || cycle.HostOnly()) return {};
  const uint64_t owed = cycle.joins.launches_without_device_work.value_or(0);
  if (owed > 0)
    return std::to_string(owed) + " kernel or graph " + (owed == 1 ? "launch" : "launches") +
           " without a device record";
  if (!cycle.gpu.WasCutShort()) return {};
  return cycle.gpu.reason.empty() ? "collection ended on the way" : ValidUtf8(cycle.gpu.reason);
}

std::string WhyNoBusyTime(const model::Cycle& cycle) {
  const std::string why = WhyNotAllKinds(cycle);
  return why.empty() ? WhyWorkIsMissing(cycle) : why;
}

}  // namespace stepagent::analysis
