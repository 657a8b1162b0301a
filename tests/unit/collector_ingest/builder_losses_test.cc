// What never came, and whose it was.
#include "tests/unit/collector_ingest/builder_fixture.h"

namespace stepagent::model {
namespace {

TEST(CycleBuilder, LostBatchIsALossAndTheRestStillReads) {
  BatchFactory agent;
  agent.active = 1;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 110 * kMs);
  const v1::Batch first = agent.Take(101 * kMs);
  for (uint32_t i = 1; i <= 10; ++i) agent.Launch(i, 101 * kMs + i);
  const v1::Batch lost = agent.Take(102 * kMs);
  for (uint32_t i = 1; i <= 10; ++i) agent.Kernel({.begin = 103 * kMs, .correlation = i});
  agent.Event(0, Event::ACTIVE_END, 110 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 111 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {first, agent.Take(112 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).dropped, 10U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).produced, 10U);
  EXPECT_EQ(cycles[0].joins.device_work_without_launch, 10U);
  EXPECT_TRUE(HasNote(cycles[0], "lost_batches"));
  ExpectBalanced(cycles[0]);
}

// Steps of 10 ms, a batch at the end of each; which are marked is a matter of times alone.
std::vector<Cycle> CycleWithout(size_t lost) {
  BatchFactory agent;
  agent.active = 6;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  std::vector<v1::Batch> batches;
  for (uint32_t i = 0; i < 6; ++i) {
    const int64_t begin = (100 + 10 * i) * kMs;
    agent.Launch(i + 1, begin + kMs);
    agent.Kernel({.begin = begin + 2 * kMs, .correlation = i + 1});
    // A lost batch's step is told once more: only its records are gone.
    if (i == lost + 1) agent.Step(lost, begin - 10 * kMs, begin);
    agent.Step(i, begin, begin + 10 * kMs);
    if (i == 5) {
      agent.Event(0, Event::ACTIVE_END, 160 * kMs, "schedule");
      agent.Event(0, Event::CLOSED, 161 * kMs);
      agent.Report(0);
    }
    batches.push_back(agent.Take(begin + 10 * kMs));
  }
  CycleBuilder builder(agent.Hello());
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i != lost) builder.Add(batches[i]);
  }
  return builder.TakeRemaining();
}

TEST(CycleBuilder, AStepThatALostBatchMayTouchIsNotWhole) {
  const auto whole = CycleWithout(99);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_TRUE(whole[0].complete) << whole[0].reason;
  for (const Step& step : whole[0].steps) EXPECT_TRUE(step.complete);
  const auto cycles = CycleWithout(3);
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& cycle = cycles[0];
  EXPECT_FALSE(cycle.complete);
  EXPECT_NE(cycle.reason.find("1 batch never reached the collector"), std::string::npos)
      << cycle.reason;
  EXPECT_TRUE(HasNote(cycle, "lost_batches"));
  for (const Step& step : cycle.steps) {
    // Lost is what was made between 130 and 140 ms; a batch earlier may hold older records.
    const bool is_touched = step.end_ns > 120 * kMs && step.begin_ns < 150 * kMs;
    EXPECT_EQ(step.complete, !is_touched) << step.index;
    EXPECT_EQ(step.kernels.has_value(), !is_touched) << step.index;
  }
}

// Two cycles whose device work comes when both windows are over, as that of a busy device does.
std::vector<Cycle> LaggingCyclesWithout(size_t lost) {
  BatchFactory agent;
  std::vector<v1::Batch> batches;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t cycle = i / 2;
    const int64_t begin = (100 + 100 * cycle + 10 * (i % 2)) * kMs;
    if (i % 2 == 0) agent.Event(cycle, Event::ACTIVE_BEGIN, begin);
    agent.Launch(i + 1, begin + kMs);
    agent.Step(i, begin, begin + 10 * kMs, cycle);
    if (i % 2 == 1) agent.Event(cycle, Event::ACTIVE_END, begin + 10 * kMs, "schedule");
    batches.push_back(agent.Take(begin + 10 * kMs));
  }
  for (uint32_t i = 1; i <= 4; ++i) {
    agent.Kernel({.begin = (300 + i) * kMs, .correlation = i});
  }
  for (const uint32_t cycle : {0U, 1U}) {
    agent.Event(cycle, Event::CLOSED, 400 * kMs);
    agent.Report(cycle);
  }
  batches.push_back(agent.Take(401 * kMs));
  if (lost < batches.size()) batches.erase(batches.begin() + static_cast<ptrdiff_t>(lost));
  return Build(agent, batches);
}

