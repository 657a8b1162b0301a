// The wait of a first active step for arming, and the flags it leaves.
#include <thread>

#include "agent/core/step_gate.h"
#include "tests/unit/agent_core/gate_fixture.h"

namespace stepagent::core {
namespace {

constexpr uint64_t kLongNs = 60'000'000'000;
constexpr uint8_t kTracerStart = 1, kPartial = 2;

class ArmingTest : public GateTest {
 protected:
  void Configure(uint64_t arm_wait_ns) {
    Gate().Configure({.arm_wait_ns = arm_wait_ns, .max_cycles = 0});
    Gate().SetCudaPresent(true);
  }
  static void UntilHeld() {
    while (!Gate().snapshot().awaiting_arm) std::this_thread::yield();
  }
  static std::vector<GateEvent> Of(GateEvent::Kind kind) {
    std::vector<GateEvent> found;
    for (const GateEvent& event : TakeAll()) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }
};

TEST_F(ArmingTest, AFirstActiveStepIsHeldUntilArmedAndStampedAfter) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  const uint64_t before = HostClock::Ticks();
  std::thread application([before] {
    EXPECT_TRUE(Gate().OnStepBegin(before, kTid));
    Gate().OnStepEnd(HostClock::Ticks());
  });
  UntilHeld();
  EXPECT_EQ(Take(), "W0@" + std::to_string(before));  // what tells the controller to arm
  EXPECT_TRUE(IsCollecting());
  EXPECT_FALSE(Gate().OnStepBegin(before + 1, kTid + 1)) << "another match meanwhile overlaps";
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, before), Verdict::kBusy);
  const uint64_t armed = HostClock::Ticks();
  Gate().SetArmed(true, armed);
  application.join();
  const auto events = TakeAll();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].kind, GateEvent::Kind::kActiveBegin);
  EXPECT_GE(events[0].ticks, armed);
  EXPECT_EQ(events[1].ticks, events[0].ticks);
  EXPECT_EQ(events[2].flags, kTracerStart);
  EXPECT_GT(Gate().arm_wait_ns(), 0U);
  EXPECT_EQ(Gate().snapshot().overlapping, 1U);
}

TEST_F(ArmingTest, PastTheWaitTheStepGoesOnAndIsPartial) {
  Configure(1'000'000);
  ASSERT_EQ(Gate().Arm({.active = 3, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(HostClock::Ticks(), kTid));
  EXPECT_GE(Gate().arm_wait_ns(), 1'000'000U);
  Gate().OnStepEnd(HostClock::Ticks());                       // still not armed: no device part
  EXPECT_TRUE(Gate().OnStepBegin(HostClock::Ticks(), kTid));  // not held a second time
  Gate().SetArmed(true, HostClock::Ticks());
  Gate().OnStepEnd(HostClock::Ticks());
  Step(HostClock::Ticks(), HostClock::Ticks());
  const auto ends = Of(GateEvent::Kind::kStepEnd);
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0].flags, kTracerStart | kPartial);
  EXPECT_EQ(ends[1].flags, kTracerStart | kPartial);
  EXPECT_EQ(ends[2].flags, 0);
}

TEST_F(ArmingTest, GivenUpLetsTheStepGo) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  std::thread application([] { Step(100, 200); });
  UntilHeld();
  Gate().SetArmed(false, 150);
  application.join();
  const auto ends = Of(GateEvent::Kind::kStepEnd);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].flags, 0);
}

TEST_F(ArmingTest, ArmedInWarmupNobodyIsHeld) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.warmup = 1, .active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 101), Verdict::kBusy);  // arming
  Gate().SetArmed(true, 102);
  Gate().OnStepEnd(105);
  Step(110, 115);
  EXPECT_EQ(Take(), "W0@100 (w0@100 )0!1@105 A0@110 (a1@110 )1@115 E0:schedule@115");
  EXPECT_EQ(Gate().arm_wait_ns(), 0U);
}

TEST_F(ArmingTest, WithoutCudaNobodyIsHeld) {
  Configure(kLongNs);
  Gate().SetCudaPresent(false);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0@105 E0:schedule@105");
}

TEST_F(ArmingTest, CudaThatComesUpInTheStepMissesNothing) {
  Configure(kLongNs);
  Gate().SetCudaPresent(false);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  Gate().SetCudaPresent(true);
  Gate().SetArmed(true, 102);
  Gate().OnStepEnd(105);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0!1@105 E0:schedule@105");
}

// Another tool holds the injection variable, say: what was launched before we looked is missing.
TEST_F(ArmingTest, CudaThatIsFoundInTheStepMakesItPartial) {
  Configure(kLongNs);
  Gate().SetCudaPresent(false);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  Gate().SetCudaPresent(true, /*was_there=*/true);
  Gate().SetArmed(true, 102);
  Gate().OnStepEnd(105);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0!3@105 E0:schedule@105");
}

TEST_F(ArmingTest, EachCycleIsArmedAnew) {
  Configure(200'000'000);
  ASSERT_EQ(Gate().Arm({.wait = 1, .active = 1, .repeat = 2}, 1), Verdict::kOk);
  Step(100, 105);
  std::thread application([] { Step(110, 115); });
  UntilHeld();
  Gate().SetArmed(true, 112);
  application.join();
  EXPECT_FALSE(Gate().snapshot().armed);
  Step(120, 125);
  const uint64_t held = Gate().arm_wait_ns();
  Step(130, 135);  // nobody arms: held for the whole time
  EXPECT_GE(Gate().arm_wait_ns() - held, 200'000'000U);
}

