// Attribution, window, joins, balance: what CycleBuilder makes of batches.
#include "tests/unit/collector_ingest/builder_fixture.h"

namespace stepagent::model {
namespace {

TEST(CycleBuilder, WholeCycleHasItsStepsKernelsAndBalance) {
  BatchFactory agent;
  agent.WholeCycle(0, 4, 2, 100 * kMs, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  EXPECT_TRUE(c.complete);
  EXPECT_EQ(c.ended, "schedule");
  EXPECT_EQ(c.window_begin_ns, 100 * kMs);
  EXPECT_EQ(c.window_end_ns, 102 * kMs);
  ASSERT_EQ(c.steps.size(), 2U);
  EXPECT_EQ(c.steps[0].index, 4U);
  EXPECT_EQ(c.steps[1].index, 5U);
  EXPECT_EQ(c.steps[0].launches, 3U);
  EXPECT_EQ(c.steps[0].kernels, 3U);
  EXPECT_EQ(c.kernels.size(), 6U);
  for (const Kernel& k : c.kernels) {
    const std::string want = "k_" + std::to_string(c.steps[static_cast<size_t>(k.step)].index);
    EXPECT_EQ(c.Text(c.shapes[k.shape].name), want);
    EXPECT_EQ(k.flow_id, c.calls[static_cast<size_t>(k.call)].flow_id);
  }
  EXPECT_EQ(Of(c, Activity::kKernel).written, 6U);
  EXPECT_EQ(Of(c, Activity::kKernel).out_of_window, 3U);  // the warmup step's
  EXPECT_EQ(Of(c, Activity::kLaunch).produced, 9U);
  EXPECT_EQ(c.joins.launches, 6U);
  EXPECT_EQ(c.joins.launches_without_device_work, 0U);
  ExpectBalanced(c);
}

// Three steps of lag: warmup work runs inside the window, window work long after it.
TEST(CycleBuilder, WorkBelongsToTheStepThatLaunchedItHoweverLate) {
  BatchFactory agent;
  agent.WholeCycle(0, 4, 2, 100 * kMs, 1, 10, 3 * kMs);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  EXPECT_EQ(c.kernels.size(), 20U);
  for (const Kernel& k : c.kernels) {
    EXPECT_EQ(c.Text(c.shapes[k.shape].name),
              "k_" + std::to_string(c.steps[static_cast<size_t>(k.step)].index));
  }
  EXPECT_EQ(Of(c, Activity::kKernel).out_of_window, 10U);
  EXPECT_TRUE(c.complete);
}

TEST(CycleBuilder, NothingFromWarmup) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 5, 1 * kMs);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  for (const Call& call : cycles[0].calls) EXPECT_GE(call.begin_ns, 100 * kMs);
  for (const Range& range : cycles[0].ranges) EXPECT_GE(range.begin_ns, 100 * kMs);
  for (const Kernel& k : cycles[0].kernels) {
    EXPECT_EQ(cycles[0].Text(cycles[0].shapes[k.shape].name), "k_1");
  }
}

TEST(CycleBuilder, BackToBackCyclesShareNothing) {
  BatchFactory agent;
  agent.warmup = 0;
  // Cycle 1 begins where cycle 0 ends; its records come before cycle 0 is closed.
  uint32_t correlation = 1;
  for (uint32_t cycle = 0; cycle < 2; ++cycle) {
    const int64_t begin = (100 + cycle) * kMs;
    agent.Event(cycle, Event::WARMUP_BEGIN, begin);
    agent.Event(cycle, Event::ACTIVE_BEGIN, begin);
    agent.Step(cycle, begin, begin + kMs, cycle);
    for (int i = 0; i < 4; ++i, ++correlation) {
      agent.Launch(correlation, begin + 1000 * (i + 1));
      agent.Kernel({.begin = begin + 3 * kMs, .correlation = correlation});
    }
    agent.Event(cycle, Event::ACTIVE_END, begin + kMs, "schedule");
  }
  agent.Event(0, Event::CLOSED, 105 * kMs);
  agent.Report(0);
  const v1::Batch first = agent.Take(106 * kMs);
  agent.Event(1, Event::CLOSED, 107 * kMs);
  agent.Report(1);
  const auto cycles = Build(agent, {first, agent.Take(108 * kMs)});
  ASSERT_EQ(cycles.size(), 2U);
  for (const Cycle& c : cycles) {
    EXPECT_EQ(c.calls.size(), 4U);
    EXPECT_EQ(c.kernels.size(), 4U);
    EXPECT_EQ(Of(c, Activity::kKernel).written, 4U);
    EXPECT_EQ(Of(c, Activity::kKernel).out_of_window, 0U);
    EXPECT_EQ(c.joins.device_work_without_launch, 0U);
    ExpectBalanced(c);
  }
}

// A record of cycle 0's launch that comes when cycle 1 is under way is neither cycle's to draw.
TEST(CycleBuilder, LateRecordOfAFinishedCycleIsOutOfWindow) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const v1::Batch first = agent.Take(150 * kMs);
  agent.Kernel({.name = "late", .begin = 200 * kMs + 500, .correlation = 2});  // step 1's launch
  agent.WholeCycle(1, 4, 1, 200 * kMs, 100, 1);
  const auto cycles = Build(agent, {first, agent.Take(300 * kMs)});
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_EQ(cycles[1].kernels.size(), 1U);
  EXPECT_EQ(cycles[1].joins.device_work_without_launch, 0U);
  EXPECT_EQ(Of(cycles[1], Activity::kKernel).out_of_window, 2U);
}

