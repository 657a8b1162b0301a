#pragma once
// LaterSteps: how long a goodbye waits for steps that nobody records.
//
// Purpose: what measuring cost is told from steps before, in and after collection, and those after
// it have not ended when a cycle is written. The goodbye carries their times, so it waits for about
// as many as were recorded. No step is watched for it: the thread looks again when, by the usual
// step, enough must have ended.
// Thread rule: the thread `stepagent`. Time and steps are parameters.
// Failure rule: bounded. A program that takes no more steps is let go with what there is.
#include <algorithm>
#include <cstdint>

namespace stepagent::core {

class LaterSteps {
 public:
  // Of two values none is the middle; from 20 on there is a 90th percentile.
  static constexpr uint64_t kFewest = 3, kMost = 20;
  // A collector is held in this time (a few MB), the application is not.
  static constexpr uint64_t kShortestNs = 2'000'000'000, kLongestNs = 120'000'000'000;
  static constexpr uint64_t kFirstPauseNs = 10'000'000;

  void Forget() { is_begun_ = false; }
  // Collection is over: `steps_ended` so far, `recorded` of them in a cycle. Once begun it goes on.
  void Begin(uint64_t steps_ended, uint64_t recorded, uint64_t now_ns) {
    if (is_begun_) return;
    is_begun_ = true;
    until_ = steps_ended + std::clamp(recorded, kFewest, kMost);
    wanted_ = until_ - steps_ended;
    begin_ns_ = now_ns;
    pause_ns_ = kFirstPauseNs / 2;
  }
  // When to look again; 0: no longer. `step_ns`: begin to begin, 0 unknown.
  [[nodiscard]] uint64_t NextLook(uint64_t steps_ended, uint64_t step_ns, uint64_t now_ns) {
    if (!is_begun_ || steps_ended >= until_) return 0;
    const uint64_t step = std::min(step_ns, kLongestNs);
    const uint64_t limit = begin_ns_ + std::clamp(2 * wanted_ * step, kShortestNs, kLongestNs);
    if (now_ns >= limit) return 0;
    // Longer each time, so that a program that pauses is not looked at step by step.
    pause_ns_ = std::max(2 * pause_ns_, (until_ - steps_ended) * step);
    return std::min(now_ns + pause_ns_, limit);
  }

 private:
  bool is_begun_ = false;
  uint64_t until_ = 0, wanted_ = 0, begin_ns_ = 0, pause_ns_ = 0;
};

}  // namespace stepagent::core
