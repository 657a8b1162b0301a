#include "collector/analysis/tables.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "collector/analysis/cost.h"
#include "collector/analysis/per_step.h"
#include "collector/writers/json_parts.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"

namespace stepagent::analysis {
namespace {

using model::Activity;
using writers::ValidUtf8;

struct Total {
  uint64_t count = 0;
  int64_t total_ns = 0, min_ns = std::numeric_limits<int64_t>::max(), max_ns = 0;
  void Add(int64_t ns) {
    ++count;
    total_ns += ns;
    min_ns = std::min(min_ns, ns), max_ns = std::max(max_ns, ns);
  }
  void Put(Json& row) const {
    row["count"] = count;
    row["total_ns"] = total_ns;
    row["mean_ns"] =
        count == 0 ? 0 : (total_ns + static_cast<int64_t>(count) / 2) / static_cast<int64_t>(count);
    row["min_ns"] = count == 0 ? 0 : min_ns;
    row["max_ns"] = max_ns;
  }
};

int64_t Length(model::TimeNs begin, model::TimeNs end) { return end > begin ? end - begin : 0; }

// By total, largest first; ties by name, so that the same cycle gives the same bytes.
Json SortedByTotal(std::vector<Json> rows, const char* name_key = "name") {
  std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
    const auto ta = a.at("total_ns").get<int64_t>(), tb = b.at("total_ns").get<int64_t>();
    if (ta != tb) return ta > tb;
    return a.at(name_key).get_ref<const std::string&>() <
           b.at(name_key).get_ref<const std::string&>();
  });
  Json out = Json::array();
  for (Json& row : rows) out.push_back(std::move(row));
  return out;
}

}  // namespace

Json KernelTable(const model::Cycle& cycle, const DeviceWork& work) {
  struct Entry {
    Total total;
    std::map<int32_t, RunningUnion> busy;  // by device
    PerStep per_step;
  };
  std::map<std::string_view, Entry> entries;
  std::vector<Entry*> by_shape(cycle.shapes.size(), nullptr);
  work.ForEach([&](const WorkItem& item) {
    if (item.cls != WorkClass::kCompute && item.cls != WorkClass::kCollective) return;
    const uint32_t shape = cycle.kernels[item.index].shape;
    if (shape >= by_shape.size()) return;
    if (by_shape[shape] == nullptr) {
      const model::Shape& s = cycle.shapes[shape];
      by_shape[shape] = &entries[cycle.Text(s.demangled != 0 ? s.demangled : s.name)];
    }
    by_shape[shape]->total.Add(item.end_ns - item.begin_ns);
    by_shape[shape]->busy[item.device].Add(item.begin_ns, item.end_ns);
    by_shape[shape]->per_step.Add(item.step, item.end_ns - item.begin_ns);
  });
  const int64_t all_busy = work.BusyNs();
  const std::vector<size_t> whole = WholeSteps(cycle);
  std::vector<Json> rows;
  for (const auto& [name, entry] : entries) {
    Json row = {{"name", ValidUtf8(name)}};
    entry.total.Put(row);
    int64_t busy = 0;
    for (const auto& [device, device_busy] : entry.busy) busy += device_busy.total_ns();
    row["share_of_busy"] = all_busy == 0 ? Json(nullptr) : Json(double(busy) / double(all_busy));
    row["collective"] = IsCollectiveName(name);
    row["per_step"] = entry.per_step.Row(whole);
    rows.push_back(std::move(row));
  }
  return SortedByTotal(std::move(rows));
}

Json CallTable(const model::Cycle& cycle) {
  struct Entry {
    Total total;
    PerStep per_step;
  };
  std::map<std::pair<std::string_view, uint8_t>, Entry> entries;
  for (const model::Call& call : cycle.calls) {
    Entry& entry = entries[{writers::WithoutVersionSuffix(cycle.Text(call.name)), call.domain}];
    entry.total.Add(Length(call.begin_ns, call.end_ns));
    entry.per_step.Add(call.step, Length(call.begin_ns, call.end_ns));
  }
  const std::vector<size_t> whole = WholeSteps(cycle);
  std::vector<Json> rows;
  for (const auto& [key, entry] : entries) {
    Json row = {{"name", ValidUtf8(key.first)}, {"domain", key.second == 1 ? "driver" : "runtime"}};
    entry.total.Put(row);
    row["per_step"] = entry.per_step.Row(whole);
    rows.push_back(std::move(row));
  }
  return SortedByTotal(std::move(rows));
}

Json CopyTable(const model::Cycle& cycle) {
  struct Entry {
    Total total;
    uint64_t bytes = 0;
    bool has_bytes = true;  // of every one
    PerStep per_step;
  };
  const std::vector<size_t> whole = WholeSteps(cycle);
  std::map<std::tuple<uint8_t, uint8_t, uint8_t>, Entry> entries;
  for (const model::Copy& copy : cycle.copies) {
    if (!copy.placed) continue;
    Entry& entry = entries[{copy.copy_kind, copy.source_kind, copy.target_kind}];
    entry.total.Add(Length(copy.begin_ns, copy.end_ns));
    entry.bytes += copy.bytes;
    entry.has_bytes = entry.has_bytes && copy.has_bytes;
    entry.per_step.Add(copy.step, Length(copy.begin_ns, copy.end_ns));
  }
  std::vector<Json> rows;
  for (const auto& [key, entry] : entries) {
    rows.push_back({{"direction", writers::CopyKindName(std::get<0>(key))},
                    {"source", writers::MemoryKindName(std::get<1>(key))},
                    {"target", writers::MemoryKindName(std::get<2>(key))},
                    {"count", entry.total.count},
                    {"bytes", entry.has_bytes ? Json(entry.bytes) : Json(nullptr)},
                    {"total_ns", entry.total.total_ns},
                    {"per_step", entry.per_step.Row(whole)}});
  }
  return SortedByTotal(std::move(rows), "direction");
}