TEST(CycleBuilder, ACycleWithoutItsEndTakesNothingFromTheNext) {
  for (const size_t lost : {size_t{99}, size_t{1}}) {
    const auto cycles = LaggingCyclesWithout(lost);
    ASSERT_EQ(cycles.size(), 2U);
    EXPECT_EQ(cycles[0].complete, lost == 99) << cycles[0].reason;
    EXPECT_LE(cycles[0].window_end_ns, cycles[1].window_begin_ns);
    EXPECT_EQ(cycles[1].calls.size(), 2U);
    EXPECT_EQ(cycles[1].kernels.size(), 2U);
    for (const Cycle& cycle : cycles) ExpectBalanced(cycle);
  }
}

// Counted by the cycle that ends first; what was in it may be the other's.
TEST(CycleBuilder, ALostBatchIsSaidOfEachCycleItMayBelongTo) {
  const auto cycles = LaggingCyclesWithout(2);
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_FALSE(cycles[1].complete);
  EXPECT_FALSE(cycles[1].reason.empty());
  EXPECT_TRUE(HasNote(cycles[0], "lost_batches"));
  EXPECT_TRUE(HasNote(cycles[1], "lost_batches"));
}

TEST(CycleBuilder, CyclesThatWentToAnotherFolderAreNoLoss) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 2);
  const v1::Batch here = agent.Take(150 * kMs);
  agent.WholeCycle(1, 4, 1, 200 * kMs, 100, 3);
  const v1::Batch elsewhere = agent.Take(250 * kMs);
  agent.WholeCycle(2, 7, 1, 300 * kMs, 200, 2);
  const v1::Batch again = agent.Take(350 * kMs);
  v1::Goodbye goodbye;
  goodbye.set_ended("request");
  CycleBuilder first(agent.Hello()), second(agent.Hello());
  first.Add(here);
  first.Add(goodbye);
  second.Add(elsewhere);
  first.Add(again);
  std::vector<Cycle> cycles = first.TakeClosed();
  ASSERT_EQ(cycles.size(), 2U);
  for (Cycle& cycle : second.TakeClosed()) cycles.push_back(std::move(cycle));
  ASSERT_EQ(cycles.size(), 3U);
  for (const Cycle& cycle : cycles) {
    EXPECT_EQ(Of(cycle, Activity::kLaunch).dropped, 0U) << cycle.index;
    EXPECT_EQ(Of(cycle, Activity::kKernel).dropped, 0U) << cycle.index;
    EXPECT_FALSE(HasNote(cycle, "lost_batches")) << cycle.index;
    ExpectBalanced(cycle);
  }
}

TEST(CycleBuilder, BatchSentTwiceCountsOnce) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 2);
  const v1::Batch batch = agent.Take(200 * kMs);
  CycleBuilder builder(agent.Hello());
  builder.Add(batch);
  builder.Add(batch);
  const auto cycles = builder.TakeClosed();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].kernels.size(), 2U);
  EXPECT_EQ(builder.progress().records, 4U + 4U + 2U);
}

TEST(CycleBuilder, DropsOfEachCycleAreItsOwn) {
  BatchFactory agent;
  agent.Dropped(v1::ACTIVITY_LAUNCH, 5);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const v1::Batch first = agent.Take(150 * kMs);
  agent.Dropped(v1::ACTIVITY_LAUNCH, 7);
  agent.WholeCycle(1, 4, 1, 200 * kMs, 100, 1);
  const auto cycles = Build(agent, {first, agent.Take(300 * kMs)});
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).dropped, 5U);
  EXPECT_EQ(Of(cycles[1], Activity::kLaunch).dropped, 2U);
}

TEST(CycleBuilder, CuptisDropsOfUnknownKindMakeDeviceCountsUnknown) {
  BatchFactory agent;
  agent.Dropped(v1::ACTIVITY_NONE, 0, 17);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(150 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).dropped.has_value());
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).produced.has_value());
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).written, 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).dropped, 0U);
  EXPECT_TRUE(HasNote(cycles[0], "cupti_dropped"));
}

TEST(CycleBuilder, CuptisDropsThatMayBeOfSeveralCyclesMakeCountsUnknownInEach) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  v1::Batch batch = agent.Take(150 * kMs);
  v1::Note* note = batch.add_notes();
  note->set_cycle(0);
  note->set_code("cupti_dropped");
  note->set_text("of this or of another cycle");
  const auto cycles = Build(agent, {batch});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).dropped.has_value());
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).produced.has_value());
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).dropped, 0U);
}

}  // namespace
}  // namespace stepagent::model
