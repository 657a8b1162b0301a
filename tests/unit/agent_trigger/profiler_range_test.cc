#include "agent/trigger/profiler_range.h"

#include <thread>

#include "tests/unit/agent_core/gate_fixture.h"

namespace stepagent::trigger {
namespace {

using core::Gate;

class ProfilerRangeTest : public core::GateTest {};

TEST_F(ProfilerRangeTest, IsOneWindowWithoutASchedule) {
  ProfilerRange range(&Gate(), std::nullopt);
  range.OnStop(50);  // without a start: nothing
  range.OnStart(100);
  range.OnStart(110);
  range.OnStop(200);
  EXPECT_EQ(Take(), "W0@100 A0@100 E0:request@200");
  EXPECT_EQ(range.refused(), 1U);
  Gate().SetTailPending(false);
  range.OnStart(300);
  range.OnStop(400);
  EXPECT_EQ(Take(), "W1@300 A1@300 E1:request@400");
}

// The thread that starts is held while another one stops: the range ends as soon as it is armed.
TEST_F(ProfilerRangeTest, AStopWhileTheStartIsBeingArmedIsNotLost) {
  Gate().Configure({.arm_wait_ns = 60'000'000'000, .max_cycles = 0});
  Gate().SetCudaPresent(true);
  ProfilerRange range(&Gate(), std::nullopt);
  std::thread application([&range] { range.OnStart(100); });
  while (!Gate().snapshot().awaiting_arm) std::this_thread::yield();
  range.OnStop(110);
  EXPECT_EQ(Take(), "W0@100");
  Gate().SetArmed(true, 200);
  application.join();
  EXPECT_EQ(Take(), "A0@200 E0:request@200");
}

TEST_F(ProfilerRangeTest, CountsTheScheduleBetweenStartAndStop) {
  ProfilerRange range(&Gate(), core::Schedule{.wait = 1, .active = 5, .repeat = 0});
  Steps(100, 3);
  range.OnStart(130);
  Steps(140, 2);
  EXPECT_TRUE(Gate().OnStepBegin(160, core::kTid));
  range.OnStop(163);
  Gate().OnStepEnd(165);
  Steps(170, 3);
  EXPECT_EQ(Take(), "W0@150 A0@150 (a1@150 )1@155 (a2@160 )2!4@163 E0:request@163");
}

}  // namespace
}  // namespace stepagent::trigger
