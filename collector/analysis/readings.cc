#include "collector/analysis/readings.h"

#include <algorithm>
#include <array>

#include "collector/analysis/known_window.h"
#include "collector/analysis/reading_rules.h"
#include "collector/analysis/tables.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;

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
    {"exposed_share", 0.10, "of the device span; below, hiding it would not be felt in the step"},
    {"idle_window_share", 0.30, "of the window; below, launch gaps and step borders explain it"},
    {"step_border_share", 0.10, "of the window; below, a loop's own bookkeeping explains it"},
    {"same_copy_share", 0.05, "of the window copying with no kernel beside it; less is not felt"},
    {"launch_gap_ns", 50e3, "five slow launches: a longer gap has another reason than the launch"},
    {"stretch_launches", 32, "fewer in a row happen wherever a queue begins to fill"},
    {"stretch_share", 0.05, "of the window idle in such stretches; less is within the noise"},
    {"first_step_factor", 1.5, "times the others' median; below, ordinary variation reaches it"},
    {"first_step_others", 3, "steps to compare with: of two, neither is the usual one"},
    {"unsteady_share", 0.02, "of a step's executions; a loop that logs now and then stays below"},
    {"module_load_share", 0.01, "of the window loading or compiling: it should be none"},
    {"drift_steps", 8, "fewer cannot show a trend that chance would not"},
    {"drift_share", 0.10, "from the first third to the last; less is what temperature does"},
    {"drift_score", 3.0, "standard deviations of the trend: one window in 400 by chance"},
    {"stream_share", 0.10, "of kernel time on each of the streams; less is a helper stream"},
    {"stream_overlap_share", 0.02, "of the time aside that overlaps; more is some overlap"},
    {"allocations_per_step", 1, "a steady loop has none; one a step is a pattern, not an accident"},
    {"callback_share", 0.05,
     "of the busiest thread's window in our callbacks; less is below what steps differ by"},
    {"diff_steps", 4,
     "on each side; of three, ranges lie apart by chance in one row of 10, of four in one of 35"},
    {"cost_ratio", 1.05, "that the ratio's interval lies above; less no reader would act on"},
}};

// Those that look at times when nothing runs.
constexpr const char* kIdleRules[] = {"device_idle_in_range",   "many_small_launches",
                                      "waits_drain_the_queue",  "device_idle_at_step_borders",
                                      "launch_bound_stretches", "device_idle",
                                      "same_copy_each_step"};

bool IsLaunching(const model::Call& call) {
  return call.cls != CallClass::kSync && call.cls != CallClass::kOther &&
         call.cls != CallClass::kAlloc;
}

// What a reading's evidence says of steps with the tracer's own start; "" without such steps, and
// for rules that mean the window as a whole.
std::string TracerStartNote(const ReadingContext& c, std::string_view id) {
  for (const std::string_view whole : {"one_kernel_dominates", "streams_without_overlap",
                                       "profiler_cost", "private_looking_names"}) {
    if (id == whole) return {};
  }
  const auto& steps = c.cycle.steps;
  const auto first = std::find_if(steps.begin(), steps.end(), HoldsTracerStart);
  if (first == steps.end()) return {};
  const auto count = std::count_if(steps.begin(), steps.end(), HoldsTracerStart);
  const std::string which = count == 1
                                ? fmt::format("step {} (the tracer started in it)", first->index)
                                : fmt::format("{} steps (the tracer started in them)", count);
  return c.left_out.parts().empty() ? "; holds " + which : "; without " + which;
}

