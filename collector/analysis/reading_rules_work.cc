// Rules about device work itself: copies, and kernels on several streams.
#include <algorithm>
#include <set>
#include <tuple>

#include "collector/analysis/reading_rules.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {

std::optional<Reading> PageableCopies(const ReadingContext& c) {
  constexpr uint8_t kPageable = 1;
  RunningUnion device;
  uint64_t bytes = 0, count = 0;
  bool has_bytes = true;  // of every one
  std::vector<Interval> device_times;
  std::map<uint32_t, std::vector<Interval>> call_times;  // by thread
  const model::Copy* longest = nullptr;
  for (const model::Copy& copy : c.cycle.copies) {
    if (!copy.placed || IsLeftOut(c, copy.step)) continue;
    if (copy.source_kind != kPageable && copy.target_kind != kPageable) continue;
    device.Add(copy.begin_ns, copy.end_ns);
    device_times.push_back({copy.begin_ns, copy.end_ns});
    bytes += copy.bytes, ++count;
    has_bytes = has_bytes && copy.has_bytes;
    if (longest == nullptr || copy.bytes > longest->bytes) longest = &copy;
    if (copy.call < 0 || static_cast<size_t>(copy.call) >= c.cycle.calls.size()) continue;
    const model::Call& call = c.cycle.calls[static_cast<size_t>(copy.call)];
    call_times[call.thread].push_back({call.begin_ns, call.end_ns});
  }
  const HostTime calls = HostTimeOf(c, call_times);
  const int64_t most_ns = std::max(ElapsedNs(c, std::move(device_times)), calls.elapsed_ns);
  const double share = double(most_ns) / double(c.window_ns);
  if (longest == nullptr || share < At(kPageableShare)) return std::nullopt;
  Reading r{share, "pageable_copies", {}, {}, {}, {}};
  r.observation =
      fmt::format("{} copies from or to pageable host memory; they, or their calls, take {}.",
                  Count(count), OfWindow(c, share));
  const std::string rate =
      device.total_ns() == 0 || !has_bytes
          ? ""
          : fmt::format(" ({:.2f} GB/s)", double(bytes) / double(device.total_ns()));
  r.evidence = {{"text", fmt::format("{} in {} on the device{}, {} in their calls on the host{}",
                                     has_bytes ? Bytes(bytes) : "sizes that are not in the file",
                                     Duration(device.total_ns()), rate, Duration(calls.elapsed_ns),
                                     AddedOverThreads(calls))},
                {"count", count},
                {"bytes", has_bytes ? Json(bytes) : Json(nullptr)},
                {"device_ns", device.total_ns()},
                {"call_ns", calls.elapsed_ns},
                {"where", Where(c, longest->step, longest->begin_ns, longest->end_ns,
                                LaneRow(c, longest->lane))}};
  r.hypothesis =
      "Such copies are staged by the driver and hold the caller; page-locked memory would let them "
      "run beside "
      "other work. If nothing else waits for them, nothing is lost.";
  r.next_check = fmt::format(
      "Allocate the host side of the largest of these copies page-locked and compare its bandwidth "
      "and the {}.",
      WithSteps(c, "step", "window"));
  return r;
}