Json SetTable(const model::Cycle& cycle) {
  struct Entry {
    Total total;
    uint64_t bytes = 0;
    bool has_bytes = true;  // of every one
  };
  std::map<uint8_t, Entry> entries;
  for (const model::Set& set : cycle.sets) {
    if (!set.placed) continue;
    Entry& entry = entries[set.memory_kind];
    entry.total.Add(Length(set.begin_ns, set.end_ns));
    entry.bytes += set.bytes;
    entry.has_bytes = entry.has_bytes && set.has_bytes;
  }
  std::vector<Json> rows;
  for (const auto& [kind, entry] : entries) {
    rows.push_back({{"memory", writers::MemoryKindName(kind)},
                    {"count", entry.total.count},
                    {"bytes", entry.has_bytes ? Json(entry.bytes) : Json(nullptr)},
                    {"total_ns", entry.total.total_ns}});
  }
  return SortedByTotal(std::move(rows), "memory");
}

Json WaitTable(const model::Cycle& cycle) {
  std::map<std::string_view, Total> totals;
  for (const model::Call& call : cycle.calls) {
    if (call.cls != model::CallClass::kSync) continue;
    totals[writers::WithoutVersionSuffix(cycle.Text(call.name))].Add(
        Length(call.begin_ns, call.end_ns));
  }
  std::vector<Json> rows;
  for (const auto& [name, total] : totals) {
    rows.push_back(
        {{"name", ValidUtf8(name)}, {"count", total.count}, {"total_ns", total.total_ns}});
  }
  return SortedByTotal(std::move(rows));
}

Json StreamTable(const model::Cycle& cycle, const DeviceWork& work) {
  struct Entry {
    uint64_t kernels = 0, copies = 0, sets = 0, graphs = 0;
    RunningUnion busy;
  };
  std::vector<Entry> entries(cycle.lanes.size());
  work.ForEach([&](const WorkItem& item) {
    Entry& entry = entries[item.lane];
    switch (item.cls) {
      case WorkClass::kCopy:
        ++entry.copies;
        break;
      case WorkClass::kSet:
        ++entry.sets;
        break;
      case WorkClass::kGraph:
        ++entry.graphs;
        break;
      default:
        ++entry.kernels;
        break;
    }
    entry.busy.Add(item.begin_ns, item.end_ns);
  });
  std::vector<Json> rows;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    if (e.kernels + e.copies + e.sets + e.graphs == 0) continue;
    const model::Lane& lane = cycle.lanes[i];
    rows.push_back({{"name", "GPU " + std::to_string(lane.device) + " stream " +
                                 std::to_string(lane.stream_index)},
                    {"device", lane.device},
                    {"context", lane.has_context ? Json(lane.context) : Json(nullptr)},
                    {"stream", lane.stream_index},
                    {"count", e.kernels + e.copies + e.sets + e.graphs},
                    {"kernels", e.kernels},
                    {"copies", e.copies},
                    {"sets", e.sets},
                    {"graph_launches", e.graphs},
                    {"total_ns", e.busy.total_ns()}});
  }
  return SortedByTotal(std::move(rows));
}

Json ThreadTable(const model::Cycle& cycle) {
  struct Entry {
    std::string name;
    uint64_t calls = 0, ranges = 0;
    int64_t launch_ns = 0, wait_ns = 0;
  };
  std::map<uint32_t, Entry> entries;  // by tid
  const auto entry_of = [&](uint32_t thread) -> Entry& {
    const bool known = thread < cycle.threads.size();
    Entry& entry = entries[known ? cycle.threads[thread].tid : 0];
    if (known) entry.name = cycle.threads[thread].name;
    return entry;
  };
  for (const model::Call& call : cycle.calls) {
    Entry& entry = entry_of(call.thread);
    ++entry.calls;
    (call.cls == model::CallClass::kSync ? entry.wait_ns : entry.launch_ns) +=
        Length(call.begin_ns, call.end_ns);
  }
  for (const model::Range& range : cycle.ranges) ++entry_of(range.thread).ranges;
  const bool has_calls = Collected(cycle, Activity::kLaunch) || Collected(cycle, Activity::kSync);
  const auto figure = [&](int64_t value) { return has_calls ? Json(value) : Json(nullptr); };
  std::vector<Json> rows;
  for (const auto& [tid, e] : entries) {
    rows.push_back({{"name", ValidUtf8(e.name)},
                    {"tid", tid},
                    {"count", e.calls},
                    {"ranges", e.ranges},
                    {"launch_ns", figure(e.launch_ns)},
                    {"wait_ns", figure(e.wait_ns)},
                    {"total_ns", e.launch_ns + e.wait_ns}});
  }
  return SortedByTotal(std::move(rows));
}

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
    const int64_t wall = Length(step.begin_ns, step.end_ns);
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
         {"complete", writers::StepFlag(cycle, step.complete)},
         {"ended", writers::StepFlag(cycle, step.ended)},
         {"contains_tracer_start", writers::StepFlag(cycle, step.contains_tracer_start)},
         {"partial", writers::StepFlag(cycle, step.partial)}});
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
