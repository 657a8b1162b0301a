#include "agent/drain/drainer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "batch.pb.h"
#include "proto/limits.h"

namespace stepagent::drain {
namespace {

using core::HostClock;

// What CUPTI would hold: the test fills it, Decode empties it.
std::vector<std::function<void(core::ActivitySink*)>> g_pending;
cupti::BackendCounters g_counters;

uint64_t DecodePending(core::ActivitySink* sink) {
  for (const auto& give : g_pending) give(sink);
  const uint64_t count = g_pending.size();
  g_pending.clear();
  return count;
}

class KeepingSink final : public io::FrameSink {
 public:
  bool Submit(uint8_t, std::string payload, uint64_t sequence,
              const BatchContent& content) override {
    EXPECT_LT(payload.size(), proto::kMaxFrameBytes);
    if (refuse) {
      for (uint32_t k = 0; k < kActivityKinds; ++k) losses.records[k] += content.records[k];
      return false;
    }
    v1::Batch batch;
    EXPECT_TRUE(batch.ParseFromString(payload));
    EXPECT_EQ(batch.sequence(), sequence);
    sizes.push_back(payload.size());
    batches.push_back(std::move(batch));
    return true;
  }
  BatchContent TakeLosses() override { return std::exchange(losses, {}); }

  bool refuse = false;
  BatchContent losses;
  std::vector<v1::Batch> batches;
  std::vector<size_t> sizes;
};

class DrainerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(core::NameTable::Init());
    HostClock::Start();
    (void)HostClock::Calibrate(true);
  }
  void SetUp() override {
    ASSERT_TRUE(core::MapPhaseWords());
    core::RingRegistry::ForgetAll();
    core::Gate().Configure({});
    g_pending.clear();
    g_counters = {};
    config_.device = {.decode = DecodePending, .counters = [] { return g_counters; }};
    config_.flush_interval_ns = 1000;
  }
  Drainer& drainer() {
    if (drainer_ == nullptr) drainer_ = std::make_unique<Drainer>(config_, &sink_);
    return *drainer_;
  }
  void Round() { drainer().RunOnce(now_ns_ += 10, /*decode=*/true); }

  static void AppendCall(core::CallClass call_class, uint32_t correlation) {
    core::Append(core::RecordKind::kCall, call_class, [=](core::Record* r) {
      r->begin_ticks = HostClock::Ticks();
      r->end_ticks = r->begin_ticks + 10;
      r->correlation = correlation;
      r->name = core::NameTable::Intern("cuLaunchKernel");
      r->domain = 1;
      r->cbid = 307;
      r->category = r->color = r->stack = 0;
      r->return_value = 0;
    });
  }
  static void AppendMark() {
    core::Append(core::RecordKind::kMark, core::CallClass::kOther, [](core::Record* r) {
      r->begin_ticks = HostClock::Ticks();
      r->range_id = 0;
      r->name = core::NameTable::Intern("mark");
      r->domain = r->category = r->color = 0;
    });
  }
  static void GiveKernel(uint32_t correlation) {
    g_pending.push_back([correlation](core::ActivitySink* sink) {
      core::KernelActivity kernel{};
      kernel.start_ns = 100;
      kernel.end_ns = 200;
      kernel.correlation = correlation;
      kernel.name = core::NameTable::Intern("kernel");
      sink->OnKernel(kernel);
    });
  }
  // produced = sent + every drop + invalid, once nothing waits in a ring.
  void ExpectBalance() {
    (void)drainer().EncodeLossReport();  // reads the totals
    for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
      const KindTotals& t = drainer().totals(kind);
      EXPECT_EQ(t.produced, t.sent + t.dropped_ring_full + t.dropped_no_ring + t.dropped_uplink +
                                t.dropped_cupti + t.dropped_limit + t.invalid)
          << "kind " << kind;
    }
  }
  // Opens a cycle of one active step, as a step source would.
  void BeginActiveStep() {
    ASSERT_EQ(core::Gate().Arm({.active = 1, .repeat = 0}, HostClock::Ticks()),
              core::StepGate::Verdict::kOk);
    ASSERT_TRUE(core::Gate().OnStepBegin(HostClock::Ticks(), 1));
  }
  void EndStep() { core::Gate().OnStepEnd(HostClock::Ticks()); }

  DrainConfig config_{.identity = {.run = "r", .session = "s", .host = "h", .rank = 0}};
  KeepingSink sink_;
  std::unique_ptr<Drainer> drainer_;
  uint64_t now_ns_ = 1'000'000;
};

TEST_F(DrainerTest, IdleSendsNothing) {
  for (int i = 0; i < 100; ++i) Round();
  drainer().Flush(now_ns_);
  EXPECT_TRUE(sink_.batches.empty());
}