namespace {

// What two copies of one thing have in common, as far as it is recorded: their addresses are not.
using CopyKey = std::tuple<uint8_t, uint8_t, uint8_t, uint64_t>;  // direction, kinds, bytes

struct SameCopies {
  uint64_t count = 0;
  std::set<int32_t> steps;
  IntervalUnion device;
  const model::Copy* longest = nullptr;
};

// Copies to a device within whole steps, by what they share. What goes back to the host is read
// there: it differs each time.
std::map<CopyKey, SameCopies> CopiesByKey(const ReadingContext& c,
                                          const std::vector<bool>& is_whole) {
  constexpr uint8_t kHtoD = 1;
  std::map<CopyKey, SameCopies> out;
  for (const model::Copy& copy : c.cycle.copies) {
    if (!copy.placed || copy.bytes == 0 || copy.copy_kind != kHtoD) continue;
    if (copy.step < 0 || !is_whole[static_cast<size_t>(copy.step)]) continue;
    SameCopies& same = out[{copy.copy_kind, copy.source_kind, copy.target_kind, copy.bytes}];
    ++same.count, same.steps.insert(copy.step);
    same.device.Add(copy.begin_ns, copy.end_ns);
    if (same.longest == nullptr ||
        copy.end_ns - copy.begin_ns > same.longest->end_ns - same.longest->begin_ns) {
      same.longest = &copy;
    }
  }
  return out;
}

IntervalUnion ComputeOfAll(const ReadingContext& c) {
  IntervalUnion out;
  c.work.ForEach([&](const WorkItem& item) {
    if (item.cls != WorkClass::kCopy && item.cls != WorkClass::kSet) {
      out.Add(item.begin_ns, item.end_ns);
    }
  });
  return out;
}

// The range the copy's call was in, innermost.
std::string RangeOf(const ReadingContext& c, const model::Copy& copy) {
  const auto ranges = c.ranges.RangesOf(copy.call);
  return ranges.empty() ? "" : Fit(c.cycle.Text(c.cycle.ranges[ranges.back()].name), 40);
}

}  // namespace

std::optional<Reading> SameCopyEachStep(const ReadingContext& c) {
  const std::vector<size_t> whole = WholeSteps(c.cycle);
  if (whole.size() < 2) return std::nullopt;
  std::vector<bool> is_whole(c.cycle.steps.size());
  for (const size_t step : whole) is_whole[step] = true;
  const IntervalUnion compute = ComputeOfAll(c);
  const std::map<CopyKey, SameCopies> copies = CopiesByKey(c, is_whole);
  const SameCopies* most = nullptr;
  int64_t most_ns = 0;
  for (const auto& [key, same] : copies) {
    const int64_t alone = same.device.TotalNs() - IntersectionNs(same.device, compute);
    if (same.steps.size() == whole.size() && alone > most_ns) most = &same, most_ns = alone;
  }
  if (most == nullptr) return std::nullopt;
  const int64_t in_window_ns = ElapsedNs(c, Without(most->device, compute).parts());
  const double share = double(in_window_ns) / double(c.window_ns);
  if (share < At(kSameCopyShare)) return std::nullopt;
  const model::Copy& longest = *most->longest;
  const std::string range = RangeOf(c, longest);
  Reading r{share, "same_copy_each_step", {}, {}, {}, {}};
  r.observation = fmt::format(
      "Each step makes copies of the same size, {}, to the device with nothing computed meanwhile, "
      "for {}.",
      Bytes(longest.bytes), OfWindow(c, share));
  r.evidence = {
      {"text",
       fmt::format("{} copies of the same size, {} bytes, from {} memory in {} steps{}; {} on the "
                   "device, {} of it beside no kernel",
                   Count(most->count), Count(longest.bytes),
                   writers::MemoryKindName(longest.source_kind), whole.size(),
                   range.empty() ? "" : ", in `" + range + "`", Duration(most->device.TotalNs()),
                   Duration(most_ns))},
      {"bytes", longest.bytes},
      {"count", most->count},
      {"steps", whole.size()},
      {"alone_ns", most_ns},
      {"range", range},
      {"where",
       Where(c, longest.step, longest.begin_ns, longest.end_ns, LaneRow(c, longest.lane))}};
  r.hypothesis =
      "It may be the same data again: something constant that could stay on the device. New data "
      "of "
      "one size, as a batch is, looks the same: addresses and contents are not recorded.";
  r.next_check =
      "Compare a checksum of this buffer in two steps, or keep it on the device for one window: if "
      "results change, it was new data, and copying it a step ahead is the thing to try.";
  return r;
}

