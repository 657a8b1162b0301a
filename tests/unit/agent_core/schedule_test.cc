#include "agent/core/schedule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace stepagent::core {
namespace {

// torch.profiler's rule, written as it defines it: 0 none, 1 warmup, 2 record, 3 record and save.
int TorchAction(const Schedule& s, uint64_t step) {
  if (step < s.skip_first) return 0;
  step -= s.skip_first;
  if (s.skip_first_wait) step += s.wait;
  const uint64_t length = s.wait + s.warmup + s.active;
  if (s.repeat > 0 &&
      static_cast<double>(step) / static_cast<double>(length) >= static_cast<double>(s.repeat)) {
    return 0;
  }
  const uint64_t place = step % length;
  if (place < s.wait) return 0;
  if (place < s.wait + s.warmup) return 1;
  return place < length - 1 ? 2 : 3;
}

int ActionOf(const StepPlan& plan) {
  if (plan.phase == Phase::kWarmup) return 1;
  if (plan.phase == Phase::kActive) return plan.is_last_active ? 3 : 2;
  return 0;
}

template <typename F>
void ForEachSchedule(F&& each) {
  for (uint64_t skip = 0; skip <= 3; ++skip)
    for (uint64_t wait = 0; wait <= 3; ++wait)
      for (uint64_t warmup = 0; warmup <= 2; ++warmup)
        for (uint64_t active = 1; active <= 3; ++active)
          for (uint64_t repeat = 0; repeat <= 3; ++repeat)
            for (bool first_wait : {false, true}) {
              each(Schedule{skip, wait, warmup, active, repeat, first_wait});
            }
}

TEST(Schedule, EqualsTorchOverTheWholeSmallSpace) {
  uint64_t compared = 0;
  ForEachSchedule([&compared](const Schedule& s) {
    for (uint64_t step = 0; step <= 40; ++step, ++compared) {
      ASSERT_EQ(ActionOf(PlanStep(s, step)), TorchAction(s, step))
          << s.skip_first << s.wait << s.warmup << s.active << s.repeat << s.skip_first_wait
          << " step " << step;
    }
  });
  EXPECT_EQ(compared, 4U * 4 * 3 * 3 * 4 * 2 * 41);
}

TEST(Schedule, MarksTheEndsOfCyclesAndNumbersThem) {
  ForEachSchedule([](const Schedule& s) {
    uint64_t cycles = 0;
    for (uint64_t step = 0; step <= 40; ++step) {
      const StepPlan plan = PlanStep(s, step);
      const int before = step == 0 ? 0 : TorchAction(s, step - 1);
      const int now = TorchAction(s, step);
      const bool begins_active = now >= 2 && (before < 2 || before == 3);
      const bool begins_cycle = now != 0 && (before == 0 || before == 3);
      ASSERT_EQ(plan.is_first_active, begins_active);
      ASSERT_EQ(plan.is_first_of_cycle, begins_cycle);
      if (begins_cycle) ++cycles;
      // With skip_first_wait and no wait left over the first cycle is still cycle 0.
      if (now != 0) {
        ASSERT_EQ(plan.cycle, cycles - 1);
      }
    }
  });
}

TEST(Schedule, CountsStepsAhead) {
  ForEachSchedule([](const Schedule& s) {
    for (uint64_t step = 0; step <= 40; ++step) {
      uint64_t collecting = UINT64_MAX, cycle = UINT64_MAX;
      for (uint64_t ahead = 0; ahead <= 20; ++ahead) {
        const StepPlan plan = PlanStep(s, step + ahead);
        if (collecting == UINT64_MAX && ActionOf(plan) != 0) collecting = ahead;
        if (cycle == UINT64_MAX && plan.is_first_of_cycle) cycle = ahead;
      }
      ASSERT_EQ(StepsUntilCollecting(s, step), collecting);
      ASSERT_EQ(StepsUntilCycle(s, step), cycle);
    }
  });
}

TEST(Schedule, DoneIsForEver) {
  const Schedule s{1, 1, 1, 2, 2, false};
  EXPECT_EQ(PlanStep(s, 8).phase, Phase::kActive);
  for (uint64_t step = 9; step < 100; ++step) EXPECT_EQ(PlanStep(s, step).phase, Phase::kDone);
  EXPECT_EQ(StepsUntilCollecting(s, 9), UINT64_MAX);
}

TEST(Schedule, SurvivesHugeNumbers) {
  const Schedule s{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, true};
  EXPECT_EQ(PlanStep(s, 0).phase, Phase::kWaiting);
  EXPECT_EQ(PlanStep(Schedule{0, UINT64_MAX, 1, 1, 0, false}, 5).phase, Phase::kWaiting);
  EXPECT_EQ(PlanStep(Schedule{.active = 0}, 5).phase, Phase::kDone);
}

TEST(Schedule, EarlyFirstTrace) {  // wait=100 must not put the first trace 100 steps away
  const Schedule plain{1, 100, 1, 1, 2, false}, early{1, 100, 1, 1, 2, true};
  EXPECT_TRUE(PlanStep(plain, 102).is_first_active);
  EXPECT_TRUE(PlanStep(early, 2).is_first_active);
}

}  // namespace
}  // namespace stepagent::core
