#include "agent/core/step_gate.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/agent_core/gate_fixture.h"

namespace stepagent::core {
namespace {

// torch.profiler's action: 0 none, 1 warmup, 2 record, 3 record and save.
int ActionAt(const Schedule& s, uint64_t step) {
  if (step < s.skip_first) return 0;
  step = step - s.skip_first + (s.skip_first_wait ? s.wait : 0);
  const uint64_t length = s.wait + s.warmup + s.active;
  if (s.repeat > 0 && step / length >= s.repeat) return 0;
  const uint64_t place = step % length;
  if (place < s.wait) return 0;
  if (place < s.wait + s.warmup) return 1;
  return place + 1 < length ? 2 : 3;
}

// The events that `steps` steps of the fixture's pattern must give.
std::string ExpectedEvents(const Schedule& s, int steps) {
  std::string text;
  const auto add = [&text](const std::string& piece) { text += (text.empty() ? "" : " ") + piece; };
  int cycle = -1, before = 0;
  for (int i = 0; i < steps; ++i) {
    const int now = ActionAt(s, i);
    const std::string begin = "@" + std::to_string(100 + 10 * i);
    const std::string end = "@" + std::to_string(105 + 10 * i);
    const std::string number = std::to_string(i);
    if (now != 0 && (before == 0 || before == 3)) add("W" + std::to_string(++cycle) + begin);
    if (now >= 2 && (before < 2 || before == 3)) add("A" + std::to_string(cycle) + begin);
    if (now != 0) {
      add((now == 1 ? "(w" : "(a") + number + begin);
      add(")" + number + end);
    }
    if (now == 3) add("E" + std::to_string(cycle) + ":schedule" + end);
    before = now;
  }
  return text;
}

// Runs the schedule; bits are checked inside each step and behind it.
void RunAndCheckBits(const Schedule& s, int steps) {
  for (int i = 0; i < steps; ++i) {
    ASSERT_TRUE(Gate().OnStepBegin(100 + 10 * i, kTid));
    const int now = ActionAt(s, i), next = ActionAt(s, i + 1);
    const uint32_t bits = g_words->bits.load() & (kBitRanges | kBitCalls);
    ASSERT_EQ(bits, now != 0 ? uint32_t{kBitRanges | kBitCalls} : 0U) << "in step " << i;
    ASSERT_EQ(Gate().snapshot().wants_device, now != 0);
    Gate().OnStepEnd(105 + 10 * i);
    const bool stays = now == 1 || now == 2 || (now == 3 && next != 0);
    ASSERT_EQ((g_words->bits.load() & kBitRanges) != 0, stays) << "behind step " << i;
    ASSERT_EQ(Gate().snapshot().wants_device, stays);
    ASSERT_EQ(Gate().snapshot().window_open, now == 2);
  }
}

TEST_F(GateTest, GivesTorchsCyclesOverTheWholeSmallSpace) {
  constexpr int kSteps = 20;
  for (uint64_t skip : {0, 1, 3})
    for (uint64_t wait = 0; wait <= 3; ++wait)
      for (uint64_t warmup = 0; warmup <= 2; ++warmup)
        for (uint64_t active = 1; active <= 3; ++active)
          for (uint64_t repeat = 0; repeat <= 3; ++repeat)
            for (bool first_wait : {false, true}) {
              const Schedule s{skip, wait, warmup, active, repeat, first_wait};
              Gate().Configure({.max_cycles = 0});
              ASSERT_EQ(Gate().Arm(s, 1), Verdict::kOk);
              ASSERT_NO_FATAL_FAILURE(RunAndCheckBits(s, kSteps));
              ASSERT_EQ(Take(), ExpectedEvents(s, kSteps));
              ASSERT_EQ(Gate().snapshot().process_index, uint64_t{kSteps});
            }
}

TEST_F(GateTest, UnarmedStepsAreCountedAndTimedOnly) {
  Steps(100, 5);
  EXPECT_EQ(Take(), "");
  EXPECT_FALSE(IsCollecting());
  const StepGate::Snapshot shot = Gate().snapshot();
  EXPECT_EQ(shot.process_index, 5U);
  EXPECT_EQ(shot.phase, Phase::kIdle);
  EXPECT_EQ(shot.median_step_ticks, 10U);
  StepGate::StepDuration durations[8];
  uint64_t total = 0;
  ASSERT_EQ(Gate().CopyDurations(durations, 8, &total), 5U);
  EXPECT_EQ(total, 5U);
  EXPECT_EQ(durations[4].index, 4U);
  EXPECT_EQ(durations[4].ticks, 5U);
}

TEST_F(GateTest, CountsFromArmingAndFromProcessStart) {
  Steps(100, 3);
  ASSERT_EQ(Gate().Arm({.wait = 1, .active = 1, .repeat = 1}, 150), Verdict::kOk);
  Steps(200, 2);
  const auto events = TakeAll();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[2].index, 1U);
  EXPECT_EQ(events[2].process_index, 4U);
  EXPECT_EQ(events[2].tid, kTid);
}

TEST_F(GateTest, ArmedInsideAStepCountsFromTheNext) {
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 101), Verdict::kOk);
  EXPECT_FALSE(IsCollecting());
  Gate().OnStepEnd(105);
  EXPECT_EQ(Take(), "");
  Step(110, 115);
  EXPECT_EQ(Take(), "W0@110 A0@110 (a0@110 )0@115 E0:schedule@115");
}