namespace {

struct StreamUse {
  IntervalUnion kernels;
  const model::Kernel* longest = nullptr;
};

// Kernels by stream of one device, those of graphs left out: their streams are the driver's choice.
std::map<uint32_t, StreamUse> KernelsByLane(const ReadingContext& c, int32_t device) {
  std::map<uint32_t, StreamUse> out;
  c.work.ForEach([&](const WorkItem& item) {
    const bool is_kernel = item.cls == WorkClass::kCompute || item.cls == WorkClass::kCollective;
    if (!is_kernel || item.device != device) return;
    const model::Kernel& kernel = c.cycle.kernels[item.index];
    if (kernel.graph_id != 0) return;
    StreamUse& use = out[item.lane];
    use.kernels.Add(item.begin_ns, item.end_ns);
    if (use.longest == nullptr ||
        item.end_ns - item.begin_ns > use.longest->end_ns - use.longest->begin_ns) {
      use.longest = &kernel;
    }
  });
  return out;
}

struct Overlap {
  size_t streams = 0;
  int64_t total_ns = 0, both_ns = 0, aside_ns = 0;  // added over streams; aside: but the busiest
  std::vector<Interval> aside;
  const model::Kernel* longest = nullptr;  // of the busiest stream but one
};

Overlap MeasureOverlap(const ReadingContext& c, int32_t device) {
  Overlap out;
  std::map<uint32_t, StreamUse> lanes = KernelsByLane(c, device);
  int64_t all = 0;
  for (const auto& [lane, use] : lanes) all += use.kernels.TotalNs();
  std::erase_if(lanes, [&](const auto& entry) {
    return double(entry.second.kernels.TotalNs()) < At(kStreamShare) * double(all);
  });
  std::vector<Interval> members;
  std::vector<const StreamUse*> by_time;
  for (const auto& [lane, use] : lanes) {
    by_time.push_back(&use);
    out.total_ns += use.kernels.TotalNs();
    members.insert(members.end(), use.kernels.parts().begin(), use.kernels.parts().end());
  }
  if (by_time.size() < 2) return out;
  std::stable_sort(by_time.begin(), by_time.end(), [](const StreamUse* a, const StreamUse* b) {
    return a->kernels.TotalNs() > b->kernels.TotalNs();
  });
  const int64_t most = by_time[0]->kernels.TotalNs();
  out.longest = by_time[1]->longest;
  for (size_t i = 1; i < by_time.size(); ++i) {
    const std::vector<Interval>& parts = by_time[i]->kernels.parts();
    out.aside.insert(out.aside.end(), parts.begin(), parts.end());
  }
  out.streams = lanes.size(), out.aside_ns = out.total_ns - most;
  out.both_ns = out.total_ns - MakeUnion(std::move(members)).TotalNs();
  return out;
}

}  // namespace

std::optional<Reading> StreamsWithoutOverlap(const ReadingContext& c) {
  for (const DeviceTime& device : c.work.devices()) {
    const Overlap o = MeasureOverlap(c, device.ordinal);
    if (o.streams < 2 || double(o.both_ns) >= At(kOverlapShare) * double(o.aside_ns)) continue;
    const double share = double(ElapsedNs(c, o.aside)) / double(c.window_ns);
    if (share < At(kOverlapShare)) continue;
    Reading r{share, "streams_without_overlap", {}, {}, {}, {}};
    r.observation = fmt::format(
        "Kernels run on {} streams of GPU {}, but {} of their {} are beside each other.", o.streams,
        device.ordinal, Duration(o.both_ns), Duration(o.total_ns));
    r.evidence = {{"text", fmt::format("{} of kernel time outside the busiest stream; {} of it "
                                       "overlaps with another stream's",
                                       Duration(o.aside_ns), Duration(o.both_ns))},
                  {"streams", o.streams},
                  {"kernel_ns", o.total_ns},
                  {"aside_ns", o.aside_ns},
                  {"overlap_ns", o.both_ns},
                  {"where", Where(c, o.longest->step, o.longest->begin_ns, o.longest->end_ns,
                                  LaneRow(c, o.longest->lane))}};
    r.hypothesis =
        "Events, the legacy default stream or their data order these streams one after the other; "
        "kernels that each fill the device do not run side by side either.";
    r.next_check =
        "Look at the waits on events between the two streams, and at the grid of the longer "
        "kernels: one that fills the device leaves no room beside it.";
    return r;
  }
  return std::nullopt;
}

}  // namespace stepagent::analysis
