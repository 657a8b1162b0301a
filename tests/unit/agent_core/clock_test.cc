#include "agent/core/clock.h"

#include <gtest/gtest.h>

namespace stepagent::core {
namespace {

TEST(HostClock, CountsNsFromStart) {
  HostClock::Start();
  EXPECT_TRUE(HostClock::Calibrate(true));
  const int64_t before = static_cast<int64_t>(HostClock::MonotonicNs()) - HostClock::base_mono_ns();
  const int64_t now = HostClock::NowNs();
  const int64_t after = static_cast<int64_t>(HostClock::MonotonicNs()) - HostClock::base_mono_ns();
  // 5 ppm of the time since Start, and the bracket of a pair on a busy machine.
  EXPECT_GE(now, before - 100'000);
  EXPECT_LE(now, after + 100'000);
}

TEST(HostClock, TicksAndNsAreInverse) {
  HostClock::Start();
  HostClock::Calibrate(true);
  for (int64_t ns : {int64_t{0}, int64_t{1'000'000}, int64_t{86'400'000'000'000}}) {
    EXPECT_NEAR(static_cast<double>(HostClock::ToNs(HostClock::ToTicks(ns))),
                static_cast<double>(ns), 2.0);
  }
}

TEST(HostClock, KeepsOrderBeforeStart) {
  HostClock::Start();
  HostClock::Calibrate(true);
  const uint64_t now = HostClock::Ticks();
  EXPECT_LT(HostClock::ToNs(now - 1'000'000'000), HostClock::ToNs(now));
  EXPECT_LT(HostClock::ToNs(HostClock::ToTicks(0) - 1000), 0);
}

TEST(HostClock, SampleLiesOnBothClocks) {
  HostClock::Start();
  HostClock::Calibrate(true);
  const HostClock::Sample sample = HostClock::TakeSample();
  EXPECT_LT(sample.bracket_ns, 10'000'000U);
  const int64_t mapped = HostClock::base_unix_ns() + sample.host_ns;
  EXPECT_NEAR(static_cast<double>(mapped - sample.real_ns), 0.0, 5e6);
  EXPECT_NE(HostClock::SourceName()[0], '\0');
}

}  // namespace
}  // namespace stepagent::core
