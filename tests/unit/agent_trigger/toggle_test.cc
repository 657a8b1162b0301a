#include "agent/trigger/toggle.h"

#include <gtest/gtest.h>

namespace stepagent::trigger {
namespace {

using core::Phase;
constexpr uint64_t kMs = 1'000'000;

TEST(Toggle, MeansWhatThePhaseSays) {
  const std::pair<Phase, ToggleAction> kExpected[] = {
      {Phase::kIdle, ToggleAction::kBegin},     {Phase::kDone, ToggleAction::kBegin},
      {Phase::kWaiting, ToggleAction::kCancel}, {Phase::kWarmup, ToggleAction::kCancel},
      {Phase::kActive, ToggleAction::kEnd},     {Phase::kFinishing, ToggleAction::kBusy}};
  Toggle toggle;
  uint64_t now = 0;
  for (const auto& [phase, action] : kExpected) {
    EXPECT_EQ(toggle.OnRequest(now += 300 * kMs, phase), action);
  }
}

TEST(Toggle, FiveTogglesThreeHundredMsApartAlternate) {
  Toggle toggle;
  bool on = false;
  uint64_t now = 1;
  for (int i = 0; i < 5; ++i, now += 300 * kMs) {
    const ToggleAction action = toggle.OnRequest(now, on ? Phase::kActive : Phase::kIdle);
    EXPECT_EQ(action, on ? ToggleAction::kEnd : ToggleAction::kBegin);
    on = !on;
  }
  EXPECT_TRUE(on);
}

TEST(Toggle, AStormIsOneRequest) {
  Toggle toggle;
  uint64_t now = 0;
  int actions = 0;
  for (int i = 0; i < 10000; ++i, now += kMs / 10) {
    actions += toggle.OnRequest(now, Phase::kIdle) != ToggleAction::kNone;
  }
  EXPECT_EQ(actions, 1);
  EXPECT_EQ(toggle.OnRequest(now + 199 * kMs, Phase::kActive), ToggleAction::kNone);
  EXPECT_EQ(toggle.OnRequest(now + 400 * kMs, Phase::kActive), ToggleAction::kEnd);
}

}  // namespace
}  // namespace stepagent::trigger
