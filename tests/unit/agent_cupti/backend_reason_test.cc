// The backend where something is missing or refuses, one process per case (CMakeLists.txt).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/agent_cupti/backend_fixture.h"
#include "tests/unit/agent_cupti/recording_sink.h"
#include "tests/unit/agent_cupti/rival.h"

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

// Run alone, with a call that fails scripted: whatever came of an arming, the next one is not
// refused by the subscription of the one before, and at the end the slot is free.
TEST(BackendSlot, IsGivenBackAfterAFailure) {
  const char* fault = getenv("STEPAGENT_SIM_FAULTS");
  if (fault == nullptr) GTEST_SKIP() << "STEPAGENT_SIM_FAULTS is not set";
  ASSERT_TRUE(TheFixture().is_usable);
  ArmRequest request;
  request.activities = kAll;
  RecordingSink sink;
  std::string first;
  for (int cycle = 0; cycle < 3; ++cycle) {
    Backend().Arm(request);
    const GpuState state = Backend().state();
    EXPECT_NE(state.reason_code, "slot_taken") << "cycle " << cycle << ": " << state.reason;
    EXPECT_NE(state.reason_code, "cupti_too_new") << "cycle " << cycle << ": " << state.reason;
    if (cycle == 0) first = state.reason;
    // A call that always fails is told by every cycle alike.
    if (std::string(fault).find('@') == std::string::npos) {
      EXPECT_EQ(state.reason, first) << "cycle " << cycle;
      EXPECT_NE(state.status, GpuState::Status::kCollected) << "cycle " << cycle;
    }
    Backend().Disarm();
    Backend().Decode(&sink);
  }
  Backend().Release();
  EXPECT_FALSE(Backend().IsSubscribed());
  Rival rival;
  EXPECT_EQ(rival.Subscribe(), 0);
}

// Run alone: CUPTI does not take the subscription back when first asked.
TEST(BackendSlot, IsGivenBackAtALaterTry) {
  if (getenv("STEPAGENT_SIM_FAULTS") == nullptr) GTEST_SKIP() << "STEPAGENT_SIM_FAULTS is not set";
  ASSERT_TRUE(TheFixture().is_usable);
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  ASSERT_TRUE(Backend().IsArmed()) << Backend().state().reason;
  Backend().Release();
  EXPECT_TRUE(Backend().IsSubscribed()) << "the handle is all there is to give it back with";
  Backend().Arm(request);
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected) << Backend().state().reason;
  Backend().Release();
  EXPECT_FALSE(Backend().IsSubscribed());
  Rival rival;
  EXPECT_EQ(rival.Subscribe(), 0);
}

// Run alone: flushes fail, always or only the first time.
TEST(BackendFlush, AFailureIsTold) {
  const char* fault = getenv("STEPAGENT_SIM_FAULTS");
  if (fault == nullptr) GTEST_SKIP() << "STEPAGENT_SIM_FAULTS is not set";
  ASSERT_TRUE(TheFixture().is_usable);
  ArmRequest request;
  request.activities = kAll;
  RecordingSink sink;
  for (int cycle = 0; cycle < 2; ++cycle) {
    Backend().Arm(request);
    ASSERT_TRUE(Backend().IsArmed());
    EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
    Backend().FlushPlain();
    const bool always = std::string(fault).find('@') == std::string::npos;
    if (cycle == 0 || always) {
      EXPECT_EQ(Backend().state().reason_code, "flush_failed");
      EXPECT_NE(Backend().state().reason.find("(999)"), std::string::npos);
    }
    Backend().Disarm();
    Backend().Decode(&sink);
    EXPECT_EQ(Backend().state().status,
              always ? GpuState::Status::kPartial : GpuState::Status::kCollected);
    for (const KindState& kind : Backend().kinds()) {
      const bool is_call = kind.activity == kActivityLaunch || kind.activity == kActivitySync;
      EXPECT_EQ(kind.enabled, is_call || !always) << kind.activity;
      EXPECT_EQ(kind.error.empty(), is_call || !always) << kind.error;
    }
  }
  Backend().Release();
}

// Run alone: the only library refuses, always.
TEST(BackendLibrary, IsAskedInEveryCycle) {
  if (getenv("STEPAGENT_SIM_FAULTS") == nullptr) GTEST_SKIP() << "STEPAGENT_SIM_FAULTS is not set";
  ASSERT_TRUE(TheFixture().is_usable);
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  const GpuState first = Backend().state();
  EXPECT_EQ(first.reason_code, "cupti_too_new") << first.reason;
  for (int cycle = 1; cycle < 3; ++cycle) {
    Backend().Arm(request);
    EXPECT_EQ(Backend().state().reason_code, first.reason_code) << "cycle " << cycle;
    EXPECT_EQ(Backend().state().reason, first.reason) << "cycle " << cycle;
    EXPECT_EQ(Backend().state().cupti_path, first.cupti_path) << "cycle " << cycle;
  }
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
