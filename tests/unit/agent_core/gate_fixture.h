#pragma once
// What the step gate's tests share: a gate configured anew, and events as short text.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/step_gate.h"

namespace stepagent::core {

using Verdict = StepGate::Verdict;
inline constexpr uint32_t kTid = 77;

class GateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HostClock::Start();
    ASSERT_TRUE(MapPhaseWords());
    g_words->bits.store(kBitStepSource);
    Gate().Configure({.max_cycles = 0});
  }
  void TearDown() override {
    Gate().Configure({});
    g_words->bits.store(0);
  }

  static void Step(uint64_t begin, uint64_t end) {
    EXPECT_TRUE(Gate().OnStepBegin(begin, kTid));
    Gate().OnStepEnd(end);
  }
  // `count` steps of 5 ticks, 10 apart; the first begins at `from`.
  static void Steps(uint64_t from, int count) {
    for (int i = 0; i < count; ++i) Step(from + 10 * i, from + 10 * i + 5);
  }
  static uint32_t Collecting() { return g_words->bits.load() & (kBitRanges | kBitCalls); }
  static bool IsCollecting() { return Collecting() != 0; }
  static bool CountsNames() { return (g_words->bits.load() & kBitCountNames) != 0; }

  // W cycle, A active begin, E active end (with why), X cancelled, ( and ) a step; @ticks.
  static std::string TextOf(const GateEvent& event) {
    const std::string at = "@" + std::to_string(event.ticks);
    switch (event.kind) {
      case GateEvent::Kind::kWarmupBegin:
        return "W" + std::to_string(event.cycle) + at;
      case GateEvent::Kind::kActiveBegin:
        return "A" + std::to_string(event.cycle) + at;
      case GateEvent::Kind::kActiveEnd:
        return "E" + std::to_string(event.cycle) + ":" + EndedName(event.ended) + at;
      case GateEvent::Kind::kCancelled:
        return "X" + std::to_string(event.cycle) + at;
      case GateEvent::Kind::kStepBegin:
        return std::string("(") + (event.phase == Phase::kActive ? "a" : "w") +
               std::to_string(event.index) + at;
      case GateEvent::Kind::kStepEnd:
        return ")" + std::to_string(event.index) +
               (event.flags != 0 ? "!" + std::to_string(event.flags) : "") + at;
    }
    return "?";
  }
  static std::vector<GateEvent> TakeAll() {
    std::vector<GateEvent> events;
    Gate().TakeEvents([&events](const GateEvent& event) { events.push_back(event); });
    return events;
  }
  static std::string Take() {
    std::string text;
    for (const GateEvent& event : TakeAll()) text += (text.empty() ? "" : " ") + TextOf(event);
    return text;
  }
};

}  // namespace stepagent::core
