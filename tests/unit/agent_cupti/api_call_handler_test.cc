#include "agent/cupti/api_call_handler.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/cupti/callback_catalog.h"
#include "agent/cupti/callback_entry.h"

namespace stepagent::cupti {
namespace {

using core::CallClass;

constexpr uint32_t kLaunchDriver = 307, kLaunchRuntime = 211, kGraphLaunchDriver = 514;
constexpr uint32_t kMemsetRuntime = 51, kMemset2DRuntime = 53;

// Enough of a library for the catalogue.
CUptiResult CallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  *name = nullptr;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API && cbid <= kGraphLaunchDriver) {
    *name = cbid == kLaunchDriver        ? "cuLaunchKernel"
            : cbid == kGraphLaunchDriver ? "cuGraphLaunch"
                                         : "cuOther";
  }
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && cbid <= kLaunchRuntime) {
    *name = cbid == kLaunchRuntime     ? "cudaLaunchKernel_v7000"
            : cbid == kMemsetRuntime   ? "cudaMemsetAsync_v3020"
            : cbid == kMemset2DRuntime ? "cudaMemset2D_v3020"
                                       : "cudaOther";
  }
  return *name != nullptr ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

class ApiCallHandlerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(core::NameTable::Init());
    ASSERT_TRUE(core::MapPhaseWords());
    core::HostClock::Start();
    ApiTable api;
    api.GetCallbackName = CallbackName;
    CallbackCatalog().Build(api);
  }
  void SetUp() override {
    Record(true);
    ApiCallHandler::NewEpoch();
    (void)Take();
  }
  static void Record(bool on) {
    core::g_words->bits.store(on ? uint32_t{core::kBitCalls} : 0U, std::memory_order_relaxed);
  }
  static void Call(bool is_enter, uint32_t domain, uint32_t cbid, uint32_t correlation,
                   int result = 0, const void* params = nullptr) {
    CUpti_CallbackData data{};
    data.functionParams = params;
    data.callbackSite = is_enter ? CUPTI_API_ENTER : CUPTI_API_EXIT;
    data.correlationId = correlation;
    data.functionReturnValue = is_enter ? nullptr : &result;
    OnCallback(nullptr, static_cast<CUpti_CallbackDomain>(domain), cbid, &data);
  }
  static void Enter(uint32_t domain, uint32_t cbid, uint32_t correlation) {
    Call(true, domain, cbid, correlation);
  }
  static void Exit(uint32_t domain, uint32_t cbid, uint32_t correlation, int result = 0,
                   const void* params = nullptr) {
    Call(false, domain, cbid, correlation, result, params);
  }
  static std::vector<core::Record> Take() {
    std::vector<core::Record> records;
    core::RingRegistry::ForEach([&](core::ThreadRing* ring) {
      for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
        records.insert(records.end(), span.items, span.items + span.count);
        ring->ring.Consume(span.count);
      }
    });
    return records;
  }
};

TEST_F(ApiCallHandlerTest, OneRecordPerCall) {
  Enter(kDomainDriver, kLaunchDriver, 7);
  EXPECT_EQ(ApiCallHandler::InFlight(), 1U);
  Exit(kDomainDriver, kLaunchDriver, 7);
  EXPECT_EQ(ApiCallHandler::InFlight(), 0U);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, core::RecordKind::kCall);
  EXPECT_EQ(records[0].call_class, CallClass::kLaunch);
  EXPECT_EQ(records[0].correlation, 7U);
  EXPECT_EQ(records[0].domain, kDomainDriver);
  EXPECT_EQ(records[0].cbid, kLaunchDriver);
  EXPECT_EQ(records[0].category, 0U);
  EXPECT_LE(records[0].begin_ticks, records[0].end_ticks);
  EXPECT_EQ(core::NameTable::Text(records[0].name), "cuLaunchKernel");
}

TEST_F(ApiCallHandlerTest, NestedDriverCallBelongsToTheRuntimeCall) {
  Enter(kDomainRuntime, kLaunchRuntime, 8);
  Enter(kDomainDriver, kLaunchDriver, 8);
  Exit(kDomainDriver, kLaunchDriver, 8);
  Exit(kDomainRuntime, kLaunchRuntime, 8);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(core::NameTable::Text(records[0].name), "cudaLaunchKernel");
  EXPECT_EQ(records[0].domain, kDomainRuntime);
}

