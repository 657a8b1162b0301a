#include "collector/analysis/readings.h"

#include <algorithm>
#include <array>
#include <optional>

#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;

enum ThresholdIndex : size_t {
  kIdleInRange,
  kSmallKernelNs,
  kKernelsPerStep,
  kLaunchBoundBusy,
  kDominant,
  kBusyWindow,
  kDrainShare,
  kDrainsPerStep,
  kPageableShare,
  kThresholdCount
};
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
}};

double At(ThresholdIndex index) { return kTable[index].value; }

struct Context {
  const model::Cycle& cycle;
  const DeviceWork& work;
  const RangeWork& ranges;
  const Json& kernels;
  int64_t window_ns = 0;
  IntervalUnion busy;                       // any device
  std::vector<uint32_t> launches_in_range;  // by range
  std::vector<bool> thread_launches;        // by thread
  IntervalUnion quiet_host;                 // launching threads inside ranges that launch nothing
};

struct Reading {
  double share = 0;  // of the window, for the ranking
  const char* id = "";
  std::string observation;
  Json evidence;
  std::string hypothesis, next_check;
};

bool IsLaunching(const model::Call& call) {
  return call.cls != CallClass::kSync && call.cls != CallClass::kOther &&
         call.cls != CallClass::kAlloc;
}