TEST_F(DrainerTest, RecordsWaitForTheFlushIntervalAndNoLonger) {
  config_.flush_interval_ns = 200'000'000;
  AppendMark();
  drainer().RunOnce(1'000'000'000, false);
  AppendMark();
  drainer().RunOnce(1'199'999'999, false);
  EXPECT_TRUE(sink_.batches.empty());
  drainer().RunOnce(1'200'000'000, false);
  ASSERT_EQ(sink_.batches.size(), 1U);
  EXPECT_EQ(sink_.batches[0].ranges().count(), 2U);
}

TEST_F(DrainerTest, CallsCountUnderTheirKind) {
  using enum core::CallClass;
  for (const auto call_class : {kLaunch, kGraphLaunch, kMemcpy, kMemset, kSync, kAlloc}) {
    AppendCall(call_class, 1);
  }
  AppendMark();
  drainer().RunOnce(now_ns_, false);
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_LAUNCH).sent, 4U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_SYNC).sent, 1U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_MEMORY).sent, 1U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).sent, 1U);
  ASSERT_EQ(sink_.batches.size(), 1U);
  EXPECT_EQ(sink_.batches[0].calls().count(), 6U);
  EXPECT_EQ(sink_.batches[0].threads().index_size(), 1);
  EXPECT_EQ(sink_.batches[0].losses().kinds_size(), 4);
}

TEST_F(DrainerTest, AFullRingIsCountedExactly) {
  constexpr uint32_t kMade = core::kRingSlots + 1234;
  core::RingRegistry::SetGrownBytes(0);
  for (uint32_t i = 0; i < kMade; ++i) AppendMark();
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  const KindTotals& nvtx = drainer().totals(v1::ACTIVITY_NVTX);
  EXPECT_EQ(nvtx.produced, kMade);
  EXPECT_EQ(nvtx.dropped_ring_full, 1234U);
  EXPECT_EQ(nvtx.sent, core::kRingSlots);
  core::RingRegistry::SetGrownBytes(core::kDefaultGrownBytes);
}

TEST_F(DrainerTest, ARingThatGrewLosesNothing) {
  constexpr uint32_t kMade = 3 * core::kRingSlots;
  for (uint32_t i = 0; i < kMade; ++i) AppendMark();
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).sent, kMade);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).dropped_ring_full, 0U);
}

TEST_F(DrainerTest, BatchesStayNearTheirTargetAndCarryAllRecords) {
  uint64_t made = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 8000; ++i, ++made) AppendCall(core::CallClass::kLaunch, made + 1);
    Round();
  }
  drainer().Flush(now_ns_);
  uint64_t calls = 0, sequence = 0;
  for (size_t i = 0; i < sink_.batches.size(); ++i) {
    EXPECT_EQ(sink_.batches[i].sequence(), sequence++);
    EXPECT_LT(sink_.sizes[i], proto::kBatchTargetBytes + 32 * 1024);
    if (sink_.batches[i].calls().count() != 0) {
      EXPECT_EQ(sink_.batches[i].threads().index_size(), 1);
    }
    calls += sink_.batches[i].calls().count();
  }
  EXPECT_EQ(calls, made);
  EXPECT_EQ(drainer().last_sequence(), sequence - 1);
  ExpectBalance();
}

TEST_F(DrainerTest, WhatTheUplinkRefusesMovesFromSentToDropped) {
  AppendMark();
  Round();
  drainer().Flush(now_ns_);
  sink_.refuse = true;
  for (int i = 0; i < 5; ++i) AppendMark();
  Round();
  drainer().Flush(now_ns_);
  sink_.refuse = false;
  drainer().Flush(now_ns_);  // nothing but the news of the loss
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).sent, 1U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).dropped_uplink, 5U);
  ASSERT_EQ(sink_.batches.size(), 2U);
  EXPECT_EQ(sink_.batches[1].losses().kinds(0).dropped_uplink(), 5U);
  drainer().Flush(now_ns_);  // told once
  EXPECT_EQ(sink_.batches.size(), 2U);
}

TEST_F(DrainerTest, DeviceRecordsAndCuptisOwnLossesBalance) {
  for (uint32_t i = 1; i <= 10; ++i) GiveKernel(i);
  g_pending.push_back([](core::ActivitySink* s) { s->OnInvalid(v1::ACTIVITY_KERNEL); });
  g_pending.push_back([](core::ActivitySink* s) { s->OnSync({.start_ns = 1, .end_ns = 2}); });
  g_counters.cupti_dropped = 7;
  g_counters.pool_dropped[v1::ACTIVITY_KERNEL] = 3;
  g_counters.dropped_unknown = true;
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  const KindTotals& kernels = drainer().totals(v1::ACTIVITY_KERNEL);
  EXPECT_EQ(kernels.produced, 14U);
  EXPECT_EQ(kernels.sent, 10U);
  EXPECT_EQ(kernels.invalid, 1U);
  EXPECT_EQ(kernels.dropped_no_ring, 3U);
  EXPECT_TRUE(kernels.cupti_count_unknown);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NONE).dropped_cupti, 7U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_SYNC).produced, 0U);  // detail beside the calls
}