TEST_F(ApiCallHandlerTest, RecordingComesOnInMidCall) {
  Enter(kDomainDriver, kLaunchDriver, 1);  // so that the thread has its cell
  Exit(kDomainDriver, kLaunchDriver, 1);
  (void)Take();
  Record(false);
  Enter(kDomainRuntime, kLaunchRuntime, 9);
  Record(true);
  Enter(kDomainDriver, kLaunchDriver, 9);
  Exit(kDomainDriver, kLaunchDriver, 9);
  Exit(kDomainRuntime, kLaunchRuntime, 9);
  EXPECT_TRUE(Take().empty());
  Enter(kDomainRuntime, kLaunchRuntime, 10);
  Record(false);  // a call that began inside counts though it ends outside
  Exit(kDomainRuntime, kLaunchRuntime, 10);
  EXPECT_EQ(Take().size(), 1U);
}

TEST_F(ApiCallHandlerTest, UnmatchedExitsAreIgnoredAndLaterPairsRight) {
  Exit(kDomainDriver, kLaunchDriver, 11);
  Enter(kDomainDriver, kLaunchDriver, 12);
  Exit(kDomainDriver, kLaunchDriver, 13);  // not this call's
  Exit(kDomainRuntime, kLaunchRuntime, 12);
  EXPECT_TRUE(Take().empty());
  Exit(kDomainDriver, kLaunchDriver, 12);
  EXPECT_EQ(Take().size(), 1U);
  // Callbacks went off in mid-call: the exit never comes.
  Enter(kDomainRuntime, kLaunchRuntime, 14);
  EXPECT_EQ(ApiCallHandler::InFlight(), 1U);
  ApiCallHandler::NewEpoch();
  EXPECT_EQ(ApiCallHandler::InFlight(), 0U);
  Enter(kDomainDriver, kLaunchDriver, 15);  // outermost, not nested in the lost one
  Exit(kDomainDriver, kLaunchDriver, 15);
  const auto records = Take();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].correlation, 15U);
}

TEST_F(ApiCallHandlerTest, FailedAndCaptured) {
  Enter(kDomainDriver, kLaunchDriver, 16);
  Exit(kDomainDriver, kLaunchDriver, 16, 701);
  Enter(kDomainRuntime, kLaunchRuntime, 17);
  OnCallback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, kGraphNodeCreated, nullptr);
  Exit(kDomainRuntime, kLaunchRuntime, 17);
  OnCallback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, kGraphNodeCreated, nullptr);  // in no call
  Enter(kDomainDriver, kGraphLaunchDriver, 18);
  Exit(kDomainDriver, kGraphLaunchDriver, 18);
  const auto records = Take();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].category, core::kCallFailed);
  EXPECT_EQ(records[0].return_value, 701);
  EXPECT_EQ(records[1].category, core::kCallCaptured);
  EXPECT_EQ(records[2].category, 0U);
  EXPECT_EQ(records[2].call_class, CallClass::kGraphLaunch);
}

TEST_F(ApiCallHandlerTest, ASetOfNothingIsMarked) {
  const auto flags_of = [](uint32_t cbid, const void* params) {
    Enter(kDomainRuntime, cbid, 30);
    Exit(kDomainRuntime, cbid, 30, 0, params);
    const auto records = Take();
    return records.size() == 1 ? records[0].category : 99U;
  };
  struct {
    void* target;
    int value;
    size_t count;
  } set{nullptr, 0, 0};
  EXPECT_EQ(flags_of(kMemsetRuntime, &set), core::kCallEmpty);
  set.count = 1;
  EXPECT_EQ(flags_of(kMemsetRuntime, &set), 0U);
  EXPECT_EQ(flags_of(kMemsetRuntime, nullptr), 0U);
  struct {
    void* target;
    size_t pitch;
    int value;
    size_t width, height;
  } area{nullptr, 512, 0, 16, 0};
  EXPECT_EQ(flags_of(kMemset2DRuntime, &area), core::kCallEmpty);
  area.height = 2;
  EXPECT_EQ(flags_of(kMemset2DRuntime, &area), 0U);
  EXPECT_EQ(flags_of(kLaunchRuntime, &set), 0U);
}

TEST_F(ApiCallHandlerTest, StacksOfLaunches) {
  ApiCallHandler::SetStackSource([]() noexcept { return 42U; });
  Enter(kDomainDriver, kLaunchDriver, 19);
  Exit(kDomainDriver, kLaunchDriver, 19);
  ApiCallHandler::SetStackSource(nullptr);
  Enter(kDomainDriver, kLaunchDriver, 20);
  Exit(kDomainDriver, kLaunchDriver, 20);
  const auto records = Take();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].stack, 42U);
  EXPECT_EQ(records[1].stack, 0U);
}

