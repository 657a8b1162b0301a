// Rules about gaps: why the device had nothing to do between one piece of work and the next.
#include <algorithm>

#include "collector/analysis/reading_rules.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;

// When synchronising calls returned, in order.
std::vector<model::TimeNs> WaitEnds(const model::Cycle& cycle) {
  std::vector<model::TimeNs> ends;
  for (const model::Call& call : cycle.calls) {
    if (call.cls == CallClass::kSync) ends.push_back(call.end_ns);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

// The first reason that fits: a border, a wait that returned into the gap, a launch that came late.
GapCause CauseOf(const ReadingContext& c, const Gap& gap, const std::vector<model::TimeNs>& waits,
                 int32_t step_before, const WorkItem& next) {
  if (step_before >= 0 && next.step >= 0 && step_before != next.step) return GapCause::kBorder;
  const auto wait = std::lower_bound(waits.begin(), waits.end(), gap.begin_ns);
  if (wait != waits.end() && *wait <= gap.end_ns) return GapCause::kWait;
  const bool has_call = next.call >= 0 && static_cast<size_t>(next.call) < c.cycle.calls.size();
  if (has_call && double(gap.own_ns) <= At(kLaunchGapNs) &&
      c.cycle.calls[static_cast<size_t>(next.call)].end_ns > gap.begin_ns) {
    return GapCause::kLaunch;
  }
  return GapCause::kOther;
}

// The step with most kernels: where many small ones are seen best.
Json BusiestStep(const ReadingContext& c) {
  const model::Step* most = nullptr;
  for (const model::Step& step : c.cycle.steps) {
    if (most == nullptr || step.kernels.value_or(0) > most->kernels.value_or(0)) most = &step;
  }
  if (most == nullptr) return nullptr;
  return Where(c, static_cast<int32_t>(most - c.cycle.steps.data()), most->begin_ns, most->end_ns,
               ThreadRow(c, most->thread));
}

}  // namespace

std::vector<Gap> FindGaps(const ReadingContext& c) {
  const std::vector<model::TimeNs> waits = WaitEnds(c.cycle);
  std::vector<Gap> out;
  model::TimeNs last_end = 0;
  int32_t last_step = model::kNoStep;
  bool has_any = false;
  c.work.ForEach([&](const WorkItem& item) {
    const model::TimeNs begin = std::max(last_end, c.known_from_ns);
    const model::TimeNs end = std::min(item.begin_ns, c.cycle.window_end_ns);
    if (has_any && end > begin) {
      Gap gap{begin, end, end - begin - c.quiet_host.CoveredNs(begin, end), GapCause::kOther,
              item.step};
      gap.cause = CauseOf(c, gap, waits, last_step, item);
      out.push_back(gap);
    }
    if (!has_any || item.end_ns >= last_end) last_end = item.end_ns, last_step = item.step;
    has_any = true;
  });
  return out;
}

std::optional<Reading> StepBorders(const ReadingContext& c) {
  const Gap* longest = nullptr;
  int64_t idle = 0;
  uint64_t count = 0;
  for (const Gap& gap : c.gaps) {
    if (gap.cause != GapCause::kBorder || gap.own_ns <= 0) continue;
    idle += gap.own_ns, ++count;
    if (longest == nullptr || gap.own_ns > longest->own_ns) longest = &gap;
  }
  const double share = double(idle) / double(c.window_ns);
  if (longest == nullptr || share < At(kBorderShare)) return std::nullopt;
  const std::string device = DeviceWord(c);
  Reading r{share, "device_idle_at_step_borders", {}, {}, {}, {}};
  r.observation = fmt::format(
      "Between the last work of one step and the first of the next, {} has nothing to do for {} of "
      "the window.",
      device, Percent(share));
  r.evidence = {
      {"text",
       fmt::format("{} idle at {} borders between steps, the longest {} before {}", Duration(idle),
                   Count(count), Duration(longest->own_ns), StepWord(c, longest->step))},
      {"idle_ns", idle},
      {"borders", count},
      {"longest_ns", longest->own_ns},
      {"where", Where(c, longest->step, longest->begin_ns, longest->end_ns, device)}};
  r.hypothesis =
      "What the host does between steps (logging, a checkpoint, a loader, a wait for the step's "
      "end) holds the next launches back. Work in another process or thread that this one waits "
      "for looks the same.";
  r.next_check =
      "Put ranges around what runs between the steps, or leave it out for one window, and see "
      "whether the idle time stays.";
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
      fmt::format("{} kernels {} with a median of {}, and the device idle for {} of its span.",
                  Count(lengths.size() / steps), WithSteps(c, "a step", "in the window"),
                  Duration(median), Percent(r.share));
  r.evidence = {
      {"text",
       fmt::format("{} kernels in {}; {} launch calls of {} on average; device idle {} of {}",
                   Count(lengths.size()),
                   HasSteps(c) ? fmt::format("{} steps", steps) : "the window", Count(launches),
                   Duration(launches == 0 ? 0 : launch_ns / static_cast<int64_t>(launches)),
                   Duration(idle), Duration(span))},
      {"kernels", lengths.size()},
      {"median_kernel_ns", median},
      {"launch_ns", launch_ns},
      {"idle_ns", idle},
      {"where", BusiestStep(c)}};
  r.hypothesis =
      "The host cannot launch as fast as the device finishes. Waits between the launches, or a "
      "tracer's own "
      "cost a launch (see cost), look like this too.";
  r.next_check =
      WithSteps(c,
                "Record the same steps from a CUDA graph, or with operations fused, and compare "
                "the step's median.",
                "Record the same work from a CUDA graph, or with operations fused, and compare how "
                "much of it a window holds.");
  return r;
}

namespace {

struct Drain {
  int64_t gap_ns = 0, wait_ns = 0, longest_ns = 0;
  uint64_t count = 0;
  model::TimeNs longest_end_ns = 0;
  const model::Call* longest = nullptr;
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
    if (gap > out.longest_ns) out.longest_ns = gap, out.longest_end_ns = until, out.longest = &call;
  }
  return out;
}

}  // namespace

