// The gate between steps, requests, a phase controller and a drainer. Run under TSan.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"

namespace stepagent::core {
namespace {

using Kind = GateEvent::Kind;

// Checks that events come as a well-formed sequence of cycles.
class SequenceCheck {
 public:
  void On(const GateEvent& event) {
    switch (event.kind) {
      case Kind::kWarmupBegin:
        ASSERT_FALSE(cycle_);
        ASSERT_EQ(event.cycle, next_cycle_++);
        cycle_ = true;
        return;
      case Kind::kActiveBegin:
        ASSERT_TRUE(cycle_ && !window_);
        window_ = true;
        begin_ = event.ticks;
        return;
      case Kind::kActiveEnd:
        ASSERT_TRUE(window_ && !step_);
        ASSERT_GE(event.ticks, begin_);
        cycle_ = window_ = false;
        ++windows;
        return;
      case Kind::kCancelled:
        ASSERT_TRUE(cycle_ && !window_ && !step_);
        cycle_ = false;
        return;
      case Kind::kStepBegin:
        ASSERT_TRUE(cycle_ && !step_);
        step_ = true;
        return;
      case Kind::kStepEnd:
        ASSERT_TRUE(step_);
        step_ = false;
        return;
    }
  }
  uint64_t windows = 0;

 private:
  uint32_t next_cycle_ = 0;
  uint64_t begin_ = 0;
  bool cycle_ = false, window_ = false, step_ = false;
};

TEST(GateStress, RequestsAndStepsInEveryOrder) {
  HostClock::Start();
  ASSERT_TRUE(MapPhaseWords());
  StepGate& gate = Gate();
  gate.Configure({.arm_wait_ns = 200'000, .max_cycles = 0});
  gate.SetCudaPresent(true);
  constexpr int kSteppers = 3;
  constexpr uint64_t kWindows = 50;
  std::atomic<bool> done{false};  // once kWindows windows have closed, however long that takes
  std::atomic<uint64_t> opened{0};

  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kSteppers; ++t) {
    threads.emplace_back([&, t] {
      while (!done.load()) {
        if (!gate.OnStepBegin(HostClock::Ticks(), t + 1)) continue;
        opened.fetch_add(1);
        if ((g_words->bits.load(std::memory_order_relaxed) & kBitRanges) != 0) {
          Append(RecordKind::kMark, CallClass::kOther, [](Record* r) { r->begin_ticks = 1; });
        }
        gate.OnStepEnd(HostClock::Ticks());
      }
    });
  }
  threads.emplace_back([&] {  // requests
    for (uint32_t i = 0; !done.load(); ++i) {
      if (i % 3 == 0) {
        (void)gate.ArmWhole(HostClock::Ticks());
      } else {
        (void)gate.Arm({.wait = i % 2, .warmup = i % 4, .active = 1 + i % 5, .repeat = i % 3},
                       HostClock::Ticks());
      }
      std::this_thread::yield();
      (void)gate.Stop(i % 2 == 0 ? Ended::kSignal : Ended::kRequest, i % 5 == 0,
                      HostClock::Ticks());
      if (i % 7 == 0) (void)gate.Stop(Ended::kLimit, true, HostClock::Ticks());
    }
  });

  SequenceCheck check;
  const auto controller_round = [&] {  // what `stepagent` does
    const StepGate::Snapshot shot = gate.snapshot();
    if (shot.wants_device && !shot.armed) gate.SetArmed(true, HostClock::Ticks());
    gate.TakeEvents([&check](const GateEvent& event) { check.On(event); });
    RingRegistry::ForEach([](ThreadRing* ring) { ring->ring.Consume(ring->ring.Peek().count); });
    RingRegistry::Reclaim();
    if (shot.phase == Phase::kFinishing) gate.SetTailPending(false);
  };
  while (check.windows < kWindows) controller_round();
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  (void)gate.Stop(Ended::kExit, true, HostClock::Ticks());
  controller_round();
  gate.TakeEvents([&check](const GateEvent& event) { check.On(event); });
  EXPECT_EQ(gate.events_dropped(), 0U);
  uint64_t total = 0;
  StepGate::StepDuration one;
  (void)gate.CopyDurations(&one, 1, &total);
  EXPECT_EQ(total, opened.load());
  EXPECT_EQ(gate.snapshot().process_index, opened.load());
  EXPECT_FALSE(gate.snapshot().wants_device);
  EXPECT_EQ(g_words->bits.load() & (kBitRanges | kBitCalls), 0U);
}

// A drainer that looks at a ring first and takes events second knows each record's window.
TEST(GateStress, AnEventIsVisibleBeforeAnyRecordOfItsWindow) {
  HostClock::Start();
  ASSERT_TRUE(MapPhaseWords());
  StepGate& gate = Gate();
  gate.Configure({.max_cycles = 0});
  ASSERT_EQ(gate.Arm({.wait = 1, .active = 1, .repeat = 0}, 1), StepGate::Verdict::kOk);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> window{0};  // begun so far, as the recording thread sees it
  std::atomic<uint64_t> begun{0};   // as the drainer sees it
  std::thread stepper([&] {
    for (int i = 0; i < 6000; ++i) {
      (void)gate.OnStepBegin(HostClock::Ticks(), 1);
      if (i % 2 == 1) window.fetch_add(1, std::memory_order_relaxed);
      gate.OnStepEnd(HostClock::Ticks());
      // Never so far ahead that events are dropped: that is another test's.
      while (window.load() > begun.load() + 1000) std::this_thread::yield();
    }
    done.store(true);
  });
  std::thread recorder([&] {
    while (!done.load()) {
      const uint64_t in_window = window.load(std::memory_order_relaxed);
      if ((g_words->bits.load(std::memory_order_relaxed) & kBitRanges) == 0) continue;
      Append(RecordKind::kMark, CallClass::kOther,
             [in_window](Record* r) { r->begin_ticks = in_window; });
    }
  });
  const auto drain = [&] {
    uint64_t newest = 0;
    RingRegistry::ForEach([&newest](ThreadRing* ring) {
      const auto span = ring->ring.Peek();
      for (uint32_t i = 0; i < span.count; ++i)
        newest = std::max(newest, span.items[i].begin_ticks);
      ring->ring.Consume(span.count);
    });
    gate.TakeEvents(
        [&begun](const GateEvent& e) { begun += e.kind == Kind::kActiveBegin ? 1 : 0; });
    ASSERT_GE(begun.load(), newest);
  };
  while (!done.load()) drain();
  stepper.join();
  recorder.join();
  drain();
  EXPECT_EQ(gate.events_dropped(), 0U);
  EXPECT_EQ(begun.load(), 3000U);
  gate.Configure({});
}

}  // namespace
}  // namespace stepagent::core
