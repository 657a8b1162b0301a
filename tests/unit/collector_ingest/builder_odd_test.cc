// Records that CUPTI may deliver and that are no plain work: without times, without an end, twice,
// without a name, or with stamps of a clock that is off.
#include "tests/unit/collector_ingest/builder_fixture.h"

namespace stepagent::model {
namespace {

TEST(CycleBuilder, ImpossibleStampsAreCountedNotPlaced) {
  BatchFactory agent;
  for (uint32_t i = 0; i < 4; ++i) agent.Launch(50 + i, 100 * kMs + 100 + i);
  agent.Kernel({.correlation = 50, .flags = v1::DEVICE_NO_TIMING, .raw_zero = true});
  agent.Kernel({.begin = 100 * kMs + 900, .correlation = 51, .flags = v1::DEVICE_UNFINISHED});
  agent.Kernel({.begin = 100 * kMs + 900, .correlation = 52, .flags = v1::DEVICE_REVERSED});
  agent.Kernel({.begin = 3'000'000'000 * kMs, .correlation = 53});  // year 2100 or so
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  EXPECT_EQ(Of(c, Activity::kKernel).invalid, 4U);
  EXPECT_EQ(NoteText(c, "impossible_stamps").substr(0, 16), "3 device records");
  EXPECT_EQ(NoteText(c, "unfinished_work").substr(0, 8), "1 piece ");
  EXPECT_EQ(Of(c, Activity::kKernel).written, 1U);
  EXPECT_EQ(c.steps[0].kernels, 1U);
  EXPECT_EQ(c.joins.launches_without_device_work, 0U);  // they ran, their times are unknown
  EXPECT_FALSE(c.steps[0].complete);
  EXPECT_FALSE(c.complete);
  EXPECT_EQ(c.reason,
            "1 piece of device work that had not ended, 3 device records with impossible times");
  ExpectBalanced(c);
}

// A clock may tick coarser than calls come: the order in which they came is kept, the links with
// them.
TEST(CycleBuilder, CallsThatBeginInOneNanosecondStayInOrder) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs);
  for (uint32_t i = 0; i < 3; ++i) {
    agent.Call({.begin = 100 * kMs + 100, .duration = 50 + i, .correlation = 50 + i});
    agent.Kernel({.begin = 100 * kMs + 900 + 100 * i, .duration = 50, .correlation = 50 + i});
  }
  agent.Event(0, Event::ACTIVE_END, 101 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 102 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  ASSERT_EQ(cycles[0].calls.size(), 3U);
  ASSERT_EQ(cycles[0].kernels.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cycles[0].calls[i].correlation, 50 + i);
    EXPECT_EQ(cycles[0].kernels[i].call, static_cast<int32_t>(i));
  }
  ExpectBalanced(cycles[0]);
}

// No time at all: nobody can say how many kernels ran when, and that is not "0 kernels".
TEST(CycleBuilder, AStepWhoseKernelsHaveNoTimesHasNoCountOfThem) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs);
  agent.Step(1, 101 * kMs, 102 * kMs);
  for (uint32_t i = 0; i < 4; ++i) {
    agent.Launch(50 + i, 100 * kMs + 600'000 * i);
    agent.Kernel({.correlation = 50 + i, .flags = v1::DEVICE_NO_TIMING, .raw_zero = true});
  }
  // Launched when the window was over: nothing but its number tells.
  agent.Kernel({.correlation = 60, .flags = v1::DEVICE_NO_TIMING, .raw_zero = true});
  agent.Event(0, Event::ACTIVE_END, 102 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 103 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  for (const Step& step : c.steps) {
    EXPECT_EQ(step.launches, 2U);
    EXPECT_FALSE(step.kernels.has_value());
    EXPECT_EQ(step.copies, 0U);
    EXPECT_FALSE(step.complete);
  }
  EXPECT_FALSE(c.complete);
  EXPECT_EQ(c.reason, "4 device records with impossible times");
  EXPECT_EQ(Of(c, Activity::kKernel).invalid, 4U);
  EXPECT_EQ(Of(c, Activity::kKernel).out_of_window, 1U);
  EXPECT_EQ(c.joins.device_work_without_launch, 0U);
  ExpectBalanced(c);
}

// A device clock that falls behind the one that CUPTI tells: work of the next step, launched by
// calls that were not recorded, seems to begin in the window.
TEST(CycleBuilder, WorkLaunchedAfterTheWindowStaysOutWhereDeviceStampsRunAhead) {
  for (const int64_t ahead_ns : {0, 700'000}) {
    BatchFactory agent;
    agent.WholeCycle(0, 1, 1, 100 * kMs, 10, 2, 2000 - ahead_ns);
    agent.Launch(30, 100 * kMs + 900'000);
    agent.Kernel({.begin = 100 * kMs + 910'000, .correlation = 30});
    // The window ends at 101 ms; launched at 100.8 ms by a call that was not seen, and at 101.2 ms.
    agent.Kernel({.begin = 100 * kMs + 810'000, .correlation = 25});
    agent.Kernel({.begin = 101 * kMs + 200'000 - ahead_ns, .correlation = 40});
    agent.Copy({.begin = 101 * kMs + 210'000 - ahead_ns, .correlation = 41, .bytes = 8});
    const auto cycles = Build(agent, {agent.Take(200 * kMs)});
    ASSERT_EQ(cycles.size(), 1U);
    const Cycle& c = cycles[0];
    EXPECT_EQ(HasNote(c, "device_before_launch"), ahead_ns != 0);
    EXPECT_EQ(Of(c, Activity::kKernel).written, 2U + 1U + 1U) << ahead_ns;
    EXPECT_EQ(Of(c, Activity::kKernel).out_of_window, 2U + 1U) << ahead_ns;
    EXPECT_EQ(Of(c, Activity::kMemcpy).written, 0U) << ahead_ns;
    EXPECT_EQ(Of(c, Activity::kMemcpy).out_of_window, 1U) << ahead_ns;
    EXPECT_EQ(c.joins.device_work_without_launch, 1U);
    ExpectBalanced(c);
  }
}

TEST(CycleBuilder, RecordsThatCameTwiceAreWorkOnce) {
  BatchFactory agent;
  agent.Launch(50, 100 * kMs + 100);
  for (int i = 0; i < 3; ++i) agent.Kernel({.begin = 100 * kMs + 900, .correlation = 50});
  // Nodes of one graph side by side, and two copies of another size: not the same work.
  agent.Call({.name = "cuGraphLaunch",
              .cls = v1::CALL_GRAPH_LAUNCH,
              .begin = 100 * kMs + 200,
              .correlation = 51});
  for (uint64_t node : {1, 2}) {
    agent.Kernel({.begin = 100 * kMs + 950, .correlation = 51, .graph = 3, .node = node});
  }
  agent.Copy({.begin = 100 * kMs + 990, .correlation = 51, .graph = 3, .bytes = 8});
  agent.Copy({.begin = 100 * kMs + 990, .correlation = 51, .graph = 3, .bytes = 16});
  // Twice without a launch.
  for (int i = 0; i < 2; ++i) agent.Kernel({.begin = 100 * kMs + 999, .correlation = 77});
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  EXPECT_EQ(Of(c, Activity::kKernel).written, 1U + 2U + 1U + 1U);
  EXPECT_EQ(Of(c, Activity::kKernel).invalid, 3U);
  EXPECT_EQ(Of(c, Activity::kMemcpy).written, 2U);
  EXPECT_EQ(c.kernels.size(), 5U);
  for (const Call& call : c.calls) {
    if (call.correlation == 50) {
      EXPECT_EQ(call.device_items, 1U);
    }
  }
  EXPECT_EQ(c.joins.device_work_without_launch, 1U);
  EXPECT_EQ(NoteText(c, "duplicate_records").substr(0, 16), "3 device records");
  EXPECT_FALSE(HasNote(c, "impossible_stamps"));
  ExpectBalanced(c);
}

TEST(CycleBuilder, KernelsWithoutANameAreCalledSo) {
  BatchFactory agent;
  agent.Launch(50, 100 * kMs + 100);
  agent.Kernel({.name = "", .begin = 100 * kMs + 900, .correlation = 50});
  v1::Batch batch = agent.Take(150 * kMs);
  batch.mutable_kernels()->mutable_shapes()->clear_name();  // as the agent leaves out all zeros
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {batch, agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  ASSERT_EQ(cycles[0].kernels.size(), 2U);
  const Shape& shape = cycles[0].shapes[cycles[0].kernels[0].shape];
  EXPECT_EQ(cycles[0].Text(shape.name), "(kernel without a name)");
  EXPECT_EQ(cycles[0].Text(shape.demangled), "(kernel without a name)");
  EXPECT_EQ(shape.block[0], 128U);
}

// A wait's record is detail beside its call: one with impossible times costs a note, no count.
TEST(CycleBuilder, ImpossibleWaitsAreToldAndTheirCallsStand) {
  BatchFactory agent;
  for (const uint32_t correlation : {70, 71}) {
    agent.Call({.name = "cudaStreamSynchronize",
                .cls = v1::CALL_SYNC,
                .begin = 100 * kMs + correlation,
                .correlation = correlation});
    agent.Wait({.begin = 100 * kMs + correlation,
                .duration = 10,
                .correlation = correlation,
                .flags = correlation == 70 ? uint32_t{v1::DEVICE_REVERSED} : 0U});
  }
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].syncs.size(), 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kSync).produced, 2U);
  EXPECT_EQ(Of(cycles[0], Activity::kSync).written, 2U);
  EXPECT_EQ(Of(cycles[0], Activity::kSync).invalid, 0U);
  EXPECT_EQ(NoteText(cycles[0], "impossible_waits").substr(0, 6), "1 wait");
  EXPECT_TRUE(cycles[0].complete);
}

}  // namespace
}  // namespace stepagent::model
