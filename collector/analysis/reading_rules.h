#pragma once
// The rules behind the readings, one function each.
//
// Purpose: a rule looks at one cycle and either says what it saw or stays silent.
// Thread rule: pure functions over an immutable context.
// Failure rule: input that was not collected means silence.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/analysis/known_window.h"
#include "collector/analysis/per_step.h"
#include "collector/analysis/readings.h"

namespace stepagent::analysis {

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
  kExposedShare,
  kIdleWindow,
  kBorderShare,
  kSameCopyShare,
  kLaunchGapNs,
  kStretchLaunches,
  kStretchShare,
  kFirstStepFactor,
  kOtherSteps,
  kUnsteadyShare,
  kModuleLoadShare,
  kDriftSteps,
  kDriftShare,
  kDriftScore,
  kStreamShare,
  kOverlapShare,
  kAllocsPerStep,
  kCallbackShare,
  kDiffSteps,
  kCostRatio,
  kThresholdCount
};
[[nodiscard]] double At(ThresholdIndex index);

// Why a device had nothing to do for a while, by what the host did last and next.
enum class GapCause : uint8_t { kBorder, kWait, kLaunch, kOther };
struct Gap {
  model::TimeNs begin_ns = 0, end_ns = 0;
  int64_t own_ns = 0;  // without what set_apart covers
  GapCause cause = GapCause::kOther;
  int32_t step = model::kNoStep;  // of the border, or of the work behind it
};

struct ReadingContext {
  const model::Cycle& cycle;
  const DeviceWork& work;
  const RangeWork& ranges;
  const Json& kernels;
  const Json& cost;
  int64_t window_ns = 0;   // without left_out: what shares are of
  IntervalUnion left_out;  // steps that hold the tracer's own start, where there are others
  IntervalUnion busy;      // any device
  // Until then work that was launched before the window may run, which the cycle does not hold: the
  // first step's work has begun on each of its streams, and streams run in order.
  model::TimeNs known_from_ns = 0;
  IntervalUnion not_idle;                   // busy, left_out, and the time until known_from_ns
  std::vector<uint32_t> launches_in_range;  // by range
  std::vector<bool> thread_launches;        // by thread
  // Launching threads inside ranges that launch nothing, which is another reading's; and left_out.
  IntervalUnion set_apart;
  std::vector<Gap> gaps;  // between work, within the window
};

struct Reading {
  double share = 0;  // of the window's time, never a sum over threads; for the ranking
  const char* id = "";
  std::string observation;
  Json evidence;
  std::string hypothesis, next_check;
};

using Rule = std::optional<Reading> (*)(const ReadingContext&);

// Idle time: reading_rules.cc, reading_rules_gaps.cc.
[[nodiscard]] std::optional<Reading> IdleInRange(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> Drains(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> StepBorders(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> SmallLaunches(const ReadingContext& c);
// Only where no other rule has something to say about the idle time.
[[nodiscard]] std::optional<Reading> LaunchBoundStretches(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> IdleDevice(const ReadingContext& c);
// Device time: reading_rules.cc, reading_rules_work.cc.
[[nodiscard]] std::optional<Reading> DominantKernel(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> ExposedCollectives(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> PageableCopies(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> SameCopyEachStep(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> StreamsWithoutOverlap(const ReadingContext& c);
// Steps against each other: reading_rules_steps.cc.
[[nodiscard]] std::optional<Reading> FirstStepSlower(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> UnsteadySteps(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> StepTimesDrift(const ReadingContext& c);
// The host, and what we did to it: reading_rules_host.cc.
[[nodiscard]] std::optional<Reading> AllocationsInSteps(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> ProfilerCost(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> PrivateNames(const ReadingContext& c);
// Callbacks run on every thread that calls: their time is a sum, and no share of the window.
struct CallingThreads {
  size_t count = 0;
  double busiest = 1;  // what part of all calls the thread with most of them made
};
// ProfilerCost by its facts alone: a summary's cost may become known after its cycle is gone.
[[nodiscard]] std::optional<Reading> ProfilerCostOf(const Json& cost, const CallingThreads& threads,
                                                    double window_ns);

// What rules share.
[[nodiscard]] std::vector<Gap> FindGaps(const ReadingContext& c);
// "GPU 0"; of several "any GPU" and "all GPUs": idle is what no device has work in.
[[nodiscard]] std::string DeviceWord(const ReadingContext& c);
[[nodiscard]] std::string AllDevices(const ReadingContext& c);
// "12.3 % of the window", or "… of the 31.7 ms looked at" where steps are left out of it.
[[nodiscard]] std::string OfWindow(const ReadingContext& c, double share);
[[nodiscard]] bool IsLeftOut(const ReadingContext& c, int32_t step);
// Of the steps that are not left out; at least 1.
[[nodiscard]] size_t StepCount(const ReadingContext& c);
// Elapsed time: what the members cover of the window without left_out, each moment once.
[[nodiscard]] int64_t ElapsedNs(const ReadingContext& c, std::vector<Interval> members);
struct HostTime {
  int64_t elapsed_ns = 0;
  int64_t added_ns = 0;  // of each thread, added over threads; nested calls of one count once
};
[[nodiscard]] HostTime HostTimeOf(const ReadingContext& c,
                                  const std::map<uint32_t, std::vector<Interval>>& by_thread);
// "", or where both differ " (3.00 ms added over threads)".
[[nodiscard]] std::string AddedOverThreads(const HostTime& time);
// Nothing said what a step is (a server, a window by signal): then no word of ours speaks of one.
[[nodiscard]] inline bool HasSteps(const ReadingContext& c) { return !c.cycle.steps.empty(); }
[[nodiscard]] inline const char* WithSteps(const ReadingContext& c, const char* with,
                                           const char* without) {
  return HasSteps(c) ? with : without;
}
// "in step 3", "between steps"; "in the window" where there are none.
[[nodiscard]] std::string InStep(const ReadingContext& c, int32_t step);
[[nodiscard]] std::string StepWord(const ReadingContext& c, int32_t step);
[[nodiscard]] std::string ThreadRow(const ReadingContext& c, uint32_t thread);
[[nodiscard]] std::string LaneRow(const ReadingContext& c, uint32_t lane);
// Where in the trace: {step begin_ns end_ns row}; step null outside every step.
[[nodiscard]] Json Where(const ReadingContext& c, int32_t step, model::TimeNs begin,
                         model::TimeNs end, const std::string& row);

}  // namespace stepagent::analysis
