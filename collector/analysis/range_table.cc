// The table of ranges: host time, what of it went into launching and waiting; of the work launched
// inside, the time in which it ran and the time from its begin to its end.
#include <algorithm>
#include <limits>

#include "collector/analysis/tables.h"
#include "collector/writers/json_text.h"

namespace stepagent::analysis {
namespace {

struct Entry {
  uint64_t count = 0, cut = 0;
  int64_t total_ns = 0, self_ns = 0, launch_ns = 0, wait_ns = 0, projected_ns = 0;
  uint64_t calls = 0;
  uint64_t level = UINT64_MAX;  // ranges of its thread around it, the fewest of any
  RunningUnion device;
};
using Key = std::pair<std::string_view, std::string_view>;  // name, domain

int64_t Length(model::TimeNs begin, model::TimeNs end) { return end > begin ? end - begin : 0; }

// Where a range stands among those of its thread, whatever their domains.
struct Place {
  int64_t self_ns = 0;  // that none of its direct children covers
  uint64_t level = 0;   // ranges around it; 0: outermost
};

// Start/end ranges have no place on the thread's stack: they neither own nor are children.
std::vector<Place> PlacesOf(const model::Cycle& cycle) {
  std::vector<Place> places(cycle.ranges.size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < cycle.ranges.size(); ++i) {
    places[i].self_ns = Length(cycle.ranges[i].begin_ns, cycle.ranges[i].end_ns);
    if (!cycle.ranges[i].is_start_end) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const model::Range &ra = cycle.ranges[a], &rb = cycle.ranges[b];
    if (ra.thread != rb.thread) return ra.thread < rb.thread;
    if (ra.begin_ns != rb.begin_ns) return ra.begin_ns < rb.begin_ns;
    return ra.end_ns > rb.end_ns;
  });
  std::vector<uint32_t> stack;
  for (const uint32_t i : order) {
    const model::Range& range = cycle.ranges[i];
    while (!stack.empty() && (cycle.ranges[stack.back()].thread != range.thread ||
                              cycle.ranges[stack.back()].end_ns <= range.begin_ns)) {
      stack.pop_back();
    }
    if (!stack.empty()) {
      const model::TimeNs end = std::min(range.end_ns, cycle.ranges[stack.back()].end_ns);
      places[stack.back()].self_ns -= Length(range.begin_ns, end);
    }
    places[i].level = stack.size();
    stack.push_back(i);
  }
  return places;
}

class RangeEntries {
 public:
  explicit RangeEntries(const model::Cycle& cycle) : cycle_(cycle), of_range_(cycle.ranges.size()) {
    const std::vector<Place> places = PlacesOf(cycle);
    for (size_t i = 0; i < cycle.ranges.size(); ++i) {
      const model::Range& range = cycle.ranges[i];
      Entry& entry = entries_[{cycle.Text(range.name), cycle.Text(range.domain)}];
      of_range_[i] = &entry;
      ++entry.count;
      entry.cut += range.cut_at_begin || range.cut_at_end;
      entry.total_ns += Length(range.begin_ns, range.end_ns);
      entry.self_ns += places[i].self_ns;
      entry.level = std::min(entry.level, places[i].level);
    }
  }

  void AddCalls(const RangeWork& ranges) {
    for (size_t i = 0; i < cycle_.calls.size(); ++i) {
      const model::Call& call = cycle_.calls[i];
      for (const uint32_t r : ranges.RangesOf(static_cast<int32_t>(i))) {
        const int64_t inside =
            Length(call.begin_ns, std::min(call.end_ns, cycle_.ranges[r].end_ns));
        Entry& entry = *of_range_[r];
        ++entry.calls;
        (call.cls == model::CallClass::kSync ? entry.wait_ns : entry.launch_ns) += inside;
      }
    }
  }

  // A union per name: instances whose work overlaps, and recursion, count once.
  void AddDeviceTime(const DeviceWork& work, const RangeWork& ranges) {
    std::vector<Interval> extents(cycle_.ranges.size());  // of what each launched; empty: nothing
    work.ForEach([&](const WorkItem& item) {
      for (const uint32_t r : ranges.RangesOf(item.call)) {
        of_range_[r]->device.Add(item.begin_ns, item.end_ns);
        Interval& extent = extents[r];
        if (extent.end_ns == extent.begin_ns) extent = {item.begin_ns, item.end_ns};
        extent.end_ns = std::max(extent.end_ns, item.end_ns);  // begins come in order
      }
    });
    std::map<Entry*, std::vector<Interval>> of_entry;
    for (size_t i = 0; i < extents.size(); ++i) of_entry[of_range_[i]].push_back(extents[i]);
    for (auto& [entry, members] : of_entry) {
      entry->projected_ns = MakeUnion(std::move(members)).TotalNs();
    }
  }

  [[nodiscard]] const std::map<Key, Entry>& entries() const { return entries_; }

 private:
  const model::Cycle& cycle_;
  std::map<Key, Entry> entries_;
  std::vector<Entry*> of_range_;
};

}  // namespace

Json RangeTable(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges) {
  RangeEntries all(cycle);
  all.AddCalls(ranges);
  all.AddDeviceTime(work, ranges);
  const bool has_calls = Collected(cycle, model::Activity::kLaunch);
  const auto host = [&](int64_t v) { return has_calls ? Json(v) : Json(nullptr); };
  // Of a part of the kinds of work there is no sum to speak of.
  const bool has_device = WhyNotAllKinds(cycle).empty();
  const auto device = [&](int64_t v) { return has_device ? host(v) : Json(nullptr); };
  std::vector<Json> rows;
  for (const auto& [key, e] : all.entries()) {
    rows.push_back({{"name", writers::ValidUtf8(key.first)},
                    {"domain", writers::ValidUtf8(key.second)},
                    {"count", e.count},
                    {"total_ns", e.total_ns},
                    {"self_ns", e.self_ns},
                    {"launch_ns", host(e.launch_ns)},
                    {"wait_ns", host(e.wait_ns)},
                    {"other_ns", host(e.total_ns - e.launch_ns - e.wait_ns)},
                    {"device_ns", device(e.device.total_ns())},
                    {"projected_ns", device(e.projected_ns)},
                    {"calls", host(static_cast<int64_t>(e.calls))},
                    {"cut", e.cut},
                    {"level", e.level}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a.at("total_ns").get<int64_t>() > b.at("total_ns").get<int64_t>();
  });
  Json out = Json::array();
  for (Json& row : rows) out.push_back(std::move(row));
  return out;
}

}  // namespace stepagent::analysis