TEST_F(ArmingTest, BackToBackCyclesStayArmed) {
  Configure(kLongNs);
  Gate().SetArmed(true, 50);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 3}, 1), Verdict::kOk);
  Steps(100, 3);
  EXPECT_EQ(Gate().arm_wait_ns(), 0U);
  EXPECT_FALSE(Gate().snapshot().armed);  // after the last one
}

TEST_F(ArmingTest, ExitWhileAStepIsHeldCancels) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  std::thread application([] { Step(100, 200); });
  UntilHeld();
  EXPECT_EQ(Gate().Stop(Ended::kExit, true, 120), Verdict::kOk);
  Gate().SetArmed(false, 121);
  application.join();
  EXPECT_EQ(Take(), "W0@100 X0@120");
  EXPECT_FALSE(IsCollecting());
}

TEST_F(ArmingTest, ABoundaryIsNeverHeld) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  Gate().OnBoundary(100, kTid);
  Gate().SetArmed(true, 105);
  Gate().OnBoundary(110, kTid);
  EXPECT_EQ(Take(), "W0@100 A0@100 (a0@100 )0!3@110 E0:schedule@110");
}

TEST_F(ArmingTest, AWholeWindowOpensWhenArmingEnded) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().ArmWhole(100), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kWarmup);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 101), Verdict::kBusy);
  Gate().SetArmed(true, 150);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kActive);
  EXPECT_EQ(Gate().Stop(Ended::kSignal, false, 200), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100 A0@150 E0:signal@200");
}

TEST_F(ArmingTest, ProfilerStartIsHeldUntilArmed) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().ArmWhole(100), Verdict::kOk);
  std::thread application([] { Gate().HoldUntilArmed(); });
  UntilHeld();
  Gate().SetArmed(true, 150);
  application.join();
  EXPECT_TRUE(Gate().snapshot().window_open);
}

// --- a stop that must come, and comes while the gate is busy

TEST_F(ArmingTest, AStopOfAWindowThatIsBeingArmedWaitsForIt) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().ArmWhole(100), Verdict::kOk);
  EXPECT_EQ(Gate().Stop(Ended::kRequest, true, 110), Verdict::kBusy);
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 120), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100");
  Gate().SetArmed(true, 200);
  EXPECT_EQ(Take(), "A0@200 E0:request@200");
  EXPECT_FALSE(IsCollecting());
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
  // It is spent: the next window is not its own.
  ASSERT_EQ(Gate().ArmWhole(300), Verdict::kOk);
  Gate().SetArmed(true, 310);
  EXPECT_TRUE(Gate().snapshot().window_open);
}

TEST_F(ArmingTest, AStopThatWaitsCancelsAWarmupOnceItIsArmed) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.warmup = 2, .active = 2, .repeat = 1}, 1), Verdict::kOk);
  Step(100, 105);
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 107), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kWarmup);
  Gate().SetArmed(false, 108);  // given up is an end of arming, too
  EXPECT_EQ(Take(), "W0@100 (w0@100 )0@105 X0@108");
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
}

TEST_F(ArmingTest, AStopOfAHeldStepEndsItWhenItIsLetGo) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.active = 2, .repeat = 1}, 1), Verdict::kOk);
  std::thread application([] { Step(100, HostClock::Ticks()); });
  UntilHeld();
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 120), Verdict::kOk);
  Gate().SetArmed(true, 150);
  application.join();
  const auto events = TakeAll();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events.back().kind, GateEvent::Kind::kActiveEnd);
  EXPECT_EQ(events.back().ended, Ended::kRequest);
  EXPECT_FALSE(IsCollecting());
}

TEST_F(ArmingTest, AStopBetweenCyclesWaitsForTheTail) {
  Configure(kLongNs);
  ASSERT_EQ(Gate().Arm({.wait = 1, .active = 1, .repeat = 3}, 1), Verdict::kOk);
  Step(100, 105);
  std::thread application([] { Step(110, 115); });
  UntilHeld();
  Gate().SetArmed(true, 112);
  application.join();
  EXPECT_EQ(Gate().Stop(Ended::kRequest, true, 116), Verdict::kBusy);
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 117), Verdict::kOk);
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kIdle);
  (void)TakeAll();
  Steps(200, 4);
  EXPECT_EQ(Take(), "");
}

TEST_F(ArmingTest, AStopThatWaitsIsForgottenWithWhatItWasToEnd) {
  Configure(kLongNs);
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 1), Verdict::kBusy);  // nothing to stop
  ASSERT_EQ(Gate().ArmWhole(100), Verdict::kOk);
  EXPECT_EQ(Gate().StopWhenReady(Ended::kRequest, 110), Verdict::kOk);
  EXPECT_EQ(Gate().Stop(Ended::kExit, true, 120), Verdict::kOk);
  EXPECT_EQ(Take(), "W0@100 X0@120");
  ASSERT_EQ(Gate().ArmWhole(200), Verdict::kOk);
  Gate().SetArmed(true, 210);
  EXPECT_EQ(Take(), "W1@200 A1@210");
}

}  // namespace
}  // namespace stepagent::core