ReadingContext Prepare(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
                       const Json& kernels, const Json& cost) {
  ReadingContext c{cycle, work, ranges, kernels, cost, 0, {}, {}, 0, {}, {}, {}, {}, {}};
  c.left_out = StepsLeftOut(cycle);
  c.window_ns = cycle.window_end_ns - cycle.window_begin_ns -
                c.left_out.CoveredNs(cycle.window_begin_ns, cycle.window_end_ns);
  c.known_from_ns = KnownFrom(work);
  std::vector<Interval> not_idle = c.left_out.parts();
  not_idle.push_back({std::min(cycle.window_begin_ns, c.known_from_ns), c.known_from_ns});
  work.ForEach([&](const WorkItem& item) { c.busy.Add(item.begin_ns, item.end_ns); });
  not_idle.insert(not_idle.end(), c.busy.parts().begin(), c.busy.parts().end());
  c.not_idle = MakeUnion(std::move(not_idle));
  c.launches_in_range.resize(cycle.ranges.size());
  c.thread_launches.resize(cycle.threads.size());
  for (size_t i = 0; i < cycle.calls.size(); ++i) {
    if (!IsLaunching(cycle.calls[i])) continue;
    const uint32_t thread = cycle.calls[i].thread;
    if (thread < c.thread_launches.size()) c.thread_launches[thread] = true;
    for (const uint32_t r : ranges.RangesOf(static_cast<int32_t>(i))) ++c.launches_in_range[r];
  }
  std::vector<Interval> set_apart = c.left_out.parts();
  for (size_t i = 0; i < cycle.ranges.size(); ++i) {
    const model::Range& range = cycle.ranges[i];
    if (c.launches_in_range[i] > 0 || range.thread >= c.thread_launches.size()) continue;
    if (c.thread_launches[range.thread]) set_apart.push_back({range.begin_ns, range.end_ns});
  }
  c.set_apart = MakeUnion(std::move(set_apart));
  c.gaps = FindGaps(c);
  return c;
}

// The part of the window in which idle time is not counted, where it is worth saying.
std::string WhyNotFromTheBegin(const model::Cycle& cycle, const DeviceWork& work) {
  const model::TimeNs window = cycle.window_end_ns - cycle.window_begin_ns;
  const model::TimeNs unknown =
      std::min(KnownFrom(work), cycle.window_end_ns) - cycle.window_begin_ns;
  if (window <= 0 || double(unknown) < At(kIdleInRange) * double(window)) return {};
  return fmt::format("{} of the window: earlier work may still run then",
                     Percent(double(unknown) / double(window)));
}

// Of several rules about the same idle time only the most particular speaks.
bool Explains(const std::vector<Reading>& found, std::initializer_list<std::string_view> ids) {
  return std::any_of(found.begin(), found.end(), [&](const Reading& r) {
    return std::find(ids.begin(), ids.end(), std::string_view(r.id)) != ids.end();
  });
}

std::vector<Reading> RunRules(const ReadingContext& context) {
  std::vector<Reading> found;
  const auto run = [&](Rule rule) {
    if (std::optional<Reading> reading = rule(context)) found.push_back(std::move(*reading));
  };
  // Idle is what no work covers: without all work there is none to speak of.
  const bool has_idle = WhyNoBusyTime(context.cycle).empty();
  const auto run_idle = [&](Rule rule) {
    if (has_idle) run(rule);
  };
  run_idle(IdleInRange);
  run_idle(SmallLaunches);
  run(DominantKernel);
  run_idle(Drains);
  run_idle(StepBorders);
  run(PageableCopies);
  run_idle(SameCopyEachStep);
  if (WhyWorkIsMissing(context.cycle).empty()) run(ExposedCollectives);
  for (const Rule rule : {StreamsWithoutOverlap, FirstStepSlower, UnsteadySteps, StepTimesDrift,
                          AllocationsInSteps, ProfilerCost}) {
    run(rule);
  }
  if (!Explains(found, {"many_small_launches", "waits_drain_the_queue"}))
    run_idle(LaunchBoundStretches);
  if (!Explains(found, {"device_idle_in_range", "many_small_launches", "waits_drain_the_queue",
                        "device_idle_at_step_borders", "launch_bound_stretches"})) {
    run_idle(IdleDevice);
  }
  run(PrivateNames);
  return found;
}

