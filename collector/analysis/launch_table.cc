// Launches against their device work: how long until it began, how much was queued before it.
#include <algorithm>

#include "collector/analysis/cost.h"
#include "collector/analysis/tables.h"

namespace stepagent::analysis {
namespace {

struct Change {  // of a stream's queue
  model::TimeNs at_ns = 0;
  int32_t by = 0;
};

// One row a stream: work counts from the begin of its call until its own begin.
Json QueueRow(const model::Lane& lane, std::vector<Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  int64_t length = 0, most = 0, sum = 0;
  for (const Change& change : changes) {
    length += change.by;
    most = std::max(most, length), sum += length;
  }
  return {{"name",
           "GPU " + std::to_string(lane.device) + " stream " + std::to_string(lane.stream_index)},
          {"device", lane.device},
          {"context", lane.has_context ? Json(lane.context) : Json(nullptr)},
          {"stream", lane.stream_index},
          {"changes", changes.size()},
          {"max", most},
          {"mean", static_cast<double>(sum) / static_cast<double>(changes.size())}};
}

}  // namespace

Json LaunchTable(const model::Cycle& cycle, const DeviceWork& work) {
  std::vector<std::vector<Change>> changes(cycle.lanes.size());
  std::vector<int64_t> delays;
  int64_t call_ns = 0, device_ns = 0, delay_ns = 0;
  work.ForEach([&](const WorkItem& item) {
    if (item.call < 0 || static_cast<size_t>(item.call) >= cycle.calls.size()) return;
    const model::Call& call = cycle.calls[static_cast<size_t>(item.call)];
    delays.push_back(std::max<int64_t>(0, item.begin_ns - call.end_ns));
    delay_ns += delays.back(), device_ns += item.end_ns - item.begin_ns;
    call_ns += std::max<int64_t>(0, call.end_ns - call.begin_ns);
    changes[item.lane].push_back({call.begin_ns, 1});
    changes[item.lane].push_back({item.begin_ns, -1});
  });
  Json queues = Json::array();
  for (size_t lane = 0; lane < changes.size(); ++lane) {
    if (!changes[lane].empty()) queues.push_back(QueueRow(cycle.lanes[lane], changes[lane]));
  }
  const size_t count = delays.size();
  Json d = Distribution(std::move(delays));
  return {{"count", count},
          {"call_ns", call_ns},
          {"device_ns", device_ns},
          {"delay",
           {{"total_ns", delay_ns},
            {"median_ns", d.at("median_ns")},
            {"min_ns", d.at("min_ns")},
            {"max_ns", d.at("max_ns")},
            {"p90_ns", d.at("p90_ns")}}},
          {"queues", std::move(queues)}};
}

}  // namespace stepagent::analysis
