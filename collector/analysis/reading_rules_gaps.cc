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
    if (IsLeftOut(c, static_cast<int32_t>(&step - c.cycle.steps.data()))) continue;
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
      Gap gap{begin, end, end - begin - c.set_apart.CoveredNs(begin, end), GapCause::kOther,
              item.step};
      gap.cause = CauseOf(c, gap, waits, last_step, item);
      out.push_back(gap);
    }
    if (!has_any || item.end_ns >= last_end) last_end = item.end_ns, last_step = item.step;
    has_any = true;
  });
  return out;
}

namespace {

struct BorderIdle {
  int64_t idle_ns = 0;
  int64_t outside_ns = 0;  // of it: outside every step
  int64_t wait_ns = 0;     // of it: with a launching thread in a wait
  uint64_t count = 0;
  const Gap* longest = nullptr;
  std::string_view wait;  // the synchronising call that covers most
};

// The idle time at borders, and where the host was meanwhile.
BorderIdle FindBorderIdle(const ReadingContext& c) {
  BorderIdle out;
  IntervalUnion gaps;
  for (const Gap& gap : c.gaps) {
    if (gap.cause != GapCause::kBorder || gap.own_ns <= 0) continue;
    gaps.Add(gap.begin_ns, gap.end_ns), ++out.count;
    if (out.longest == nullptr || gap.own_ns > out.longest->own_ns) out.longest = &gap;
  }
  const IntervalUnion idle = Without(gaps, c.set_apart);
  out.idle_ns = idle.TotalNs();
  std::vector<Interval> steps, waits;
  for (const model::Step& step : c.cycle.steps) steps.push_back({step.begin_ns, step.end_ns});
  out.outside_ns = out.idle_ns - IntersectionNs(idle, MakeUnion(std::move(steps)));
  std::map<std::string_view, int64_t> by_name;
  int64_t most_ns = 0;
  for (const model::Call& call : c.cycle.calls) {
    const bool launches = call.thread < c.thread_launches.size() && c.thread_launches[call.thread];
    if (call.cls != CallClass::kSync || !launches) continue;
    waits.push_back({call.begin_ns, call.end_ns});
    const std::string_view name = writers::WithoutVersionSuffix(c.cycle.Text(call.name));
    const int64_t covered = by_name[name] += idle.CoveredNs(call.begin_ns, call.end_ns);
    if (covered > most_ns) most_ns = covered, out.wait = name;
  }
  out.wait_ns = IntersectionNs(idle, MakeUnion(std::move(waits)));
  return out;
}

// By what the host was in for most of that time.
void ExplainBorders(const BorderIdle& b, Reading* r) {
  if (2 * b.wait_ns >= b.idle_ns) {
    const std::string wait = Fit(b.wait, 40);
    r->hypothesis = fmt::format(
        "The host is in {} for most of this time, with no work left on the device: it wakes late, "
        "or waits for something else (another process or thread, work that was not recorded).",
        wait);
    r->next_check = fmt::format(
        "Find who calls {} there and what it waits for; leave it out for one window and see "
        "whether the idle time stays.",
        wait);
    return;
  }
  const bool is_outside = 2 * b.outside_ns >= b.idle_ns;
  r->hypothesis = fmt::format(
      "What the host does {} (logging, a checkpoint, a loader) holds the next launches back. Work "
      "in another process or thread that this one waits for looks the same.",
      is_outside ? "between steps" : "at the end of a step or the begin of the next");
  r->next_check = fmt::format(
      "Put ranges around what runs {}, or leave it out for one window, and see whether the idle "
      "time stays.",
      is_outside ? "between the steps" : "there");
}

}  // namespace

std::optional<Reading> StepBorders(const ReadingContext& c) {
  const BorderIdle b = FindBorderIdle(c);
  const double share = double(b.idle_ns) / double(c.window_ns);
  if (b.longest == nullptr || share < At(kBorderShare)) return std::nullopt;
  const std::string device = AllDevices(c);
  Reading r{share, "device_idle_at_step_borders", {}, {}, {}, {}};
  r.observation = fmt::format(
      "Between the last work of one step and the first of the next, {} {} nothing to do for {}.",
      device, c.work.devices().size() == 1 ? "has" : "have", OfWindow(c, share));
  std::string text = fmt::format("{} idle at {} borders between steps, the longest {} before {}",
                                 Duration(b.idle_ns), Count(b.count), Duration(b.longest->own_ns),
                                 StepWord(c, b.longest->step));
  if (b.outside_ns > 0)
    text += fmt::format("; {} of it outside every step", Duration(b.outside_ns));
  if (b.wait_ns > 0) {
    text += fmt::format("; {} of it with the host in a wait, most in {}", Duration(b.wait_ns),
                        Fit(b.wait, 40));
  }
  r.evidence = {
      {"text", text},
      {"idle_ns", b.idle_ns},
      {"outside_steps_ns", b.outside_ns},
      {"wait_ns", b.wait_ns},
      {"borders", b.count},
      {"longest_ns", b.longest->own_ns},
      {"where", Where(c, b.longest->step, b.longest->begin_ns, b.longest->end_ns, device)}};
  ExplainBorders(b, &r);
  return r;
}