constexpr const char* kRulesThatCompareSteps[] = {"first_step_slower", "steps_not_steady",
                                                  "step_times_drift"};

template <typename Silent>
void SilentAboutSteps(const model::Cycle& cycle, const Silent& silent) {
  const std::string no_comparison = WhyStepsDoNotCompare(cycle);
  if (!no_comparison.empty()) {
    for (const char* id : kRulesThatCompareSteps) silent(id, no_comparison);
    return;
  }
  const size_t whole = WholeSteps(cycle).size();
  if (double(whole) < 1 + At(kOtherSteps)) {
    silent("first_step_slower",
           fmt::format("{} whole steps; needs {}", whole, 1 + At(kOtherSteps)));
  }
  if (whole < 2) silent("steps_not_steady", fmt::format("{} whole steps; needs 2", whole));
  if (double(std::max<size_t>(whole, cycle.all_steps.each.size())) < At(kDriftSteps)) {
    silent("step_times_drift",
           fmt::format("{} steps; needs {}", cycle.all_steps.each.size(), At(kDriftSteps)));
  }
}

}  // namespace

std::string DeviceWord(const ReadingContext& c) {
  if (c.work.devices().size() == 1) return fmt::format("GPU {}", c.work.devices()[0].ordinal);
  return "any GPU";
}

std::string AllDevices(const ReadingContext& c) {
  return c.work.devices().size() == 1 ? DeviceWord(c) : "all GPUs";
}

bool IsLeftOut(const ReadingContext& c, int32_t step) {
  return !c.left_out.parts().empty() && step >= 0 &&
         static_cast<size_t>(step) < c.cycle.steps.size() &&
         HoldsTracerStart(c.cycle.steps[static_cast<size_t>(step)]);
}

size_t StepCount(const ReadingContext& c) {
  const size_t all = c.cycle.steps.size();
  size_t count = 0;
  for (size_t i = 0; i < all; ++i) count += IsLeftOut(c, static_cast<int32_t>(i)) ? 0 : 1;
  return std::max<size_t>(count, 1);
}

int64_t ElapsedNs(const ReadingContext& c, std::vector<Interval> members) {
  for (Interval& one : members) {
    one.begin_ns = std::max(one.begin_ns, c.cycle.window_begin_ns);
    one.end_ns = std::min(one.end_ns, c.cycle.window_end_ns);
  }
  const IntervalUnion all = MakeUnion(std::move(members));
  return all.TotalNs() - IntersectionNs(all, c.left_out);
}

HostTime HostTimeOf(const ReadingContext& c,
                    const std::map<uint32_t, std::vector<Interval>>& by_thread) {
  HostTime out;
  std::vector<Interval> all;
  for (const auto& [thread, times] : by_thread) {
    out.added_ns += ElapsedNs(c, times);
    all.insert(all.end(), times.begin(), times.end());
  }
  out.elapsed_ns = ElapsedNs(c, std::move(all));
  return out;
}

std::string AddedOverThreads(const HostTime& time) {
  if (time.added_ns <= time.elapsed_ns) return {};
  return fmt::format(" ({} added over threads)", Duration(time.added_ns));
}

std::string StepWord(const ReadingContext& c, int32_t step) {
  if (step < 0 || static_cast<size_t>(step) >= c.cycle.steps.size()) return "between steps";
  return fmt::format("step {}", c.cycle.steps[static_cast<size_t>(step)].index);
}

std::string InStep(const ReadingContext& c, int32_t step) {
  if (!HasSteps(c)) return "in the window";
  const std::string word = StepWord(c, step);
  return word.starts_with("step ") ? "in " + word : word;
}

std::string ThreadRow(const ReadingContext& c, uint32_t thread) {
  if (thread >= c.cycle.threads.size()) return "host";
  const model::Thread& t = c.cycle.threads[thread];
  return t.name.empty() ? fmt::format("thread {}", t.tid)
                        : fmt::format("thread {} ({})", t.tid, writers::ValidUtf8(t.name));
}

