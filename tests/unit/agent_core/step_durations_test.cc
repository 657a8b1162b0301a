#include "agent/core/step_durations.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace stepagent::core {
namespace {

using Step = StepGate::StepDuration;

TEST(StepDurations, KeepsTheFirstTenThousandAsTheyAre) {
  auto durations = std::make_unique<StepDurations>();
  for (uint64_t i = 0; i < StepGate::kKeptDurations; ++i) durations->OnEnd({i, 100 + i, 0});
  std::vector<Step> out(StepGate::kKeptDurations);
  ASSERT_EQ(durations->Copy(0, out.data(), StepGate::kKeptDurations), StepGate::kKeptDurations);
  for (uint64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].index, i);
}

TEST(StepDurations, SamplesUniformlyBeyond) {
  auto durations = std::make_unique<StepDurations>();
  constexpr uint64_t kSteps = 10 * StepGate::kKeptDurations;
  for (uint64_t i = 0; i < kSteps; ++i) durations->OnEnd({i, 1, 0});
  EXPECT_EQ(durations->ended(), kSteps);
  EXPECT_EQ(durations->kept(), StepGate::kKeptDurations);
  std::vector<Step> out(StepGate::kKeptDurations);
  durations->Copy(0, out.data(), StepGate::kKeptDurations);
  std::vector<int> deciles(10);
  for (const Step& step : out) ++deciles[step.index / StepGate::kKeptDurations];
  for (int count : deciles) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
}

TEST(StepDurations, MedianIsOfBeginToBegin) {
  auto durations = std::make_unique<StepDurations>();
  EXPECT_EQ(durations->MedianPeriod(), 0U);
  uint64_t now = 1000;
  for (int i = 0; i < 40; ++i) durations->OnBegin(now += 50);
  durations->OnBegin(now += 1'000'000);  // one outlier
  EXPECT_EQ(durations->MedianPeriod(), 50U);
}

}  // namespace
}  // namespace stepagent::core
