// How long a goodbye waits for steps that nobody records.
#include "agent/core/later_steps.h"

#include "gtest/gtest.h"

namespace stepagent::core {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;

TEST(LaterSteps, AsManyAsWereRecordedAreEnough) {
  LaterSteps later;
  EXPECT_EQ(later.NextLook(10, kMs, 0), 0U) << "nothing was begun";
  later.Begin(10, 5, kSecond);
  later.Begin(14, 5, kSecond);  // the same rest, looked at once more
  EXPECT_EQ(later.NextLook(10, 100 * kMs, kSecond), kSecond + 500 * kMs);
  EXPECT_NE(later.NextLook(14, 100 * kMs, kSecond + 1), 0U);
  EXPECT_EQ(later.NextLook(15, 100 * kMs, kSecond + 2), 0U);
  later.Forget();
  later.Begin(40, 5, 2 * kSecond);
  EXPECT_NE(later.NextLook(44, 100 * kMs, 2 * kSecond), 0U);
}

TEST(LaterSteps, AtLeastThreeAndAtMostTwenty) {
  LaterSteps one, many;
  one.Begin(0, 1, 0);
  EXPECT_NE(one.NextLook(2, kMs, 1), 0U);
  EXPECT_EQ(one.NextLook(3, kMs, 1), 0U);
  many.Begin(0, 100'000, 0);
  EXPECT_NE(many.NextLook(19, kMs, 1), 0U);
  EXPECT_EQ(many.NextLook(20, kMs, 1), 0U);
}

// A program that has stopped stepping is looked at a few times, and let go.
TEST(LaterSteps, APauseIsBounded) {
  for (const uint64_t step : {uint64_t{0}, kMs, kSecond, 1000 * kSecond}) {
    LaterSteps later;
    later.Begin(0, 3, kSecond);
    uint64_t now = kSecond;
    int looks = 0;
    for (uint64_t next; (next = later.NextLook(1, step, now)) != 0; now = next) {
      ASSERT_GT(next, now);
      ++looks;
    }
    EXPECT_LE(looks, 12) << step;
    EXPECT_GE(now - kSecond, LaterSteps::kShortestNs) << step;
    EXPECT_LE(now - kSecond, LaterSteps::kLongestNs) << step;
  }
}

}  // namespace
}  // namespace stepagent::core
