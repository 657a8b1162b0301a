// Rules that compare steps with each other.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "collector/analysis/reading_rules.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

int64_t WallNs(const model::Step& step) { return step.end_ns - step.begin_ns; }

int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

Json WhereStep(const ReadingContext& c, size_t step) {
  const model::Step& s = c.cycle.steps[step];
  return Where(c, static_cast<int32_t>(step), s.begin_ns, s.end_ns, ThreadRow(c, s.thread));
}

}  // namespace

std::optional<Reading> FirstStepSlower(const ReadingContext& c) {
  if (!WhyStepsDoNotCompare(c.cycle).empty()) return std::nullopt;
  const std::vector<size_t> whole = WholeSteps(c.cycle);
  if (double(whole.size()) < 1 + At(kOtherSteps) || whole[0] != 0) return std::nullopt;
  std::vector<int64_t> others;
  for (size_t i = 1; i < whole.size(); ++i) others.push_back(WallNs(c.cycle.steps[whole[i]]));
  const auto [least, most] = std::minmax_element(others.begin(), others.end());
  const int64_t first = WallNs(c.cycle.steps[0]), median = MedianOf(others);
  // Beyond the others' whole spread too: among uneven steps the first is nothing special.
  if (first <= median || double(first) < At(kFirstStepFactor) * double(median) ||
      first - *most < *most - *least) {
    return std::nullopt;
  }
  Reading r{double(first - median) / double(c.window_ns), "first_step_slower", {}, {}, {}, {}};
  r.observation = fmt::format("The first active step took {}, the others {} (median).",
                              Duration(first), Duration(median));
  r.evidence = {
      {"text", fmt::format("{} against {} to {} in {} other steps; the tracer was set up "
                           "before it",
                           Duration(first), Duration(*least), Duration(*most), others.size())},
      {"first_ns", first},
      {"others_median_ns", median},
      {"others", others.size()},
      {"where", WhereStep(c, 0)}};
  r.hypothesis =
      "Something happens once: lazy loading, an allocation, a cache that fills, a loader that "
      "starts, or the first step of collection itself. Figures over all steps hold it.";
  r.next_check =
      "Record again with a longer warmup: if the first step is still slow, it is not the "
      "program's own start.";
  return r;
}

namespace {

constexpr uint32_t kCompiler = 1, kModuleLoad = 4U << 16, kLazyLoad = 5U << 16;  // CUPTI's numbers

// Executions by kernel name and step; a graph launch counts as one of an own name.
std::map<std::string_view, std::vector<uint64_t>> KernelsByStep(const ReadingContext& c) {
  std::map<std::string_view, std::vector<uint64_t>> out;
  const auto add = [&](std::string_view name, int32_t step) {
    if (step < 0) return;
    std::vector<uint64_t>& counts = out[name];
    counts.resize(c.cycle.steps.size());
    ++counts[static_cast<size_t>(step)];
  };
  for (const model::Kernel& kernel : c.cycle.kernels) {
    if (kernel.shape >= c.cycle.shapes.size()) continue;
    const model::Shape& shape = c.cycle.shapes[kernel.shape];
    add(c.cycle.Text(shape.demangled != 0 ? shape.demangled : shape.name), kernel.step);
  }
  for (const model::GraphLaunch& launch : c.cycle.graph_launches) {
    add("CUDA graph launch", launch.step);
  }
  return out;
}

struct Unsteady {
  size_t step = 0;        // that differs most from the median step
  double distance = 0;    // of all its executions
  std::string_view name;  // that differs most there
  uint64_t count = 0, median = 0;
};

Unsteady MostUnsteady(const ReadingContext& c, const std::vector<size_t>& whole) {
  const auto table = KernelsByStep(c);
  std::vector<uint64_t> differing(c.cycle.steps.size()), most(c.cycle.steps.size());
  std::vector<Unsteady> of_step(c.cycle.steps.size());
  uint64_t usual = 0;
  for (const auto& [name, counts] : table) {
    std::vector<int64_t> of_whole;
    for (const size_t i : whole) of_whole.push_back(static_cast<int64_t>(counts[i]));
    const auto median = static_cast<uint64_t>(MedianOf(of_whole));
    usual += median;
    for (const size_t i : whole) {
      const uint64_t difference = counts[i] > median ? counts[i] - median : median - counts[i];
      differing[i] += difference;
      if (difference > most[i]) most[i] = difference, of_step[i] = {i, 0, name, counts[i], median};
    }
  }
  Unsteady out;
  for (const size_t i : whole) {
    of_step[i].distance = double(differing[i]) / double(std::max<uint64_t>(usual, 1));
    if (of_step[i].distance > out.distance) out = of_step[i];
  }
  return out;
}

int32_t StepAt(const model::Cycle& cycle, model::TimeNs at) {
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    if (cycle.steps[i].begin_ns <= at && at < cycle.steps[i].end_ns) return static_cast<int32_t>(i);
  }
  return model::kNoStep;
}

