// Each rule as one function; the thresholds and their reasons are in readings.cc.
#include "collector/analysis/reading_rules.h"

#include <algorithm>

#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;

std::string DeviceWord(const ReadingContext& c) {
  if (c.work.devices().size() == 1) return fmt::format("GPU {}", c.work.devices()[0].ordinal);
  return "any GPU";
}

std::string StepWord(const ReadingContext& c, int32_t step) {
  if (step < 0 || static_cast<size_t>(step) >= c.cycle.steps.size()) return "between steps";
  return fmt::format("step {}", c.cycle.steps[static_cast<size_t>(step)].index);
}

struct IdleRange {
  std::string_view name;
  int64_t idle_ns = 0, total_ns = 0, longest_ns = -1;
  uint64_t count = 0;
  model::TimeNs longest_at_ns = 0;
  int32_t longest_step = model::kNoStep;
};

// Per range name of launching threads: how long the device had nothing to do meanwhile.
std::map<std::string_view, IdleRange> IdleByRange(const ReadingContext& c, bool only_quiet) {
  std::map<std::string_view, IdleRange> out;
  for (size_t i = 0; i < c.cycle.ranges.size(); ++i) {
    const model::Range& range = c.cycle.ranges[i];
    if ((only_quiet && c.launches_in_range[i] > 0) || range.end_ns <= range.begin_ns) continue;
    if (range.thread >= c.thread_launches.size() || !c.thread_launches[range.thread]) continue;
    IdleRange& q = out[c.cycle.Text(range.name)];
    const int64_t length = range.end_ns - range.begin_ns;
    const int64_t idle = length - c.busy.CoveredNs(range.begin_ns, range.end_ns);
    q.name = c.cycle.Text(range.name);
    q.idle_ns += idle, q.total_ns += length, ++q.count;
    if (idle > q.longest_ns) {
      q.longest_ns = idle, q.longest_at_ns = range.begin_ns, q.longest_step = range.step;
    }
  }
  return out;
}

// The one with most idle time; of nested ranges the inner one, if nearly all of it is its own.
IdleRange MostIdle(const std::map<std::string_view, IdleRange>& ranges) {
  IdleRange most;
  for (const auto& [name, q] : ranges) {
    if (q.idle_ns > most.idle_ns) most = q;
  }
  IdleRange inner = most;
  for (const auto& [name, q] : ranges) {
    if (double(q.idle_ns) >= 0.9 * double(most.idle_ns) && q.total_ns < inner.total_ns) inner = q;
  }
  return inner;
}

Json IdleEvidence(const ReadingContext& c, const IdleRange& q) {
  const std::string name = Fit(q.name, 60);
  return {{"text",
           fmt::format("{} of {} in {} ranges `{}` without device work; longest {} in {}",
                       Duration(q.idle_ns), Duration(q.total_ns), Count(q.count), name,
                       Duration(std::max<int64_t>(q.longest_ns, 0)), StepWord(c, q.longest_step))},
          {"range", writers::ValidUtf8(q.name)},
          {"idle_ns", q.idle_ns},
          {"window_ns", c.window_ns},
          {"longest_at_ns", q.longest_at_ns}};
}

}  // namespace

std::optional<Reading> IdleInRange(const ReadingContext& c) {
  if (c.busy.parts().empty()) return std::nullopt;
  const IdleRange q = MostIdle(IdleByRange(c, true));
  const double share = double(q.idle_ns) / double(c.window_ns);
  if (share < At(kIdleInRange)) return std::nullopt;
  const std::string name = Fit(q.name, 60);
  Reading r{share, "device_idle_in_range", {}, {}, {}, {}};
  r.observation = fmt::format(
      "No work of this process on {} for {} of the window while the host is in `{}`, which "
      "launches "
      "nothing.",
      DeviceWord(c), Percent(share), name);
  r.evidence = IdleEvidence(c, q);
  r.hypothesis = fmt::format(
      "The device waits for what `{}` prepares (an input pipeline, for instance). Storage, the "
      "interpreter lock, logging or a lock look like this too.",
      name);
  r.next_check = fmt::format(
      "Run one window with the result of `{}` kept from an earlier step: if the idle time stays, "
      "the "
      "cause is elsewhere.",
      name);
  return r;
}