TEST_F(GateTest, DurationsSayWhatWasCollected) {
  ASSERT_EQ(Gate().Arm({.wait = 1, .warmup = 1, .active = 1, .repeat = 1}, 1), Verdict::kOk);
  Steps(100, 4);
  Gate().SetTailPending(false);
  Step(200, 205);
  StepGate::StepDuration durations[8];
  uint64_t total = 0;
  ASSERT_EQ(Gate().CopyDurations(durations, 8, &total), 5U);
  const uint32_t expected[] = {0, 1, 2, 3, 0};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(durations[i].collecting, expected[i]) << i;
}

TEST_F(GateTest, NestedMatchOnTheSameThreadCountsOnce) {
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_FALSE(Gate().OnStepBegin(101, kTid));
  EXPECT_EQ(Gate().snapshot().overlapping, 0U);
  Gate().OnStepEnd(105);
  EXPECT_EQ(Gate().snapshot().process_index, 1U);
}

TEST_F(GateTest, MatchOnAnotherThreadIsOverlapping) {
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  EXPECT_FALSE(Gate().OnStepBegin(101, kTid + 1));
  EXPECT_FALSE(Gate().OnStepBegin(102, kTid + 2));
  Gate().OnStepEnd(105);
  EXPECT_EQ(Gate().snapshot().overlapping, 2U);
  EXPECT_TRUE(Gate().OnStepBegin(110, kTid + 1));
  Gate().OnStepEnd(115);
  EXPECT_EQ(Gate().snapshot().process_index, 2U);
}

TEST_F(GateTest, StrayEndChangesNothing) {
  Gate().OnStepEnd(50);
  Step(100, 105);
  Gate().OnStepEnd(106);
  EXPECT_EQ(Gate().snapshot().process_index, 1U);
  EXPECT_FALSE(Gate().snapshot().step_open);
}

TEST_F(GateTest, PeriodRunsToTheNextBegin) {
  Gate().Configure({.extent = GateConfig::Extent::kPeriod, .max_cycles = 0});
  ASSERT_EQ(Gate().Arm({.warmup = 1, .active = 2, .repeat = 1}, 1), Verdict::kOk);
  for (int i = 0; i < 5; ++i) Step(100 + 10 * i, 103 + 10 * i);
  EXPECT_EQ(Take(), "W0@100 (w0@100 )0@110 A0@110 (a1@110 )1@120 (a2@120 )2@130 E0:schedule@130");
  // The range of another thread overlaps only while a range is open, not in the rest of the period.
  EXPECT_TRUE(Gate().OnStepBegin(150, kTid + 1));
  EXPECT_FALSE(Gate().OnStepBegin(151, kTid));
  EXPECT_EQ(Gate().snapshot().overlapping, 1U);
}

TEST_F(GateTest, BoundariesAreSteps) {
  ASSERT_EQ(Gate().Arm({.wait = 2, .warmup = 1, .active = 1, .repeat = 2}, 1), Verdict::kOk);
  for (uint64_t i = 0; i < 9; ++i) Gate().OnBoundary(100 + 10 * i, kTid);
  EXPECT_EQ(Take(),
            "W0@120 (w2@120 )2@130 A0@130 (a3@130 )3@140 E0:schedule@140 "
            "W1@160 (w6@160 )6@170 A1@170 (a7@170 )7@180 E1:schedule@180");
  EXPECT_EQ(Gate().snapshot().phase, Phase::kFinishing);
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kDone);
}

TEST_F(GateTest, BoundariesThatWereSleptThroughAreCounted) {
  ASSERT_EQ(Gate().Arm({.wait = 1'000'000'000, .active = 2, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().steps_until_collecting, 1'000'000'000U);
  Gate().OnBoundary(100, kTid, 999'999'999);
  EXPECT_EQ(Gate().snapshot().process_index, 999'999'998U);
  Gate().OnBoundary(110, kTid, 2);  // the second of them is active
  Gate().OnBoundary(120, kTid, 5);  // late: one more active step, then three that are not
  EXPECT_EQ(Take(),
            "W0@110 A0@110 (a1000000000@110 )1000000000@120 (a1000000001@120 )1000000001@120 "
            "E0:schedule@120");
}

TEST_F(GateTest, MaxCyclesEndsTheRun) {
  Gate().Configure({.max_cycles = 2});
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 0}, 1), Verdict::kOk);
  Steps(100, 5);
  EXPECT_EQ(Take(),
            "W0@100 A0@100 (a0@100 )0@105 E0:schedule@105 "
            "W1@110 A1@110 (a1@110 )1@115 E1:schedule@115");
  EXPECT_FALSE(IsCollecting());
  Gate().SetTailPending(false);
  EXPECT_EQ(Gate().snapshot().phase, Phase::kDone);
  EXPECT_EQ(Gate().Arm({}, 1), Verdict::kRefused);
  EXPECT_EQ(Gate().ArmWhole(1), Verdict::kRefused);
}