std::string LaneRow(const ReadingContext& c, uint32_t lane) {
  if (lane >= c.cycle.lanes.size()) return "device";
  const model::Lane& l = c.cycle.lanes[lane];
  return fmt::format("GPU {} stream {}", l.device, l.stream_index);
}

Json Where(const ReadingContext& c, int32_t step, model::TimeNs begin, model::TimeNs end,
           const std::string& row) {
  const bool is_in_step = step >= 0 && static_cast<size_t>(step) < c.cycle.steps.size();
  return {
      {"step", is_in_step ? Json(c.cycle.steps[static_cast<size_t>(step)].index) : Json(nullptr)},
      {"begin_ns", begin},
      {"end_ns", end},
      {"row", row}};
}

double At(ThresholdIndex index) { return kTable[index].value; }

std::span<const Threshold> Thresholds() { return kTable; }

Json Readings(const model::Cycle& cycle, const DeviceWork& work, const RangeWork& ranges,
              const Json& kernels, const Json& cost) {
  Json out = Json::array();
  if (cycle.HostOnly() || cycle.window_end_ns <= cycle.window_begin_ns) return out;
  const ReadingContext context = Prepare(cycle, work, ranges, kernels, cost);
  std::vector<Reading> found = RunRules(context);
  std::stable_sort(found.begin(), found.end(),
                   [](const Reading& a, const Reading& b) { return a.share > b.share; });
  for (size_t i = 0; i < found.size(); ++i) {
    Reading& r = found[i];
    if (const std::string note = TracerStartNote(context, r.id); !note.empty()) {
      r.evidence["text"] = r.evidence.value("text", "") + note;
    }
    out.push_back({{"id", r.id},
                   {"rank", i + 1},
                   {"observation", std::move(r.observation)},
                   {"evidence", std::move(r.evidence)},
                   {"hypothesis", std::move(r.hypothesis)},
                   {"next_check", std::move(r.next_check)}});
  }
  return out;
}

Json ReadingsWithoutInput(const model::Cycle& cycle, const DeviceWork& work, const Json& cost) {
  using enum model::Activity;
  Json out = Json::array();
  const auto silent = [&](const char* id, const std::string& why) {
    out.push_back({{"id", id}, {"why", why}});
  };
  const auto needs = [&](const char* id, model::Activity activity) {
    if (!Collected(cycle, activity)) {
      silent(id, fmt::format("{}: {}", model::ActivityName(activity), WhyAbsent(cycle, activity)));
    }
  };
  // Host only says so for all of them at once.
  const std::string no_idle = cycle.HostOnly() ? "" : WhyNoBusyTime(cycle);
  if (!no_idle.empty()) {
    for (const char* id : kIdleRules) silent(id, no_idle);
    // What else ran at the time of a collective is not known either.
    if (!WhyWorkIsMissing(cycle).empty()) silent("exposed_collectives", no_idle);
    needs("pageable_copies", kMemcpy);
  } else {
    needs("waits_drain_the_queue", kSync);
    needs("pageable_copies", kMemcpy);
    needs("same_copy_each_step", kMemcpy);
    needs("device_idle_in_range", kNvtx);
    const std::string why = WhyNotFromTheBegin(cycle, work);
    if (!why.empty()) silent("idle_before_the_first_work", why);
  }
  const bool has_allocations =
      std::any_of(cycle.calls.begin(), cycle.calls.end(),
                  [](const model::Call& call) { return call.cls == CallClass::kAlloc; });
  if (!has_allocations) needs("allocation_calls_in_steps", kMemory);
  SilentAboutSteps(cycle, silent);
  if (!cost.at("ratio").at("value").is_number() && !cost.at("callback_ns").is_number()) {
    silent("profiler_cost", "not measured");
  }
  return out;
}

}  // namespace stepagent::analysis
