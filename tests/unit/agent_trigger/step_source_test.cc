#include "agent/trigger/step_source.h"

#include "tests/unit/agent_core/gate_fixture.h"

namespace stepagent::trigger {
namespace {

using core::Gate;
using core::HostClock;
using core::Phase;
using core::Verdict;
using Kind = proto::StepSetting::Kind;

constexpr uint64_t kMs = 1'000'000;

class StepSourceTest : public core::GateTest {
 protected:
  void SetUp() override {
    GateTest::SetUp();
    HostClock::Calibrate(true);
    base_ = static_cast<uint64_t>(HostClock::base_mono_ns());
  }
  std::unique_ptr<StepSource> Every(uint64_t period_ns) {
    proto::StepSetting step;
    step.kind = Kind::kEvery;
    step.every_ns = period_ns;
    return MakeStepSource(step, &Gate());
  }
  // ms since base of an event's ticks.
  static double Ms(const core::GateEvent& event) {
    return static_cast<double>(HostClock::ToNs(event.ticks)) / 1e6;
  }
  uint64_t base_ = 0;
};

TEST_F(StepSourceTest, NvtxAndNoneHaveNoSourceHere) {
  for (Kind kind : {Kind::kUnset, Kind::kNone, Kind::kNvtx, Kind::kNvtxGlob}) {
    proto::StepSetting step;
    step.kind = kind;
    EXPECT_EQ(MakeStepSource(step, &Gate()), nullptr);
  }
}

TEST_F(StepSourceTest, ATimerSleepsWhileIdleAndThroughAWait) {
  const auto source = Every(10 * kMs);
  source->Poll(base_ + kMs);
  EXPECT_EQ(source->NextWake(base_ + kMs), 0U);
  ASSERT_EQ(Gate().Arm({.wait = 1000, .active = 2, .repeat = 1}, 1), Verdict::kOk);
  const uint64_t start = base_ + 5 * kMs;
  source->Poll(start);
  // Step 0 has begun; step 1000 is the first to collect.
  EXPECT_EQ(source->NextWake(start), start + 10'000 * kMs);
  source->Poll(start + 10'000 * kMs);
  source->Poll(start + 10'010 * kMs);
  source->Poll(start + 10'020 * kMs);
  const auto events = TakeAll();
  ASSERT_EQ(events.size(), 7U);
  EXPECT_EQ(events[2].index, 1000U);
  EXPECT_NEAR(Ms(events[2]), 10'005, 0.001);
  EXPECT_NEAR(Ms(events.back()), 10'025, 0.001);
  EXPECT_EQ(source->NextWake(start + 10'020 * kMs), 0U);
}

TEST_F(StepSourceTest, ALateTimerStampsStepsWhereTheyWereDue) {
  const auto source = Every(10 * kMs);
  ASSERT_EQ(Gate().Arm({.wait = 2, .warmup = 1, .active = 3, .repeat = 1}, 1), Verdict::kOk);
  source->Poll(base_);
  source->Poll(base_ + 75 * kMs);  // everything at once
  const auto events = TakeAll();
  std::vector<double> begins;
  for (const core::GateEvent& event : events) {
    if (event.kind == core::GateEvent::Kind::kStepBegin) begins.push_back(Ms(event));
  }
  ASSERT_EQ(begins.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(begins[i], 20 + 10 * i, 0.001);
  EXPECT_NEAR(Ms(events.back()), 60, 0.001);
}

TEST_F(StepSourceTest, ArmingLongerThanAStepMakesOneLongStep) {
  const auto source = Every(10 * kMs);
  ASSERT_EQ(Gate().Arm({.warmup = 1, .active = 2, .repeat = 1}, 1), Verdict::kOk);
  source->Poll(base_);
  Gate().SetArmed(true, HostClock::ToTicks(50 * kMs));
  source->Poll(base_ + 75 * kMs);
  std::vector<double> begins;
  const auto events = TakeAll();
  for (const core::GateEvent& event : events) {
    if (event.kind == core::GateEvent::Kind::kStepBegin) begins.push_back(Ms(event));
  }
  ASSERT_EQ(begins.size(), 3U);
  EXPECT_NEAR(begins[1], 50, 0.001);
  EXPECT_NEAR(begins[2], 60, 0.001);
  EXPECT_NEAR(Ms(events.back()), 70, 0.001);
}

TEST_F(StepSourceTest, TheTimeBetweenArmingsIsNoStep) {
  const auto source = Every(10 * kMs);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  source->Poll(base_);
  source->Poll(base_ + 10 * kMs);
  Gate().SetTailPending(false);
  source->Poll(base_ + 20 * kMs);
  EXPECT_FALSE(Gate().snapshot().step_open);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  source->Poll(base_ + 60'000 * kMs);
  source->Poll(base_ + 60'010 * kMs);
  core::StepGate::StepDuration durations[8];
  uint64_t total = 0;
  const uint32_t count = Gate().CopyDurations(durations, 8, &total);
  EXPECT_EQ(count, 2U);
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_NEAR(static_cast<double>(HostClock::ToNs(durations[i].ticks) - HostClock::ToNs(0)),
                10.0 * kMs, 1000);
  }
}

TEST_F(StepSourceTest, ATinyPeriodAndAnEndlessWaitDoNoHarm) {
  const auto source = Every(0);
  ASSERT_EQ(Gate().Arm({.wait = UINT64_MAX / 2, .active = 1, .repeat = 1}, 1), Verdict::kOk);
  source->Poll(base_);
  source->Poll(base_ + 1'000'000 * kMs);
  EXPECT_GT(Gate().snapshot().process_index, 1'000'000'000U);
  const auto slow = Every(UINT64_MAX / 2);
  slow->Poll(base_);
  EXPECT_EQ(slow->NextWake(base_), 0U);
}

TEST_F(StepSourceTest, EachSignalIsABorder) {
  proto::StepSetting step;
  step.kind = Kind::kSignal;
  const auto source = MakeStepSource(step, &Gate());
  EXPECT_EQ(source->NextWake(1), 0U);
  ASSERT_EQ(Gate().Arm({.wait = 1, .active = 1, .repeat = 1}, 1), Verdict::kOk);
  source->OnSignals(1, 100);
  source->OnSignals(1, 110);
  source->OnSignals(2, 120);
  EXPECT_EQ(Take(), "W0@110 A0@110 (a1@110 )1@120 E0:schedule@120");
  EXPECT_EQ(Gate().snapshot().process_index, 3U);
}

}  // namespace
}  // namespace stepagent::trigger
