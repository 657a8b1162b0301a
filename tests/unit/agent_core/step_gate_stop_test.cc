// Stop, limits and whole windows.
#include "agent/core/step_gate.h"
#include "tests/unit/agent_core/gate_fixture.h"

namespace stepagent::core {
namespace {

constexpr Schedule kPlan{.skip_first = 0, .wait = 1, .warmup = 1, .active = 2, .repeat = 0};

TEST_F(GateTest, StopWhileIdleOrDoneIsBusy) {
  EXPECT_EQ(Gate().Stop(Ended::kRequest, false, 1), Verdict::kBusy);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kFinishing);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 110), Verdict::kBusy);
  EXPECT_EQ(Gate().Arm(kPlan, 111), Verdict::kBusy);  // still closing
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kDone);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 112), Verdict::kBusy);
  EXPECT_EQ(Gate().Arm(kPlan, 113), Verdict::kOk);
}

TEST_F(GateTest, ArmWhileArmedIsBusy) {
  ASSERT_EQ(Gate().Arm(kPlan, 1), Verdict::kOk);
  EXPECT_EQ(Gate().Arm(kPlan, 2), Verdict::kBusy);
  EXPECT_EQ(Gate().ArmWhole(3), Verdict::kBusy);
  EXPECT_EQ(Gate().ArmAt(kPlan, 10, 4), Verdict::kBusy);
}

TEST_F(GateTest, StopWhileWaitingCancelsSilently) {
  ASSERT_EQ(Gate().Arm(kPlan, 1), Verdict::kOk);
  EXPECT_TRUE(CountsNames());
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 50), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
  EXPECT_FALSE(CountsNames());
  Steps(100, 5);
  EXPECT_EQ(Take(), "");
}

TEST_F(GateTest, StopInWarmupCancelsTheCycle) {
  ASSERT_EQ(Gate().Arm(kPlan, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_TRUE(Gate().OnStepBegin(110, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 112), Verdict::kOk);
  EXPECT_FALSE(IsCollecting());
  Gate().OnStepEnd(115);
  EXPECT_EQ(Take(), "W0@110 (w1@110 )1!4@112 X0@112");
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
  EXPECT_FALSE(Gate().snapshot().wants_device);
  // Armed again, the cancelled cycle's number is not used a second time.
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 116), Verdict::kOk);
  Step(200, 205);
  EXPECT_EQ(Take(), "W1@200 A1@200 (a0@200 )0@205 E1:schedule@205");
}

TEST_F(GateTest, StopBetweenWarmupStepsCancels) {
  ASSERT_EQ(Gate().Arm(kPlan, 1), Verdict::kOk);
  Steps(100, 2);
  EXPECT_EQ(Gate().Stop(Ended::kRequest, false, 118), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@110 (w1@110 )1@115 X0@118");
}

TEST_F(GateTest, StopInAnActiveStepEndsWithIt) {
  ASSERT_EQ(Gate().Arm({.active = 5, .repeat = 0}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 102), Verdict::kOk);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 103), Verdict::kBusy);  // closing
  EXPECT_TRUE(IsCollecting());
  Gate().OnStepEnd(105);
  EXPECT_FALSE(IsCollecting());
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0@105 E0:signal@105");
  EXPECT_EQ(Gate().snapshot().phase, Phase::kFinishing);
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
}

