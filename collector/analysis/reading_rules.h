#pragma once
// The rules behind the readings, one function each.
//
// Purpose: a rule looks at one cycle and either says what it saw or stays silent.
// Thread rule: pure functions over an immutable context.
// Failure rule: input that was not collected means silence.
#include <optional>
#include <string>
#include <vector>

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
  kThresholdCount
};
[[nodiscard]] double At(ThresholdIndex index);

struct ReadingContext {
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

using Rule = std::optional<Reading> (*)(const ReadingContext&);
[[nodiscard]] std::optional<Reading> IdleInRange(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> SmallLaunches(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> DominantKernel(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> Drains(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> PageableCopies(const ReadingContext& c);
[[nodiscard]] std::optional<Reading> ExposedCollectives(const ReadingContext& c);
// Only where no other rule has something to say about the idle time.
[[nodiscard]] std::optional<Reading> IdleDevice(const ReadingContext& c);

}  // namespace stepagent::analysis
