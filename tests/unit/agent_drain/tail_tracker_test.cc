#include "agent/drain/tail_tracker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "proto/settings.h"

namespace stepagent::drain {
namespace {

core::Record Launch(uint64_t begin, uint32_t correlation,
                    core::CallClass call_class = core::CallClass::kLaunch, uint32_t flags = 0) {
  core::Record record{};
  record.kind = core::RecordKind::kCall;
  record.begin_ticks = begin;
  record.correlation = correlation;
  record.call_class = call_class;
  record.category = flags;
  return record;
}

TEST(TailTracker, OwesOnePerCallOfTheWindowWhateverTheOrder) {
  TailTracker tail;
  tail.OpenWindow(3, 100);
  tail.OnCall(Launch(99, 1));  // before
  tail.OnCall(Launch(100, 2));
  tail.OnDevice(3);  // its record comes first
  tail.OnCall(Launch(101, 3));
  tail.OnCall(Launch(102, 4, core::CallClass::kMemcpy));
  tail.OnCall(Launch(103, 5, core::CallClass::kMemset));
  tail.OnCall(Launch(104, 6, core::CallClass::kGraphLaunch));
  tail.OnCall(Launch(105, 7, core::CallClass::kSync));  // owes nothing
  tail.OnCall(Launch(106, 8, core::CallClass::kLaunch, core::kCallFailed));
  tail.OnCall(Launch(107, 9, core::CallClass::kLaunch, core::kCallCaptured));
  tail.OnCall(Launch(108, 10, core::CallClass::kMemset, core::kCallEmpty));
  EXPECT_EQ(tail.Outstanding(3), 4U);
  for (int i = 0; i < 5; ++i) tail.OnDevice(6);  // a graph's many records
  tail.OnDevice(2);
  tail.OnDevice(4);
  tail.OnDevice(1);
  EXPECT_EQ(tail.Outstanding(3), 1U);
  tail.OnDevice(5);
  EXPECT_EQ(tail.Outstanding(3), 0U);
}

TEST(TailTracker, KindsThatAreOffAreNotAwaited) {
  TailTracker tail;
  tail.SetAwaited(proto::ActivityBit(2));  // memcpy alone
  tail.OpenWindow(0, 0);
  tail.OnCall(Launch(1, 1));
  tail.OnCall(Launch(1, 2, core::CallClass::kMemset));
  tail.OnCall(Launch(1, 3, core::CallClass::kMemcpy));
  EXPECT_EQ(tail.Outstanding(0), 1U);
}

TEST(TailTracker, CallsDrainedBeforeTheEventsOfTheWindowAreCountedAllTheSame) {
  TailTracker tail;
  for (uint32_t i = 1; i <= 10; ++i) tail.OnCall(Launch(i * 10, i));
  tail.OpenWindow(0, 55);  // 60 .. 100: five of them
  EXPECT_EQ(tail.Outstanding(0), 5U);
  tail.OnCall(Launch(110, 11));
  tail.OnCall(Launch(120, 12));
  tail.CloseWindow(0, 115);  // the last one was after the end
  EXPECT_EQ(tail.Outstanding(0), 6U);
  tail.OnCall(Launch(130, 13));
  EXPECT_EQ(tail.Outstanding(0), 6U);
}

TEST(TailTracker, WindowsOverlapInTheirTailsAndAreForgottenAlone) {
  TailTracker tail;
  for (uint32_t cycle = 0; cycle < 5; ++cycle) {
    const uint64_t begin = cycle * 100;
    tail.OpenWindow(cycle, begin);
    tail.OnCall(Launch(begin + 1, cycle * 2 + 1));
    tail.OnCall(Launch(begin + 2, cycle * 2 + 2));
    tail.CloseWindow(cycle, begin + 100);
  }
  for (uint32_t cycle = 0; cycle < 5; ++cycle) EXPECT_EQ(tail.Outstanding(cycle), 2U);
  EXPECT_EQ(tail.Forget(1), 2U);
  EXPECT_EQ(tail.Forget(1), 0U);
  tail.OnDevice(3);  // late, of the forgotten one
  EXPECT_EQ(tail.Outstanding(0), 2U);
  // Its place is taken again: late records of the old cycle settle nothing of the new.
  tail.OpenWindow(9, 1000);
  tail.OnCall(Launch(1001, 100));
  tail.OnDevice(4);
  EXPECT_EQ(tail.Outstanding(9), 1U);
  tail.OnDevice(100);
  EXPECT_EQ(tail.Outstanding(9), 0U);
}

TEST(TailTracker, AHundredWindowsOweAtOnceAndBeyondTheLimitTheOldestIsGivenUp) {
  TailTracker tail;
  constexpr uint32_t kMost = TailTracker::kMostWindows;
  EXPECT_GE(kMost, 100U);  // the default of --max-traces: cycles of one run
  const auto open = [&tail](uint32_t cycle) {
    tail.OpenWindow(cycle, cycle * 10);
    tail.OnCall(Launch(cycle * 10 + 1, 2 * cycle + 1));
    tail.OnCall(Launch(cycle * 10 + 2, 2 * cycle + 2));
    tail.CloseWindow(cycle, cycle * 10 + 10);
  };
  for (uint32_t cycle = 0; cycle < kMost; ++cycle) open(cycle);
  for (uint32_t cycle = 0; cycle < kMost; ++cycle) {
    EXPECT_EQ(tail.Outstanding(cycle), 2U) << cycle;
    tail.OnDevice(2 * cycle + 1);
  }
  open(kMost);
  EXPECT_EQ(tail.Outstanding(0), 0U);
  bool was_given_up = false;
  EXPECT_EQ(tail.Forget(0, &was_given_up), 1U);
  EXPECT_TRUE(was_given_up);
  was_given_up = false;
  tail.OnDevice(2);  // of the one given up: settles nothing of the one in its place
  for (uint32_t cycle = 1; cycle < kMost; ++cycle) {
    EXPECT_EQ(tail.Forget(cycle, &was_given_up), 1U) << cycle;
  }
  EXPECT_EQ(tail.Forget(kMost, &was_given_up), 2U);
  EXPECT_FALSE(was_given_up);
}

TEST(TailTracker, ARecordWithoutAnEndIsNoLongerWaitedForAndStillOwed) {
  TailTracker tail;
  tail.OpenWindow(0, 0);
  for (uint32_t id = 1; id <= 3; ++id) tail.OnCall(Launch(1, id));
  tail.OnDevice(1);
  tail.OnDevice(2, /*is_cut=*/true);
  EXPECT_EQ(tail.Outstanding(0), 1U);
  tail.OnDevice(3);
  EXPECT_EQ(tail.Outstanding(0), 0U);
  EXPECT_EQ(tail.Forget(0), 1U);
}

TEST(TailTracker, CorrelationIdsWrap) {
  TailTracker tail;
  tail.OpenWindow(0, 0);
  std::vector<uint32_t> ids;
  for (uint32_t id = 0xffffff00; id != 0x100; ++id) {
    if (id != 0) ids.push_back(id);
  }
  for (const uint32_t id : ids) tail.OnCall(Launch(1, id));
  EXPECT_EQ(tail.Outstanding(0), ids.size());
  for (const uint32_t id : ids) tail.OnDevice(id);
  EXPECT_EQ(tail.Outstanding(0), 0U);
}

TEST(TailTracker, AgreesWithABruteForceOracle) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    TailTracker tail;
    std::set<uint32_t> owed, seen;
    tail.OpenWindow(0, 500);
    uint64_t now = 0;
    uint32_t next = static_cast<uint32_t>(random());
    std::vector<uint32_t> launched;
    for (int i = 0; i < 5000; ++i) {
      if (random() % 2 == 0 || launched.empty()) {
        now += random() % 3;
        const uint32_t id = next += 1 + random() % 5;
        const bool early = random() % 10 == 0;
        if (early) {
          tail.OnDevice(id);
          seen.insert(id);
        }
        const auto flags = random() % 10 == 0 ? core::kCallFailed : uint8_t{0};
        tail.OnCall(Launch(now, id, core::CallClass::kLaunch, flags));
        if (now >= 500 && flags == 0 && !seen.contains(id) && id != 0) owed.insert(id);
        launched.push_back(id);
      } else {
        const uint32_t id = launched[random() % launched.size()];
        tail.OnDevice(id);
        seen.insert(id);
        owed.erase(id);
      }
      ASSERT_EQ(tail.Outstanding(0), owed.size());
    }
  }
}

TEST(TailTracker, MillionsOfCallsTakeBoundedMemoryAndALateRecordIsStillKnown) {
  TailTracker tail;
  tail.OpenWindow(0, 0);
  tail.OnCall(Launch(1, 1));  // a kernel that runs and runs
  for (uint32_t id = 2; id < 8'000'000; ++id) {
    tail.OnCall(Launch(2, id));
    tail.OnDevice(id);
  }
  EXPECT_EQ(tail.Outstanding(0), 1U);
  EXPECT_EQ(tail.forgotten(), 0U);
  EXPECT_LT(tail.bytes(), 2U << 20);
  tail.OnDevice(1);
  EXPECT_EQ(tail.Outstanding(0), 0U);
  // Nothing ever comes: what does not fit any more is given up and counted.
  for (uint32_t id = 8'000'000; id < 12'000'000; ++id) tail.OnCall(Launch(3, id));
  EXPECT_LT(tail.bytes(), 3U << 20);
  EXPECT_EQ(tail.Outstanding(0) + tail.forgotten(), 4'000'000U);
}

}  // namespace
}  // namespace stepagent::drain