TEST(CycleBuilder, ReusedCorrelationGoesToTheNewestLaunchBeforeTheWork) {
  BatchFactory agent;
  agent.active = 1;
  agent.Event(0, Event::WARMUP_BEGIN, 90 * kMs);
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 400 * kMs);
  agent.Launch(7, 110 * kMs);
  agent.Kernel({.name = "first", .begin = 111 * kMs, .correlation = 7});
  agent.Launch(7, 300 * kMs);
  agent.Kernel({.name = "second", .begin = 301 * kMs, .correlation = 7});
  agent.Event(0, Event::ACTIVE_END, 400 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 400 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(500 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  ASSERT_EQ(c.kernels.size(), 2U);
  EXPECT_EQ(c.calls[static_cast<size_t>(c.kernels[0].call)].begin_ns, 110 * kMs);
  EXPECT_EQ(c.calls[static_cast<size_t>(c.kernels[1].call)].begin_ns, 300 * kMs);
  EXPECT_NE(c.calls[0].flow_id, c.calls[1].flow_id);
  EXPECT_NE(c.calls[0].flow_id, 0U);
}

TEST(CycleBuilder, WorkWithoutALaunchIsKeptByItsTime) {
  BatchFactory agent;
  agent.Kernel({.name = "inside", .begin = 100 * kMs + 5000, .correlation = 900});
  agent.Kernel({.name = "before", .begin = 99 * kMs, .correlation = 901});
  agent.Kernel({.name = "device launched", .begin = 100 * kMs + 9000, .graph = 5});
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].joins.device_work_without_launch, 2U);
  EXPECT_EQ(cycles[0].kernels.size(), 3U);
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).out_of_window, 2U);
  EXPECT_TRUE(HasNote(cycles[0], "unknown_graph"));
  for (const Kernel& k : cycles[0].kernels) {
    if (k.call == kNoIndex) {
      EXPECT_EQ(k.flow_id, 0U);
    }
  }
  ExpectBalanced(cycles[0]);
}

TEST(CycleBuilder, ABufferThatCouldNotBeReadToItsEndMakesDeviceCountsUnknown) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  v1::Batch first = agent.Take(150 * kMs);
  auto* kind = first.mutable_losses()->add_kinds();
  kind->set_activity(v1::ACTIVITY_NONE);
  kind->set_invalid(2);
  agent.WholeCycle(1, 4, 1, 200 * kMs, 100, 1);
  v1::Batch second = agent.Take(300 * kMs);
  *second.mutable_losses()->add_kinds() = *kind;  // a running total
  const auto cycles = Build(agent, {first, second});
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).produced.has_value());
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).written, 1U);
  EXPECT_EQ(NoteText(cycles[0], "unreadable_buffers").substr(0, 9), "2 buffers");
  EXPECT_EQ(Of(cycles[1], Activity::kKernel).dropped, 0U);
  EXPECT_FALSE(HasNote(cycles[1], "unreadable_buffers"));
}