std::optional<Reading> SmallLaunches(const ReadingContext& c) {
  std::vector<int64_t> lengths;
  for (const model::Kernel& kernel : c.cycle.kernels) {
    if (kernel.placed && kernel.graph_id == 0 && !IsLeftOut(c, kernel.step))
      lengths.push_back(kernel.end_ns - kernel.begin_ns);
  }
  const size_t steps = StepCount(c);
  if (double(lengths.size()) < At(kKernelsPerStep) * double(steps)) return std::nullopt;
  std::nth_element(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2),
                   lengths.end());
  const int64_t median = lengths[lengths.size() / 2];
  int64_t span = 0, idle = 0, launch_ns = 0;
  for (const DeviceTime& d : c.work.devices()) {
    const int64_t own = d.SpanNs() - c.left_out.CoveredNs(d.span_begin_ns, d.span_end_ns);
    span += own, idle += own - Without(d.busy, c.left_out).TotalNs();
  }
  if (double(median) >= At(kSmallKernelNs) ||
      double(span - idle) >= At(kLaunchBoundBusy) * double(span)) {
    return std::nullopt;
  }
  uint64_t launches = 0;
  for (const model::Call& call : c.cycle.calls) {
    if (call.cls != CallClass::kLaunch || IsLeftOut(c, call.step)) continue;
    ++launches, launch_ns += call.end_ns - call.begin_ns;
  }
  const bool is_one = c.work.devices().size() == 1;
  Reading r{
      double(idle) / double(std::max<int64_t>(span, 1)), "many_small_launches", {}, {}, {}, {}};
  r.observation =
      fmt::format("{} kernels {} with a median of {}, and {} idle for {} of {}.",
                  Count(lengths.size() / steps), WithSteps(c, "a step", "in the window"),
                  Duration(median), is_one ? "the device" : "the devices", Percent(r.share),
                  is_one ? "its span" : "their spans, added");
  r.evidence = {
      {"text",
       fmt::format("{} kernels in {}; {} kernel launches of {} on average; device idle {} of {}",
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
  int64_t gap_ns = 0, longest_ns = 0;
  uint64_t count = 0, gaps = 0;  // waits; times the device then idled: several may wait for one
  model::TimeNs longest_end_ns = 0;
  const model::Call* longest = nullptr;
  std::map<std::string_view, uint64_t> names;
};

// Waits after whose end the device has nothing to do until the next launch arrives.
Drain FindDrains(const ReadingContext& c) {
  Drain out;
  std::vector<Interval> gaps;
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
    const int64_t gap = until - call.end_ns - c.set_apart.CoveredNs(call.end_ns, until);
    if (gap <= 0) continue;
    ++out.count, gaps.push_back({call.end_ns, until});
    ++out.names[writers::WithoutVersionSuffix(c.cycle.Text(call.name))];
    if (gap > out.longest_ns) out.longest_ns = gap, out.longest_end_ns = until, out.longest = &call;
  }
  const IntervalUnion all = MakeUnion(std::move(gaps));
  out.gaps = all.parts().size();
  out.gap_ns = Without(all, c.set_apart).TotalNs();
  return out;
}

}  // namespace

std::optional<Reading> Drains(const ReadingContext& c) {
  const Drain d = FindDrains(c);
  const double steps = double(StepCount(c));
  const double share = double(d.gap_ns) / double(c.window_ns);
  if (share < At(kDrainShare) || double(d.gaps) < At(kDrainsPerStep) * steps) return std::nullopt;
  if (d.longest == nullptr) return std::nullopt;
  const auto most =
      std::max_element(d.names.begin(), d.names.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string name = Fit(most->first, 40), device = DeviceWord(c);
  const bool is_one = c.work.devices().size() == 1;
  Reading r{share, "waits_drain_the_queue", {}, {}, {}, {}};
  r.observation =
      fmt::format("{} end with nothing queued on {}; {} for {}.",
                  HasSteps(c) ? fmt::format("{:.1f} waits a step", double(d.count) / steps)
                              : fmt::format("{} waits in the window", Count(d.count)),
                  device, is_one ? "it then idles" : "all then idle", OfWindow(c, share));
  r.evidence = {{"text", fmt::format("{} waits, most in {}; {} idle after them, the longest {} {}",
                                     Count(d.count), name, Duration(d.gap_ns),
                                     Duration(d.longest_ns), InStep(c, d.longest->step))},
                {"call", writers::ValidUtf8(most->first)},
                {"waits", d.count},
                {"gaps", d.gaps},
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
    const bool is_left_out = c.left_out.CoveredNs(gap.begin_ns, gap.end_ns) > 0;
    if (gap.cause != GapCause::kLaunch || is_left_out) {
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
  const std::string device = AllDevices(c);
  Reading r{share, "launch_bound_stretches", {}, {}, {}, {}};
  r.observation = fmt::format(
      "In {} stretches {} had finished each piece of work before the next was launched; {} of the "
      "window is idle there.",
      Count(stretches.size()), device, Percent(share));
  r.evidence = {{"text", fmt::format("{} launch calls in a row or more each; {} idle in all, the "
                                     "longest stretch {} launch calls and {} idle {}",
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