TEST_F(DrainerTest, TheWindowOfTheGateIsTheTailsWindow) {
  std::vector<core::GateEvent::Kind> heard;
  drainer().SetGateObserver([&](const core::GateEvent& event) { heard.push_back(event.kind); });
  AppendCall(core::CallClass::kLaunch, 1);  // before the window
  BeginActiveStep();
  AppendCall(core::CallClass::kLaunch, 2);
  AppendCall(core::CallClass::kMemcpy, 3);
  Round();
  EXPECT_EQ(drainer().Outstanding(0), 2U);
  EndStep();
  GiveKernel(2);
  Round();
  EXPECT_EQ(drainer().Outstanding(0), 1U);
  EXPECT_EQ(drainer().ForgetWindow(0), 1U);
  EXPECT_EQ(drainer().Outstanding(0), 0U);
  using Kind = core::GateEvent::Kind;
  EXPECT_EQ(std::count(heard.begin(), heard.end(), Kind::kActiveBegin), 1);
  EXPECT_EQ(std::count(heard.begin(), heard.end(), Kind::kActiveEnd), 1);
  drainer().Flush(now_ns_);
  uint32_t steps = 0;
  for (const v1::Batch& batch : sink_.batches) steps += batch.steps().count();
  EXPECT_GE(steps, 1U);
}

TEST_F(DrainerTest, PastTheCapOfAWindowRecordsAreCountedNotSent) {
  config_.max_records = 100;
  BeginActiveStep();
  for (uint32_t i = 0; i < 250; ++i) AppendCall(core::CallClass::kLaunch, i + 1);
  Round();
  EXPECT_EQ(drainer().window_records(), 250U);
  for (uint32_t i = 0; i < 50; ++i) GiveKernel(i + 1);
  Round();
  EndStep();
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_LAUNCH).sent, 100U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_LAUNCH).dropped_limit, 150U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_KERNEL).dropped_limit, 50U);
}

TEST_F(DrainerTest, StopAcceptingCountsToo) {
  drainer().StopAccepting(true);
  AppendMark();
  Round();
  drainer().StopAccepting(false);
  AppendMark();
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).dropped_limit, 1U);
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).sent, 1U);
}

TEST_F(DrainerTest, ThreadsThatComeAndGoLoseNothingAndLeaveNoMemory) {
  constexpr int kThreads = 2000;
  for (int i = 0; i < kThreads; ++i) {
    std::thread([] { AppendMark(); }).join();
    Round();
  }
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_NVTX).sent, static_cast<uint64_t>(kThreads));
  EXPECT_LT(core::RingRegistry::bytes(), 8U << 20);
}

TEST_F(DrainerTest, ConcurrentProducersBalanceExactly) {
  std::vector<std::thread> producers;
  std::atomic<int> running{4};
  for (int t = 0; t < 4; ++t) {
    producers.emplace_back([&] {
      for (int i = 0; i < 100000; ++i) AppendCall(core::CallClass::kLaunch, i + 1);
      --running;
    });
  }
  while (running.load() != 0) Round();
  for (std::thread& producer : producers) producer.join();
  Round();
  drainer().Flush(now_ns_);
  ExpectBalance();
  EXPECT_EQ(drainer().totals(v1::ACTIVITY_LAUNCH).produced, 400000U);
  uint64_t received = 0;
  for (const v1::Batch& batch : sink_.batches) received += batch.calls().count();
  EXPECT_EQ(received, drainer().totals(v1::ACTIVITY_LAUNCH).sent);
}

// A ring a quarter full after a millisecond is the pace; a fuller one is looked at sooner, so that
// it is about a quarter full again, and an idle one is not looked at more often.
TEST_F(DrainerTest, PollsSoonerWhereARingFillsFaster) {
  constexpr uint64_t kMs = 1'000'000;
  ASSERT_EQ(core::Gate().ArmWhole(HostClock::Ticks()), core::StepGate::Verdict::kOk);
  const auto poll_after = [&](uint32_t records, uint64_t ns) {
    for (uint32_t i = 0; i < records; ++i) AppendMark();
    now_ns_ += ns;
    EXPECT_EQ(drainer().RunOnce(now_ns_, /*decode=*/false), records);
    return drainer().poll_ns();
  };
  EXPECT_EQ(poll_after(1, kMs), kMs);
  EXPECT_EQ(poll_after(core::kRingSlots / 4, kMs), kMs);
  EXPECT_EQ(poll_after(core::kRingSlots / 2, kMs), kMs / 2);
  EXPECT_EQ(poll_after(core::kRingSlots / 4, kMs / 2), kMs / 2);  // the same rate
  EXPECT_EQ(poll_after(core::kRingSlots, kMs / 4), kMs / 10);     // the shortest
  EXPECT_EQ(poll_after(0, kMs / 10), kMs);
}

}  // namespace
}  // namespace stepagent::drain