TEST(CycleBuilder, ALossNamesTheSettingThatGivesRoom) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  v1::Batch first = agent.Take(150 * kMs);
  auto* kind = first.mutable_losses()->add_kinds();
  kind->set_activity(v1::ACTIVITY_NVTX);
  kind->set_produced(9);
  kind->set_dropped_ring_full(7);
  kind->set_dropped_limit(2);
  agent.WholeCycle(1, 4, 1, 200 * kMs, 100, 1);
  v1::Batch second = agent.Take(300 * kMs);
  *second.mutable_losses()->add_kinds() = *kind;  // a running total
  const auto cycles = Build(agent, {first, second});
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_NE(NoteText(cycles[0], "ring_full").find("7 records"), std::string::npos);
  EXPECT_NE(NoteText(cycles[0], "ring_full").find("--ring-memory"), std::string::npos);
  EXPECT_NE(NoteText(cycles[0], "record_limit").find("--max-records"), std::string::npos);
  EXPECT_FALSE(HasNote(cycles[0], "uplink_full"));
  EXPECT_FALSE(HasNote(cycles[1], "ring_full"));  // told once
}

TEST(CycleBuilder, NotesCountInGoodEnglish) {
  BatchFactory agent;
  for (uint32_t i = 0; i < 9; ++i) agent.Launch(50 + i, 100 * kMs + 100 + i);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto nine = Build(agent, {agent.Take(200 * kMs)});
  EXPECT_EQ(NoteText(nine.at(0), "launches_without_device_work").substr(0, 18),
            "9 launches without");
  BatchFactory other;
  other.Launch(50, 100 * kMs + 100);
  other.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto one = Build(other, {other.Take(200 * kMs)});
  EXPECT_EQ(NoteText(one.at(0), "launches_without_device_work").substr(0, 16), "1 launch without");
}

TEST(CycleBuilder, FailedAndCapturedLaunchesOweNothing) {
  BatchFactory agent;
  agent.Launch(60, 100 * kMs + 100, 1, v1::CALL_FAILED);
  agent.Launch(61, 100 * kMs + 200, 1, v1::CALL_CAPTURED);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].joins.launches, 3U);
  EXPECT_EQ(cycles[0].joins.failed, 1U);
  EXPECT_EQ(cycles[0].joins.captured, 1U);
  EXPECT_EQ(cycles[0].joins.launches_without_device_work, 0U);
  EXPECT_EQ(cycles[0].steps[0].launches, 3U);
  EXPECT_TRUE(cycles[0].complete);
}

TEST(CycleBuilder, LaunchWithoutWorkMakesItsStepIncomplete) {
  BatchFactory agent;
  agent.Launch(60, 100 * kMs + 100);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].joins.launches_without_device_work, 1U);
  EXPECT_FALSE(cycles[0].steps[0].complete);
  EXPECT_FALSE(cycles[0].complete);
  EXPECT_EQ(cycles[0].reason, "1 launch without a device record");
  // No count of losses explains it: how many records there were is not known.
  for (const Activity kind : {Activity::kKernel, Activity::kMemcpy, Activity::kMemset}) {
    EXPECT_TRUE(Of(cycles[0], kind).written.has_value());
    EXPECT_FALSE(Of(cycles[0], kind).dropped.has_value());
    EXPECT_FALSE(Of(cycles[0], kind).produced.has_value());
  }
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).dropped, 0U);
}

// A cycle that ran to its end is never called incomplete without a word of what it lacks.
TEST(CycleBuilder, CallsAwaitedInVainAreNamed) {
  BatchFactory agent;
  const auto set = [&](uint32_t correlation, uint32_t flags) {
    agent.Call({.name = "cudaMemsetAsync",
                .cls = v1::CALL_MEMSET,
                .begin = 100 * kMs + correlation,
                .correlation = correlation,
                .flags = flags});
  };
  for (const uint32_t correlation : {60, 61}) set(correlation, 0);
  set(62, v1::CALL_EMPTY);  // a set of nothing owes nothing
  agent.Call({.name = "cudaMemcpyAsync",
              .cls = v1::CALL_MEMCPY,
              .begin = 100 * kMs + 100,
              .correlation = 63});
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  agent.Report(0)->set_launches_awaited_in_vain(3);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_FALSE(cycles[0].complete);
  EXPECT_EQ(cycles[0].reason, "1 copy call, 2 set calls without a device record");
}