struct LoadTime {
  model::TimeNs begin_ns = 0, end_ns = 0;
  uint32_t tid = 0;
  const char* row = "";
};

struct Loading {
  HostTime time;
  uint64_t count = 0;
  std::optional<LoadTime> longest;
};

// By a call's name: a trace file may hold such calls, and no rows of what they cost the profiler.
bool LoadsModule(std::string_view call) {
  for (const std::string_view part : {"ModuleLoad", "LibraryLoad", "LinkComplete"}) {
    if (call.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::vector<LoadTime> LoadTimes(const model::Cycle& cycle) {
  std::vector<LoadTime> out;
  for (const model::Overhead& o : cycle.overheads) {
    if (o.kind != kCompiler && o.kind != kModuleLoad && o.kind != kLazyLoad) continue;
    out.push_back({o.begin_ns, o.end_ns, o.tid, "overhead"});
  }
  if (!out.empty() || !cycle.is_from_trace) return out;
  for (const model::Call& call : cycle.calls) {
    if (!LoadsModule(cycle.Text(call.name))) continue;
    const uint32_t tid = call.thread < cycle.threads.size() ? cycle.threads[call.thread].tid : 0;
    out.push_back({call.begin_ns, call.end_ns, tid, "calls"});
  }
  return out;
}

Loading LoadingInSteps(const ReadingContext& c) {
  Loading out;
  std::map<uint32_t, std::vector<Interval>> times;
  for (const LoadTime& load : LoadTimes(c.cycle)) {
    if (load.begin_ns < c.cycle.window_begin_ns || load.begin_ns >= c.cycle.window_end_ns) continue;
    if (IsLeftOut(c, StepAt(c.cycle, load.begin_ns))) continue;
    ++out.count;
    times[load.tid].push_back({load.begin_ns, load.end_ns});
    if (!out.longest ||
        load.end_ns - load.begin_ns > out.longest->end_ns - out.longest->begin_ns) {
      out.longest = load;
    }
  }
  out.time = HostTimeOf(c, times);
  return out;
}

bool LostKernels(const model::Cycle& cycle) {
  const model::Balance& b = cycle.balance[static_cast<size_t>(model::Activity::kKernel)];
  const model::KindStatus& kind = cycle.kinds[static_cast<size_t>(model::Activity::kKernel)];
  if (kind.requested && !kind.enabled) return true;  // cut short: what is there is not all
  if (cycle.is_from_trace && !cycle.complete) return true;  // the same of a file
  return b.dropped.value_or(0) + b.invalid.value_or(0) > 0;
}

}  // namespace

std::optional<Reading> UnsteadySteps(const ReadingContext& c) {
  const std::vector<size_t> whole = WholeSteps(c.cycle);
  Unsteady u;
  // A lost record looks like a kernel that did not run.
  const bool compares = whole.size() >= 2 && WhyStepsDoNotCompare(c.cycle).empty();
  if (compares && !LostKernels(c.cycle)) u = MostUnsteady(c, whole);
  const Loading loading = LoadingInSteps(c);
  const double loading_share = double(loading.time.elapsed_ns) / double(c.window_ns);
  const bool loads = loading.longest.has_value() && loading_share >= At(kModuleLoadShare);
  const bool differs = u.distance >= At(kUnsteadyShare);
  if (!loads && !differs) return std::nullopt;
  Reading r{std::max(loading_share, differs ? 1.0 / double(whole.size()) * u.distance : 0),
            "steps_not_steady",
            {},
            {},
            {},
            {}};
  std::string text;
  if (differs) {
    r.observation = fmt::format(
        "The active steps do not run the same kernels: {} differs in {} of "
        "its executions from the usual step.",
        StepWord(c, static_cast<int32_t>(u.step)), Percent(u.distance));
    text = fmt::format("`{}`: {} there, {} in the usual step", Fit(u.name, 50), Count(u.count),
                       Count(u.median));
  }
  if (loads) {
    r.observation +=
        fmt::format("{}Modules are loaded or compiled within the window, for {} of it.",
                    differs ? " " : "", Percent(loading_share));
    text += fmt::format("{}{} loads or compilations, {} in all{}", differs ? "; " : "",
                        Count(loading.count), Duration(loading.time.elapsed_ns),
                        AddedOverThreads(loading.time));
  }
  r.evidence = {
      {"text", text},
      {"differing_share", u.distance},
      {"loading_ns", loading.time.elapsed_ns},
      {"where", differs ? WhereStep(c, u.step)
                        : Where(c, StepAt(c.cycle, loading.longest->begin_ns),
                                loading.longest->begin_ns, loading.longest->end_ns,
                                fmt::format("{}, thread {}", loading.longest->row,
                                            loading.longest->tid))}};
  r.hypothesis =
      "The program may not be in its steady state yet (tuning, lazy loading, a changed shape). A "
      "step "
      "that validates or logs now and then differs for good.";
  r.next_check =
      "Record the same number of steps later in the run: if they agree there, this window is "
      "too early to judge by.";
  return r;
}

namespace {

struct Series {
  const char* what = "";
  std::vector<int64_t> walls;
};

// Step times that may be compared with each other: the collected ones, else those without us.
Series LongestSeries(const model::Cycle& cycle) {
  Series active{"active steps", {}}, others{"steps without collection", {}};
  for (const size_t i : WholeSteps(cycle)) active.walls.push_back(WallNs(cycle.steps[i]));
  if (double(active.walls.size()) >= At(kDriftSteps)) return active;
  uint64_t seen = 0;  // ends where the sample stops being in order
  for (const model::StepDuration& step : cycle.all_steps.each) {
    if (step.index < seen) break;
    seen = step.index;
    if (step.collecting == 0 && step.index != 0)
      others.walls.push_back(static_cast<int64_t>(step.dur_ns));
  }
  return others;
}

// Mann and Kendall's score: how much more often a later step is longer than an earlier one than
// chance makes it, in standard deviations. Long series are thinned: 500 say enough.
double TrendScore(std::vector<int64_t> walls) {
  const size_t stride = walls.size() / 500 + 1;
  std::vector<int64_t> kept;
  for (size_t i = 0; i < walls.size(); i += stride) kept.push_back(walls[i]);
  int64_t sum = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    for (size_t j = i + 1; j < kept.size(); ++j) {
      sum += kept[j] > kept[i] ? 1 : kept[j] < kept[i] ? -1 : 0;
    }
  }
  const double n = double(kept.size());
  const double deviation = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  return deviation == 0 ? 0 : double(sum) / deviation;
}

}  // namespace

std::optional<Reading> StepTimesDrift(const ReadingContext& c) {
  if (!WhyStepsDoNotCompare(c.cycle).empty()) return std::nullopt;
  const Series series = LongestSeries(c.cycle);
  const size_t n = series.walls.size();
  if (double(n) < At(kDriftSteps)) return std::nullopt;
  const auto third = static_cast<ptrdiff_t>(n / 3);
  const int64_t begin = MedianOf({series.walls.begin(), series.walls.begin() + third});
  const int64_t end = MedianOf({series.walls.end() - third, series.walls.end()});
  const double change = begin <= 0 ? 0 : double(end - begin) / double(begin);
  const double score = TrendScore(series.walls);
  if (std::fabs(change) < At(kDriftShare) || std::fabs(score) < At(kDriftScore)) {
    return std::nullopt;
  }
  // Half the change is what the average step holds of it.
  Reading r{std::min(1.0, std::fabs(change) / 2), "step_times_drift", {}, {}, {}, {}};
  r.observation = fmt::format("The step time {} by {} over {} {}.", change > 0 ? "rises" : "falls",
                              Percent(std::fabs(change)), Count(n), series.what);
  r.evidence = {
      {"text", fmt::format("median {} in the first third, {} in the last; trend score "
                           "{:.1f} (3 or more is rarely chance)",
                           Duration(begin), Duration(end), std::fabs(score))},
      {"first_third_ns", begin},
      {"last_third_ns", end},
      {"steps", n},
      {"score", score},
      {"where", c.cycle.steps.empty() ? Json(nullptr) : WhereStep(c, c.cycle.steps.size() - 1)}};
  r.hypothesis =
      "Data may grow, clocks may fall or rise with temperature, memory may fragment, another "
      "program "
      "may have come or gone. One window does not tell these apart.";
  r.next_check =
      "Record a window early and one late in the run and compare them with diff: if kernels take "
      "longer one by one, look at the device's clocks; if there are more of them, at the data.";
  return r;
}

}  // namespace stepagent::analysis