std::optional<Reading> IdleDevice(const ReadingContext& c) {
  if (c.busy.parts().empty()) return std::nullopt;
  const int64_t idle =
      c.window_ns - c.busy.CoveredNs(c.cycle.window_begin_ns, c.cycle.window_end_ns);
  const double share = double(idle) / double(c.window_ns);
  if (share < At(kIdleWindow)) return std::nullopt;
  const IdleRange q = MostIdle(IdleByRange(c, false));
  Reading r{share, "device_idle", {}, {}, {}, {}};
  r.observation = fmt::format("No work of this process on {} for {} of the window.", DeviceWord(c),
                              Percent(share));
  r.evidence = IdleEvidence(c, q);
  if (q.idle_ns == 0) {
    r.evidence["text"] = fmt::format(
        "{} of {} without device work; no range of a launching thread "
        "covers it",
        Duration(idle), Duration(c.window_ns));
  }
  r.hypothesis =
      "The host had nothing queued: it computed, waited or was held up elsewhere. Which of these, "
      "the "
      "ranges do not tell; work of other processes on the device is not seen either.";
  r.next_check =
      "Put ranges around the parts of the step that launch little, and look at the longest "
      "gap in the trace.";
  return r;
}

std::optional<Reading> ExposedCollectives(const ReadingContext& c) {
  int64_t exposed = 0, collective = 0, span = 0;
  for (const DeviceTime& d : c.work.devices()) {
    exposed += d.ExposedCollectiveNs(), collective += d.collective.TotalNs(), span += d.SpanNs();
  }
  const double share = span <= 0 ? 0 : double(exposed) / double(span);
  if (share < At(kExposedShare)) return std::nullopt;
  Reading r{share, "exposed_collectives", {}, {}, {}, {}};
  r.observation =
      fmt::format("{} is in collectives with no compute beside them for {} of its span.",
                  DeviceWord(c), Percent(share));
  r.evidence = {
      {"text", fmt::format("{} of {} in collectives ({}) is exposed; span {}", Duration(exposed),
                           Duration(collective), kCollectiveRule, Duration(span))},
      {"exposed_ns", exposed},
      {"collective_ns", collective},
      {"span_ns", span}};
  r.hypothesis =
      "A collective's time includes waiting for the slowest rank: a late rank, a slow link "
      "and a large message look alike from one rank.";
  r.next_check =
      "Compare the same step on all ranks (report on the run): the rank with the shortest "
      "collectives is the one the others wait for.";
  return r;
}

std::optional<Reading> SmallLaunches(const ReadingContext& c) {
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
  Reading r{
      double(idle) / double(std::max<int64_t>(span, 1)), "many_small_launches", {}, {}, {}, {}};
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

std::optional<Reading> DominantKernel(const ReadingContext& c) {
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
  Reading r{share * busy, "one_kernel_dominates", {}, {}, {}, {}};
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

namespace {

struct Drain {
  int64_t gap_ns = 0, wait_ns = 0, longest_ns = 0;
  uint64_t count = 0;
  model::TimeNs longest_at_ns = 0;
  int32_t longest_step = model::kNoStep;
  std::map<std::string_view, uint64_t> names;
};

// Waits after whose end the device has nothing to do until the next launch arrives.
Drain FindDrains(const ReadingContext& c) {
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

}  // namespace

std::optional<Reading> Drains(const ReadingContext& c) {
  const Drain d = FindDrains(c);
  const double steps = double(std::max<size_t>(c.cycle.steps.size(), 1));
  const double share = double(d.gap_ns) / double(c.window_ns);
  if (share < At(kDrainShare) || double(d.count) < At(kDrainsPerStep) * steps) return std::nullopt;
  const auto most =
      std::max_element(d.names.begin(), d.names.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string name = Fit(most->first, 40), device = DeviceWord(c);
  Reading r{share, "waits_drain_the_queue", {}, {}, {}, {}};
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

std::optional<Reading> PageableCopies(const ReadingContext& c) {
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
  Reading r{share, "pageable_copies", {}, {}, {}, {}};
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

}  // namespace stepagent::analysis