TEST_F(GateTest, StopBetweenActiveStepsEndsAtTheLastStepsEnd) {
  ASSERT_EQ(Gate().Arm({.active = 5, .repeat = 0}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_EQ(Gate().Stop(Ended::kRequest, false, 108), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0@105 E0:request@105");
}

TEST_F(GateTest, ExitCutsTheOpenStep) {
  ASSERT_EQ(Gate().Arm({.active = 5, .repeat = 0}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kExit, true, 103), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0!4@103 E0:exit@103");
  Gate().OnStepEnd(105);
  EXPECT_EQ(Take(), "");
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kDone);
}

TEST_F(GateTest, AtOnceOverrulesAStopThatWaits) {
  ASSERT_EQ(Gate().Arm({.active = 5, .repeat = 0}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 101), Verdict::kOk);
  EXPECT_EQ(Gate().Stop(Ended::kExit, true, 102), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0!4@102 E0:exit@102");
}

TEST_F(GateTest, LimitEndsTheCycleNotTheSchedule) {
  ASSERT_EQ(Gate().Arm({.wait = 1, .active = 3, .repeat = 2}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_TRUE(Gate().OnStepBegin(110, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kLimit, true, 112), Verdict::kOk);
  Gate().OnStepEnd(115);
  EXPECT_FALSE(IsCollecting());
  EXPECT_EQ(Gate().snapshot().steps_until_collecting, 3U);  // the rest of the cycle, then the wait
  Steps(120, 6);
  EXPECT_EQ(Take(),
            "W0@110 A0@110 (a1@110 )1!4@112 E0:limit@112 "
            "W1@150 A1@150 (a5@150 )5@155 (a6@160 )6@165 (a7@170 )7@175 E1:schedule@175");
}

TEST_F(GateTest, StopInThePeriodEndsAtTheNextBegin) {
  Gate().Configure({.extent = GateConfig::Extent::kPeriod, .max_cycles = 0});
  ASSERT_EQ(Gate().Arm({.active = 5, .repeat = 0}, 1), Verdict::kOk);
  Step(100, 103);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 104), Verdict::kOk);
  Step(110, 113);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0@110 E0:signal@110");
}

TEST_F(GateTest, BackToBackCyclesLeaveTheBitsOnBetween) {
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 2}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_TRUE(IsCollecting());
  const StepGate::Snapshot shot = Gate().snapshot();
  EXPECT_TRUE(shot.wants_device);
  EXPECT_FALSE(shot.window_open);
  EXPECT_EQ(shot.phase, Phase::kWaiting);
  EXPECT_EQ(Gate().Stop(Ended::kExit, true, 107), Verdict::kOk);
  EXPECT_FALSE(IsCollecting());
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0@105 E0:schedule@105");
}

TEST_F(GateTest, StampsThatComeLateDoNotGoBack) {
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 0}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_TRUE(Gate().OnStepBegin(102, kTid + 1));  // stamped while another thread's step was open
  EXPECT_EQ(Gate().Stop(Ended::kRequest, true, 90), Verdict::kOk);
  Gate().OnStepEnd(107);
  EXPECT_EQ(Take(),
            "W0@100 A0@100 (a0@100 )0@105 E0:schedule@105 "
            "W1@105 A1@105 (a1@105 )1!4@105 E1:request@105");
}

TEST_F(GateTest, AWholeWindowHasNoSteps) {
  ASSERT_EQ(Gate().ArmWhole(50), Verdict::kOk);
  EXPECT_TRUE(IsCollecting());
  EXPECT_TRUE(CountsNames());
  Steps(100, 2);
  EXPECT_TRUE(CountsNames());
  EXPECT_EQ(Gate().snapshot().phase, Phase::kActive);
  EXPECT_EQ(Gate().snapshot().window_begin_ticks, 50U);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 200), Verdict::kOk);
  EXPECT_FALSE(IsCollecting());
  EXPECT_FALSE(CountsNames());
  EXPECT_EQ(Take(), "W0@50 A0@50 E0:signal@200");
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
  EXPECT_EQ(Gate().snapshot().process_index, 2U);
  ASSERT_EQ(Gate().ArmWhole(300), Verdict::kOk);
  EXPECT_EQ(Gate().Stop(Ended::kLimit, true, 400), Verdict::kOk);
  EXPECT_EQ(Take(), "W1@300 A1@300 E1:limit@400");
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kDone);
}

TEST_F(GateTest, AWholeWindowIsNotClosedByAnOldActiveStep) {
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kRequest, true, 101), Verdict::kOk);
  Gate().SetTailPending(false);
  ASSERT_EQ(Gate().ArmWhole(103), Verdict::kOk);
  Gate().OnStepEnd(105);
  EXPECT_TRUE(Gate().snapshot().window_open);
}

TEST_F(GateTest, ArmAtPutsTheFirstActiveStepWhereAsked) {
  Steps(100, 4);  // process steps 0 to 3
  ASSERT_EQ(Gate().ArmAt({.wait = 1, .warmup = 1, .active = 1, .repeat = 1}, 8, 150), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().steps_until_collecting, 3U);
  Steps(200, 6);  // 4 to 9
  const auto events = TakeAll();
  ASSERT_FALSE(events.empty());
  for (const GateEvent& event : events) {
    if (event.kind == GateEvent::Kind::kActiveBegin) {
      EXPECT_EQ(event.process_index, 8U);
    }
    if (event.kind == GateEvent::Kind::kStepBegin) {
      EXPECT_EQ(event.process_index - event.index, 6U);  // step 0 was process step 6
    }
  }
}

TEST_F(GateTest, ArmAtLeavesOutEarlyWaitsAndRefusesWhatIsTooLate) {
  Steps(100, 4);
  EXPECT_EQ(Gate().ArmAt({.warmup = 1, .active = 1, .repeat = 1}, 4, 150), Verdict::kRefused);
  ASSERT_EQ(
      Gate().ArmAt({.skip_first = 10, .wait = 5, .warmup = 1, .active = 1, .repeat = 1}, 5, 150),
      Verdict::kOk);
  Steps(200, 2);
  EXPECT_EQ(Take(), "W0@200 (w15@200 )15@205 A0@210 (a16@210 )16@215 E0:schedule@215");
}

}  // namespace
}  // namespace stepagent::core