// What nobody was asked to count is not zero; what came all the same is counted.
TEST(CycleBuilder, KindsThatWereNotAskedForAreNull) {
  BatchFactory agent;
  agent.activities = {"memcpy", "launch", "nvtx"};
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 0);
  for (auto& kind : *agent.Report(0)->mutable_kinds()) {
    const bool is_on = kind.activity() == v1::ACTIVITY_MEMCPY ||
                       kind.activity() == v1::ACTIVITY_LAUNCH ||
                       kind.activity() == v1::ACTIVITY_NVTX;
    kind.set_requested(is_on);
    kind.set_enabled(is_on);
  }
  agent.Set({.begin = 100 * kMs + 500, .correlation = 0});
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  for (const Activity activity : {Activity::kKernel, Activity::kSync, Activity::kMemory}) {
    EXPECT_FALSE(Of(c, activity).produced.has_value()) << ActivityName(activity);
    EXPECT_FALSE(Of(c, activity).written.has_value()) << ActivityName(activity);
    EXPECT_FALSE(Of(c, activity).out_of_window.has_value()) << ActivityName(activity);
  }
  EXPECT_FALSE(c.steps[0].kernels.has_value());
  EXPECT_EQ(c.steps[0].copies, 0U);
  EXPECT_EQ(Of(c, Activity::kMemcpy).produced, 0U);
  EXPECT_EQ(Of(c, Activity::kLaunch).written, 0U);
  EXPECT_EQ(Of(c, Activity::kMemset).written, 1U);
  EXPECT_FALSE(c.joins.launches_without_device_work.has_value());
  ExpectBalanced(c);
}

TEST(CycleBuilder, GraphAtEitherLevelIsOneLaunch) {
  BatchFactory agent;
  agent.Call({.name = "cuGraphLaunch",
              .cls = v1::CALL_GRAPH_LAUNCH,
              .begin = 100 * kMs + 100,
              .correlation = 60});
  for (uint64_t node = 1; node <= 5000; ++node) {
    agent.Kernel({.name = "node",
                  .begin = 100 * kMs + static_cast<int64_t>(node) * 100,
                  .correlation = 60,
                  .graph = 3,
                  .node = node});
  }
  agent.Call({.name = "cuGraphLaunch",
              .cls = v1::CALL_GRAPH_LAUNCH,
              .begin = 100 * kMs + 200,
              .correlation = 61});
  agent.GraphLaunch({.begin = 100 * kMs + 300, .correlation = 61, .graph = 4});
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].kernels.size(), 5001U);
  EXPECT_EQ(cycles[0].graph_launches.size(), 1U);
  EXPECT_EQ(cycles[0].joins.launches, 3U);
  EXPECT_EQ(cycles[0].joins.launches_without_device_work, 0U);
  EXPECT_EQ(cycles[0].joins.device_work_without_launch, 0U);
  ExpectBalanced(cycles[0]);
}

TEST(CycleBuilder, LaunchBetweenStepsIsOutsideThem) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs);
  agent.Step(1, 102 * kMs, 103 * kMs);
  agent.Launch(1, 101 * kMs);  // the end is not part of the step
  agent.Kernel({.begin = 101 * kMs + 500, .correlation = 1});
  agent.Launch(2, 103 * kMs);  // nor of the window
  agent.Kernel({.begin = 102 * kMs + 500, .correlation = 2});
  agent.Event(0, Event::ACTIVE_END, 103 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 104 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].outside_steps.launches, 1U);
  EXPECT_EQ(cycles[0].outside_steps.kernels, 1U);
  EXPECT_EQ(cycles[0].kernels.size(), 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).out_of_window, 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).out_of_window, 1U);
}

TEST(CycleBuilder, HostOnlyHasNullsWhereTheDeviceWouldCount) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Push("train_step", 100 * kMs);
  agent.Pop(101 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs);
  agent.Step(1, 101 * kMs, 102 * kMs);
  agent.Event(0, Event::ACTIVE_END, 102 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 102 * kMs);
  agent.Report(0, "unavailable");
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_TRUE(cycles[0].HostOnly());
  EXPECT_TRUE(cycles[0].complete);
  EXPECT_FALSE(cycles[0].steps[0].kernels.has_value());
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).produced.has_value());
  EXPECT_FALSE(cycles[0].joins.launches.has_value());
  EXPECT_FALSE(cycles[0].device_residual_ns.has_value());
  EXPECT_EQ(Of(cycles[0], Activity::kNvtx).written, 1U);
  ExpectBalanced(cycles[0]);
}

}  // namespace
}  // namespace stepagent::model