TEST_F(ApiCallHandlerTest, NothingIsTouchedWhileNotRecording) {
  Record(false);
  std::thread([] {
    const uint64_t before = ApiCallHandler::totals().time.callbacks;
    Enter(kDomainDriver, kLaunchDriver, 21);
    Exit(kDomainDriver, kLaunchDriver, 21);
    EXPECT_EQ(ApiCallHandler::totals().time.callbacks, before);
  }).join();
  EXPECT_TRUE(Take().empty());
}

TEST_F(ApiCallHandlerTest, CountsOfEndedThreadsStayAndTheirCellsComeBack) {
  const uint64_t before = ApiCallHandler::totals().time.callbacks;
  constexpr uint32_t kRounds = 20;
  constexpr uint32_t kThreads = 300;  // 6000 threads in all: more than there are cells
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        Enter(kDomainDriver, kLaunchDriver, 1000 + t);
        Exit(kDomainDriver, kLaunchDriver, 1000 + t);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ApiCallHandler::Sweep();
    (void)Take();
    core::RingRegistry::Reclaim();
  }
  EXPECT_EQ(ApiCallHandler::totals().time.callbacks - before, uint64_t{2} * kRounds * kThreads);
  EXPECT_EQ(ApiCallHandler::totals().no_cell, 0U);
}

TEST_F(ApiCallHandlerTest, CostIsSampled) {
  for (uint32_t i = 0; i < 1000; ++i) {
    Enter(kDomainDriver, kLaunchDriver, 100000 + i);
    Exit(kDomainDriver, kLaunchDriver, 100000 + i);
  }
  EXPECT_GT(ApiCallHandler::totals().time.ticks, 0U);
}

// A call of the application's may be interrupted for as long as others want to run: what that took
// is no callback's. Here every exit, and so each that is sampled, takes longer than one can.
TEST_F(ApiCallHandlerTest, WhatTheSchedulerTookIsNobodysCost) {
  ApiCallHandler::ForgetAll();
  ApiCallHandler::SetStackSource([]() noexcept {
    const int64_t begin = core::HostClock::NowNs();
    while (core::HostClock::NowNs() - begin < 200'000) {
    }
    return 0U;
  });
  constexpr uint32_t kCalls = 252;  // 504 callbacks: as many enters as exits are sampled
  for (uint32_t i = 0; i < kCalls; ++i) {
    Enter(kDomainDriver, kLaunchDriver, 200000 + i);
    Exit(kDomainDriver, kLaunchDriver, 200000 + i);
  }
  ApiCallHandler::SetStackSource(nullptr);
  const CallbackTime time = ApiCallHandler::totals().time;
  EXPECT_EQ(time.callbacks, 2 * kCalls);
  EXPECT_GT(time.ticks, 0U);
  EXPECT_LT(*time.TicksSince({}),
            core::HostClock::ToTicks(int64_t{kCalls} * 100'000) - core::HostClock::ToTicks(0));
}

// The 62 callbacks until the next sample at most, then one in seven.
constexpr uint64_t kLeastSamples = 32;

TEST_F(ApiCallHandlerTest, AShortCycleHasSamplesOfItsOwn) {
  for (uint32_t cycle = 0; cycle < 3; ++cycle) {
    ApiCallHandler::NewEpoch();
    const CallbackTime before = ApiCallHandler::totals().time;
    for (uint32_t i = 0; i < 200; ++i) {  // 400 callbacks
      Enter(kDomainDriver, kLaunchDriver, 300000 + cycle * 1000 + i);
      Exit(kDomainDriver, kLaunchDriver, 300000 + cycle * 1000 + i);
    }
    const CallbackTime after = ApiCallHandler::totals().time;
    EXPECT_EQ(after.callbacks - before.callbacks, 400U);
    EXPECT_GE(after.samples - before.samples, kLeastSamples) << cycle;
  }
}

TEST(CallbackTime, ACycleIsToldFromItsOwnSamples) {
  // Before: one slow sample, which says nothing of the callbacks since.
  const CallbackTime before{.callbacks = 1000, .samples = 16, .ticks = 1'600'000};
  const CallbackTime after{.callbacks = 1200, .samples = 44, .ticks = 1'600'000 + 28 * 50};
  EXPECT_EQ(after.TicksSince(before), 200U * 50U);
  EXPECT_EQ(after.TicksSince(after), std::nullopt);  // none timed: not measured, and not 0
  const CallbackTime untimed{.callbacks = 1300, .samples = 44, .ticks = after.ticks};
  EXPECT_EQ(untimed.TicksSince(after), std::nullopt);
}

}  // namespace
}  // namespace stepagent::cupti
