// The backend where something is missing or refuses, one process per case (CMakeLists.txt).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/agent_cupti/backend_fixture.h"
#include "tests/unit/agent_cupti/recording_sink.h"

namespace stepagent::cupti {
namespace {

// Run alone, with a fault scripted for the simulator and the code that must come of it.
TEST(BackendReason, IsTheExpectedOne) {
  const char* expected = getenv("STEPAGENT_TEST_REASON");
  if (expected == nullptr) GTEST_SKIP() << "STEPAGENT_TEST_REASON is not set";
  (void)TheFixture();
  ASSERT_NE(TheFixture().cuda.handle, nullptr);
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  EXPECT_EQ(Backend().state().reason_code, expected) << Backend().state().reason;
  EXPECT_FALSE(Backend().state().reason.empty());
  const bool is_partial = std::string(expected) == "kinds_missing";
  EXPECT_EQ(Backend().IsArmed(), is_partial);
  EXPECT_EQ(Backend().IsSubscribed(), is_partial);
  EXPECT_EQ(Backend().state().status,
            is_partial ? GpuState::Status::kPartial : GpuState::Status::kUnavailable);
  Backend().Release();
}

// Run alone: the newest libcupti on the loader's path does not work with the driver.
TEST(BackendFallback, TakesTheNextOlderLibrary) {
  if (getenv("STEPAGENT_TEST_FALLBACK") == nullptr) GTEST_SKIP() << "not asked for";
  ASSERT_TRUE(TheFixture().is_usable);
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  EXPECT_TRUE(Backend().IsArmed()) << Backend().state().reason;
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
  EXPECT_TRUE(Backend().state().reason_code.empty());
  EXPECT_NE(Backend().state().cupti_path.find("libcupti.so.12"), std::string::npos);
  for (const KindState& kind : Backend().kinds()) EXPECT_TRUE(kind.error.empty()) << kind.error;
  Backend().Release();
}

// Without a driver in the process.
TEST(BackendWithoutDriver, SaysSo) {
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  EXPECT_FALSE(Backend().IsArmed());
  EXPECT_EQ(Backend().state().reason_code, "no_driver");
  EXPECT_EQ(Backend().DeviceClockNs(), 0U);
  RecordingSink sink;
  EXPECT_EQ(Backend().Decode(&sink), 0U);
  Backend().FlushPlain();
  Backend().Disarm();
  Backend().Release();
}

}  // namespace
}  // namespace stepagent::cupti