Context Prepare(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
                const Json& kernels) {
  Context c{cycle, work, ranges, kernels, cycle.window_end_ns - cycle.window_begin_ns,
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

std::string DeviceWord(const Context& c) {
  if (c.work.devices().size() == 1) return fmt::format("GPU {}", c.work.devices()[0].ordinal);
  return "any GPU";
}

std::string StepWord(const Context& c, int32_t step) {
  if (step < 0 || static_cast<size_t>(step) >= c.cycle.steps.size()) return "between steps";
  return fmt::format("step {}", c.cycle.steps[static_cast<size_t>(step)].index);
}

struct QuietRange {
  std::string_view name;
  int64_t idle_ns = 0, total_ns = 0, worst_ns = -1;
  uint64_t count = 0;
  model::TimeNs worst_at_ns = 0;
  int32_t worst_step = model::kNoStep;
};

std::map<std::string_view, QuietRange> QuietRanges(const Context& c) {
  std::map<std::string_view, QuietRange> out;
  for (size_t i = 0; i < c.cycle.ranges.size(); ++i) {
    const model::Range& range = c.cycle.ranges[i];
    if (c.launches_in_range[i] > 0 || range.end_ns <= range.begin_ns) continue;
    if (range.thread >= c.thread_launches.size() || !c.thread_launches[range.thread]) continue;
    QuietRange& q = out[c.cycle.Text(range.name)];
    const int64_t length = range.end_ns - range.begin_ns;
    const int64_t idle = length - c.busy.CoveredNs(range.begin_ns, range.end_ns);
    q.name = c.cycle.Text(range.name);
    q.idle_ns += idle, q.total_ns += length, ++q.count;
    if (idle > q.worst_ns) {
      q.worst_ns = idle, q.worst_at_ns = range.begin_ns, q.worst_step = range.step;
    }
  }
  return out;
}

std::optional<Reading> IdleInRange(const Context& c) {
  if (c.busy.parts().empty()) return std::nullopt;
  QuietRange best;
  for (const auto& [name, q] : QuietRanges(c)) {
    // Of nested ranges the inner one says more, if nearly all of the idle time is its own.
    const bool is_inner =
        q.total_ns < best.total_ns && double(q.idle_ns) >= 0.9 * double(best.idle_ns);
    if (q.idle_ns > best.idle_ns
            ? !(best.total_ns < q.total_ns && double(best.idle_ns) >= 0.9 * double(q.idle_ns))
            : is_inner) {
      best = q;
    }
  }
  const double share = double(best.idle_ns) / double(c.window_ns);
  if (share < At(kIdleInRange)) return std::nullopt;
  const std::string name = Fit(best.name, 60), device = DeviceWord(c);
  Reading r{share, "device_idle_in_range"};
  r.observation = fmt::format(
      "No work of this process on {} for {} of the window while the host is in `{}`, "
      "which launches nothing.",
      device, Percent(share), name);
  r.evidence = {
      {"text", fmt::format("{} of {} in {} ranges `{}` without device work; longest {} in {}",
                           Duration(best.idle_ns), Duration(best.total_ns), Count(best.count), name,
                           Duration(best.worst_ns), StepWord(c, best.worst_step))},
      {"range", writers::ValidUtf8(best.name)},
      {"idle_ns", best.idle_ns},
      {"window_ns", c.window_ns},
      {"longest_at_ns", best.worst_at_ns}};
  r.hypothesis = fmt::format(
      "The device waits for what `{}` prepares (an input pipeline, for instance). Storage, the "
      "interpreter lock, logging or a lock look like this too.",
      name);
  r.next_check = fmt::format(
      "Run one window with the result of `{}` kept from an earlier step: if the idle time "
      "stays, the cause is elsewhere.",
      name);
  return r;
}

std::optional<Reading> SmallLaunches(const Context& c) {
  std::vector<int64_t> lengths;
  for (const model::Kernel& kernel : c.cycle.kernels) {
    if (kernel.placed && kernel.graph_id == 0) lengths.push_back(kernel.end_ns - kernel.begin_ns);
  }
  const size_t steps = std::max<size_t>(c.cycle.steps.size(), 1);
  if (double(lengths.size()) < At(kKernelsPerStep) * double(steps)) return std::nullopt;
  std::nth_element(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2),
                   lengths.end());
  const int64_t median = lengths[lengths.size() / 2];
  int64_t span = 0, idle = 0, launch_ns = 0;
  for (const DeviceTime& d : c.work.devices()) span += d.SpanNs(), idle += d.IdleNs();
  if (double(median) >= At(kSmallKernelNs) ||
      double(span - idle) >= At(kLaunchBoundBusy) * double(span)) {
    return std::nullopt;
  }
  uint64_t launches = 0;
  for (const model::Call& call : c.cycle.calls) {
    if (call.cls != CallClass::kLaunch) continue;
    ++launches, launch_ns += call.end_ns - call.begin_ns;
  }
  Reading r{double(idle) / double(std::max<int64_t>(span, 1)), "many_small_launches"};
  r.observation =
      fmt::format("{} kernels a step with a median of {}, and the device idle for {} of its span.",
                  Count(lengths.size() / steps), Duration(median), Percent(r.share));
  r.evidence = {
      {"text",
       fmt::format("{} kernels in {} steps; {} launch calls of {} on average; device idle {} of {}",
                   Count(lengths.size()), steps, Count(launches),
                   Duration(launches == 0 ? 0 : launch_ns / static_cast<int64_t>(launches)),
                   Duration(idle), Duration(span))},
      {"kernels", lengths.size()},
      {"median_kernel_ns", median},
      {"launch_ns", launch_ns},
      {"idle_ns", idle}};
  r.hypothesis =
      "The host cannot launch as fast as the device finishes. Waits between the launches, or a "
      "tracer's own "
      "cost a launch (see cost), look like this too.";
  r.next_check =
      "Record the same steps from a CUDA graph, or with operations fused, and compare the step's "
      "median.";
  return r;
}

std::optional<Reading> DominantKernel(const Context& c) {
  if (!c.kernels.is_array() || c.kernels.size() < 3) return std::nullopt;
  const Json* top = &c.kernels[0];
  for (const Json& row : c.kernels) {
    if (row.at("share_of_busy").is_number() && row.at("share_of_busy") > top->at("share_of_busy"))
      top = &row;
  }
  if (!top->at("share_of_busy").is_number()) return std::nullopt;
  const double share = top->at("share_of_busy").get<double>();
  const double busy = double(c.busy.CoveredNs(c.cycle.window_begin_ns, c.cycle.window_end_ns)) /
                      double(c.window_ns);
  if (share < At(kDominant) || busy < At(kBusyWindow) || top->at("collective").get<bool>())
    return std::nullopt;
  const std::string name = Fit(top->at("name").get_ref<const std::string&>(), 60);
  Reading r{share * busy, "one_kernel_dominates"};
  r.observation = fmt::format("`{}` holds {} of the device's busy time.", name, Percent(share));
  r.evidence = {{"text", fmt::format("{} executions, {} in total, {} on average, {} the longest; "
                                     "device busy for {} of the window",
                                     Count(top->at("count").get<uint64_t>()),
                                     Duration(top->at("total_ns").get<int64_t>()),
                                     Duration(top->at("mean_ns").get<int64_t>()),
                                     Duration(top->at("max_ns").get<int64_t>()), Percent(busy))},
                {"kernel", top->at("name")},
                {"share_of_busy", share},
                {"total_ns", top->at("total_ns")}};
  r.hypothesis =
      "The step's time follows this kernel. It may be doing the step's real work at full speed, or "
      "wait inside "
      "for memory or for another device: its duration alone does not tell.";
  r.next_check =
      "Profile this kernel alone with a kernel profiler, or halve its input and see whether the "
      "step follows.";
  return r;
}

struct Drain {
  int64_t gap_ns = 0, wait_ns = 0, longest_ns = 0;
  uint64_t count = 0;
  model::TimeNs longest_at_ns = 0;
  int32_t longest_step = model::kNoStep;
  std::map<std::string_view, uint64_t> names;
};

// Waits after whose end the device has nothing to do until the next launch arrives.
Drain FindDrains(const Context& c) {
  Drain out;
  const std::vector<Interval>& busy = c.busy.parts();
  for (const model::Call& call : c.cycle.calls) {
    if (call.cls != CallClass::kSync || call.end_ns > c.cycle.window_end_ns) continue;
    const auto next = std::partition_point(
        busy.begin(), busy.end(), [&](const Interval& b) { return b.end_ns <= call.end_ns; });
    if (next == busy.begin() || (next - 1)->end_ns <= call.begin_ns)
      continue;                                                         // waited for nothing here
    if (next != busy.end() && next->begin_ns <= call.end_ns) continue;  // still busy
    const model::TimeNs until = next == busy.end()
                                    ? c.cycle.window_end_ns
                                    : std::min(next->begin_ns, c.cycle.window_end_ns);
    // Time in ranges that launch nothing is the other reading's.
    const int64_t gap = until - call.end_ns - c.quiet_host.CoveredNs(call.end_ns, until);
    if (gap <= 0) continue;
    ++out.count, out.gap_ns += gap, out.wait_ns += call.end_ns - call.begin_ns;
    ++out.names[writers::WithoutVersionSuffix(c.cycle.Text(call.name))];
    if (gap > out.longest_ns)
      out.longest_ns = gap, out.longest_at_ns = call.end_ns, out.longest_step = call.step;
  }
  return out;
}

std::optional<Reading> Drains(const Context& c) {
  const Drain d = FindDrains(c);
  const double steps = double(std::max<size_t>(c.cycle.steps.size(), 1));
  const double share = double(d.gap_ns) / double(c.window_ns);
  if (share < At(kDrainShare) || double(d.count) < At(kDrainsPerStep) * steps) return std::nullopt;
  const auto most =
      std::max_element(d.names.begin(), d.names.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string name = Fit(most->first, 40), device = DeviceWord(c);
  Reading r{share, "waits_drain_the_queue"};
  r.observation = fmt::format(
      "{:.1f} waits a step end with nothing queued on {}; it then idles for {} of the window.",
      double(d.count) / steps, device, Percent(share));
  r.evidence = {
      {"text",
       fmt::format("{} waits, most in {}; {} idle after them, the longest {} in {}", Count(d.count),
                   name, Duration(d.gap_ns), Duration(d.longest_ns), StepWord(c, d.longest_step))},
      {"call", writers::ValidUtf8(most->first)},
      {"waits", d.count},
      {"idle_ns", d.gap_ns},
      {"longest_at_ns", d.longest_at_ns}};
  r.hypothesis =
      "The waits keep the host from queueing work ahead. They may be needed (a value read back, a "
      "buffer "
      "reused), and slow host work after them looks the same.";
  r.next_check = fmt::format(
      "Find who calls {} inside the step (a value copied back, a print, a timer) and move one "
      "of them to the step's end.",
      name);
  return r;
}

std::optional<Reading> PageableCopies(const Context& c) {
  constexpr uint8_t kPageable = 1;
  RunningUnion device;
  uint64_t bytes = 0, count = 0;
  int64_t call_ns = 0;
  for (const model::Copy& copy : c.cycle.copies) {
    if (!copy.placed || (copy.source_kind != kPageable && copy.target_kind != kPageable)) continue;
    device.Add(copy.begin_ns, copy.end_ns);
    bytes += copy.bytes, ++count;
    if (copy.call < 0 || static_cast<size_t>(copy.call) >= c.cycle.calls.size()) continue;
    const model::Call& call = c.cycle.calls[static_cast<size_t>(copy.call)];
    call_ns += call.end_ns - call.begin_ns;
  }
  const double share = double(std::max(device.total_ns(), call_ns)) / double(c.window_ns);
  if (count == 0 || share < At(kPageableShare)) return std::nullopt;
  Reading r{share, "pageable_copies"};
  r.observation = fmt::format(
      "{} copies from or to pageable host memory; they, or their calls, take {} of the window.",
      Count(count), Percent(share));
  r.evidence = {
      {"text", fmt::format("{} in {} on the device ({:.2f} GB/s), {} in their calls on the host",
                           Bytes(bytes), Duration(device.total_ns()),
                           device.total_ns() == 0 ? 0.0 : double(bytes) / double(device.total_ns()),
                           Duration(call_ns))},
      {"count", count},
      {"bytes", bytes},
      {"device_ns", device.total_ns()},
      {"call_ns", call_ns}};
  r.hypothesis =
      "Such copies are staged by the driver and hold the caller; page-locked memory would let them "
      "run beside "
      "other work. If nothing else waits for them, nothing is lost.";
  r.next_check =
      "Allocate the host side of the largest of these copies page-locked and compare its bandwidth "
      "and the step.";
  return r;
}

}  // namespace

std::span<const Threshold> Thresholds() { return kTable; }

Json Readings(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
              const Json& kernels) {
  Json out = Json::array();
  if (cycle.HostOnly() || cycle.window_end_ns <= cycle.window_begin_ns) return out;
  const Context context = Prepare(cycle, work, ranges, kernels);
  std::vector<Reading> found;
  for (const auto rule : {IdleInRange, SmallLaunches, DominantKernel, Drains, PageableCopies}) {
    if (std::optional<Reading> reading = rule(context)) found.push_back(std::move(*reading));
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