std::optional<Reading> Drains(const ReadingContext& c) {
  const Drain d = FindDrains(c);
  const double steps = double(std::max<size_t>(c.cycle.steps.size(), 1));
  const double share = double(d.gap_ns) / double(c.window_ns);
  if (share < At(kDrainShare) || double(d.count) < At(kDrainsPerStep) * steps) return std::nullopt;
  if (d.longest == nullptr) return std::nullopt;
  const auto most =
      std::max_element(d.names.begin(), d.names.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string name = Fit(most->first, 40), device = DeviceWord(c);
  Reading r{share, "waits_drain_the_queue", {}, {}, {}, {}};
  r.observation =
      fmt::format("{} end with nothing queued on {}; it then idles for {} of the window.",
                  HasSteps(c) ? fmt::format("{:.1f} waits a step", double(d.count) / steps)
                              : fmt::format("{} waits in the window", Count(d.count)),
                  device, Percent(share));
  r.evidence = {{"text", fmt::format("{} waits, most in {}; {} idle after them, the longest {} {}",
                                     Count(d.count), name, Duration(d.gap_ns),
                                     Duration(d.longest_ns), InStep(c, d.longest->step))},
                {"call", writers::ValidUtf8(most->first)},
                {"waits", d.count},
                {"idle_ns", d.gap_ns},
                {"longest_at_ns", d.longest->end_ns},
                {"where", Where(c, d.longest->step, d.longest->begin_ns, d.longest_end_ns,
                                ThreadRow(c, d.longest->thread))}};
  r.hypothesis =
      "The waits keep the host from queueing work ahead. They may be needed (a value read back, a "
      "buffer "
      "reused), and slow host work after them looks the same.";
  r.next_check = fmt::format(
      "Find who calls {} {}.", name,
      WithSteps(c,
                "inside the step (a value copied back, a print, a timer) and move one of them to "
                "the step's end",
                "(a value copied back, a print, a timer) and move one of them behind the launches "
                "that follow it"));
  return r;
}

namespace {

struct Stretch {
  size_t launches = 0;
  int64_t idle_ns = 0;
  model::TimeNs begin_ns = 0, end_ns = 0;
  int32_t step = model::kNoStep;
};

// Runs of gaps in which nothing but the next launch was missing.
std::vector<Stretch> LaunchBound(const ReadingContext& c) {
  std::vector<Stretch> out;
  Stretch now;
  const auto close = [&] {
    if (double(now.launches) >= At(kStretchLaunches)) out.push_back(now);
    now = {};
  };
  for (const Gap& gap : c.gaps) {
    if (gap.cause != GapCause::kLaunch) {
      close();
      continue;
    }
    if (now.launches == 0) now.begin_ns = gap.begin_ns, now.step = gap.step;
    ++now.launches, now.idle_ns += gap.own_ns, now.end_ns = gap.end_ns;
  }
  close();
  return out;
}

}  // namespace

std::optional<Reading> LaunchBoundStretches(const ReadingContext& c) {
  const std::vector<Stretch> stretches = LaunchBound(c);
  int64_t idle = 0;
  size_t launches = 0;
  for (const Stretch& s : stretches) idle += s.idle_ns, launches += s.launches;
  const double share = double(idle) / double(c.window_ns);
  if (stretches.empty() || share < At(kStretchShare)) return std::nullopt;
  const Stretch& longest =
      *std::max_element(stretches.begin(), stretches.end(),
                        [](const Stretch& a, const Stretch& b) { return a.idle_ns < b.idle_ns; });
  const std::string device = DeviceWord(c);
  Reading r{share, "launch_bound_stretches", {}, {}, {}, {}};
  r.observation = fmt::format(
      "In {} stretches {} finished each piece of work before the next was launched; {} of the "
      "window is idle there.",
      Count(stretches.size()), device, Percent(share));
  r.evidence = {{"text", fmt::format("{} launches in a row or more each; {} idle in all, the "
                                     "longest stretch {} launches and {} idle {}",
                                     At(kStretchLaunches), Duration(idle), Count(longest.launches),
                                     Duration(longest.idle_ns), InStep(c, longest.step))},
                {"stretches", stretches.size()},
                {"launches", launches},
                {"idle_ns", idle},
                {"where", Where(c, longest.step, longest.begin_ns, longest.end_ns, device)}};
  r.hypothesis =
      "The host launches slower than the device works there. A busy core, the interpreter, or a "
      "tracer's own cost a launch look like this too.";
  r.next_check = std::string("Launch the stretch from a CUDA graph, or fuse its operations, and ") +
                 WithSteps(c, "compare the step's median.", "record the same window again.");
  return r;
}

}  // namespace stepagent::analysis