TEST_F(GateTest, CyclesAreNumberedAcrossArmings) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
    Step(100, 105);
    Gate().SetTailPending(false);
  }
  std::vector<uint32_t> cycles;
  for (const GateEvent& event : TakeAll()) {
    if (event.kind == GateEvent::Kind::kActiveBegin) cycles.push_back(event.cycle);
  }
  EXPECT_EQ(cycles, (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(GateTest, NamesAreCountedUntilAStepMatches) {
  EXPECT_FALSE(CountsNames());
  ASSERT_EQ(Gate().Arm({.wait = 5, .active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_TRUE(CountsNames());
  Step(100, 105);
  EXPECT_FALSE(CountsNames());
}

TEST_F(GateTest, WithNoNvtxStepSourceNamesAreNotCounted) {
  g_words->bits.store(0);
  ASSERT_EQ(Gate().Arm({.wait = 5, .active = 1}, 1), Verdict::kOk);
  EXPECT_FALSE(CountsNames());
}

TEST_F(GateTest, OnlyAskedForBitsAreSet) {
  Gate().Configure({.collect_bits = kBitCalls});
  ASSERT_EQ(Gate().ArmWhole(1), Verdict::kOk);
  EXPECT_EQ(Collecting(), uint32_t{kBitCalls});
}

TEST_F(GateTest, ReconfiguringKeepsTheCounts) {
  Steps(100, 3);
  ASSERT_EQ(Gate().Reconfigure({.collect_bits = kBitRanges}), Verdict::kOk);
  EXPECT_EQ(Gate().snapshot().process_index, 3U);
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 1}, 1), Verdict::kOk);
  EXPECT_EQ(Gate().Reconfigure({}), Verdict::kBusy);
  EXPECT_TRUE(Gate().OnStepBegin(200, kTid));
  EXPECT_EQ(Collecting(), uint32_t{kBitRanges});
  Gate().OnStepEnd(205);
}

TEST_F(GateTest, FullEventRingDropsStepsInPairsAndCyclesWhole) {
  ASSERT_EQ(Gate().Arm({.active = 1, .repeat = 0}, 1), Verdict::kOk);
  Steps(100, 5000);  // five events each, nobody takes them
  const auto events = TakeAll();
  EXPECT_LE(events.size(), 8192U);
  EXPECT_GT(Gate().events_dropped(), 0U);
  int begun = 0, ended = 0, opened = 0, closed = 0;
  for (const GateEvent& event : events) {
    begun += event.kind == GateEvent::Kind::kStepBegin;
    ended += event.kind == GateEvent::Kind::kStepEnd;
    opened += event.kind == GateEvent::Kind::kActiveBegin;
    closed += event.kind == GateEvent::Kind::kActiveEnd;
  }
  EXPECT_EQ(begun, ended);
  EXPECT_EQ(opened, closed);
  EXPECT_EQ(Gate().snapshot().process_index, 5000U);
  EXPECT_FALSE(Gate().snapshot().wants_device) << "a cycle left out must not collect";
  Step(900000, 900005);  // room again
  EXPECT_EQ(TakeAll().size(), 5U);
}

TEST_F(GateTest, AForkedChildIsInertAndStartsAfresh) {
  ASSERT_EQ(Gate().Arm({.active = 2, .repeat = 0}, 1), Verdict::kOk);
  EXPECT_TRUE(Gate().OnStepBegin(100, kTid));
  const pid_t child = fork();
  if (child == 0) {
    bool good = !Gate().OnStepBegin(110, kTid) && Gate().Arm({}, 1) == Verdict::kRefused;
    Gate().OnStepEnd(105);
    good = good && g_words->bits.load() == 0 && MapPhaseWords();
    Gate().Configure({});
    good = good && Gate().snapshot().process_index == 0 && TakeAll().empty();
    good = good && Gate().Arm({.active = 1, .repeat = 1}, 1) == Verdict::kOk;
    Step(200, 205);
    good = good && Take() == "W0@200 A0@200 (a0@200 )0@205 E0:schedule@205";
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Gate().OnStepEnd(105);
}

}  // namespace
}  // namespace stepagent::core
