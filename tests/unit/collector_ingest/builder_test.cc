// Attribution, window, joins, balance: what CycleBuilder makes of batches.
#include "collector/model/builder.h"

#include <algorithm>

#include <google/protobuf/stubs/logging.h>

#include "gtest/gtest.h"

#include "tests/support/batch_factory.h"

namespace stepagent::model {
namespace {

using test::BatchFactory;
using Event = v1::CycleEvent;

constexpr int64_t kMs = 1'000'000;

std::vector<Cycle> Build(const BatchFactory& agent, const std::vector<v1::Batch>& batches) {
  CycleBuilder builder(agent.Hello());
  std::vector<Cycle> cycles;
  for (const v1::Batch& batch : batches) {
    builder.Add(batch);
    for (Cycle& cycle : builder.TakeClosed()) cycles.push_back(std::move(cycle));
  }
  return cycles;
}

void ExpectBalanced(const Cycle& cycle) {
  for (size_t i = 1; i < kActivityCount; ++i) {
    const Balance& b = cycle.balance[i];
    if (!b.produced) continue;
    EXPECT_EQ(*b.produced, *b.written + *b.dropped + *b.out_of_window + *b.invalid)
        << ActivityName(static_cast<Activity>(i));
  }
}

const Balance& Of(const Cycle& cycle, Activity a) { return cycle.balance[static_cast<size_t>(a)]; }

bool HasNote(const Cycle& cycle, const std::string& code) {
  return std::any_of(cycle.notes.begin(), cycle.notes.end(),
                     [&](const Note& n) { return n.code == code; });
}

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
  EXPECT_EQ(Of(c, Activity::kKernel).written, 1U);
  EXPECT_EQ(c.steps[0].kernels, 1U);
  EXPECT_EQ(c.joins.launches_without_device_work, 0U);  // they ran, their times are unknown
  EXPECT_TRUE(HasNote(c, "impossible_stamps"));
  ExpectBalanced(c);
}

const std::string& NoteText(const Cycle& cycle, const std::string& code) {
  static const std::string kNone;
  for (const Note& note : cycle.notes) {
    if (note.code == code) return note.text;
  }
  return kNone;
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

TEST(CycleBuilder, KilledInMidStepKeepsWhatCame) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(4, 100 * kMs, 101 * kMs);
  agent.Step(5, 101 * kMs, 0);
  agent.Push("train_step", 101 * kMs);
  CycleBuilder builder(agent.Hello());
  builder.Add(agent.Take(101 * kMs + 500'000));
  EXPECT_TRUE(builder.TakeClosed().empty());
  EXPECT_TRUE(builder.progress().is_cycle_open);
  const auto cycles = builder.TakeRemaining();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].ended, "killed");
  EXPECT_FALSE(cycles[0].complete);
  ASSERT_EQ(cycles[0].steps.size(), 2U);
  EXPECT_TRUE(cycles[0].steps[0].complete);
  EXPECT_FALSE(cycles[0].steps[1].complete);
  EXPECT_EQ(cycles[0].steps[1].end_ns, 101 * kMs + 500'000);
  ASSERT_EQ(cycles[0].ranges.size(), 1U);
  EXPECT_TRUE(cycles[0].ranges[0].cut_at_end);
  EXPECT_TRUE(HasNote(cycles[0], "unclosed_ranges"));
  EXPECT_TRUE(builder.TakeRemaining().empty());
}

TEST(CycleBuilder, ExitInMidCycleIsLabelled) {
  BatchFactory agent;
  agent.active = 3;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs, 0, v1::PHASE_ACTIVE, v1::STEP_CUT);
  agent.Event(0, Event::ACTIVE_END, 101 * kMs, "exit");
  agent.Event(0, Event::CLOSED, 101 * kMs);
  agent.Report(0, "unavailable");
  const auto cycles = Build(agent, {agent.Take(102 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].ended, "exit");
  EXPECT_FALSE(cycles[0].complete);
}

TEST(CycleBuilder, WarmupAloneIsNoCycle) {
  BatchFactory agent;
  agent.Event(0, Event::WARMUP_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs, 0, v1::PHASE_WARMUP);
  CycleBuilder builder(agent.Hello());
  builder.Add(agent.Take(101 * kMs));
  EXPECT_FALSE(builder.progress().is_cycle_open);
  EXPECT_TRUE(builder.TakeRemaining().empty());
}

TEST(CycleBuilder, CancelledCycleLeavesNothing) {
  BatchFactory agent;
  agent.Event(0, Event::WARMUP_BEGIN, 50 * kMs);
  agent.Launch(900, 51 * kMs);
  agent.Event(0, Event::CANCELLED, 60 * kMs);
  const v1::Batch first = agent.Take(60 * kMs);
  agent.WholeCycle(1, 4, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {first, agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].index, 1U);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).produced, 2U);
}

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

TEST(CycleBuilder, RangesAcrossTheWindowAreCutOncePerCycle) {
  BatchFactory agent;
  agent.Push("epoch", 98 * kMs, 0, 2);
  agent.Pop(150 * kMs, 0, 2);
  agent.Range(v1::RANGE_START, "io", 100 * kMs + 10, 77, 3);
  agent.Range(v1::RANGE_END, "", 100 * kMs + 90, 77, 4);
  agent.Range(v1::RANGE_MARK, "here", 100 * kMs + 50, 0, 3);
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  const auto cycles = Build(agent, {agent.Take(200 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  const Cycle& c = cycles[0];
  ASSERT_EQ(c.ranges.size(), 3U);
  for (const Range& r : c.ranges) {
    const std::string name(c.Text(r.name));
    EXPECT_EQ(r.cut_at_begin, name == "epoch");
    EXPECT_EQ(r.cut_at_end, name == "epoch");
    EXPECT_EQ(r.is_step_range, name == "train_step");
    EXPECT_EQ(r.is_start_end, name == "io");
    EXPECT_GE(r.begin_ns, c.window_begin_ns);
    EXPECT_LE(r.end_ns, c.window_end_ns);
    if (name == "io") {
      EXPECT_NE(r.thread, r.end_thread);
    }
    EXPECT_EQ(r.step, 0);
  }
  EXPECT_EQ(c.marks.size(), 1U);
  EXPECT_EQ(Of(c, Activity::kNvtx).written, 4U);
  ExpectBalanced(c);
}

TEST(CycleBuilder, StepOfTheWallClockIsNoticedAndSurvived) {
  BatchFactory agent;
  agent.active = 1;
  const int64_t base = agent.base_unix_ns, jump = 5'000 * kMs;
  agent.Clock(100 * kMs, 100 * kMs + base);
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 200 * kMs);
  agent.Launch(1, 110 * kMs);
  agent.Kernel({.begin = 111 * kMs, .correlation = 1});
  agent.Clock(150 * kMs, 150 * kMs + base);
  agent.Clock(151 * kMs, 151 * kMs + base + jump);
  agent.Launch(2, 160 * kMs);
  agent.Kernel({.begin = 161 * kMs + jump, .correlation = 2});
  agent.Clock(200 * kMs, 200 * kMs + base + jump);
  agent.Event(0, Event::ACTIVE_END, 200 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 200 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(201 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  ASSERT_EQ(cycles[0].kernels.size(), 2U);
  EXPECT_EQ(cycles[0].kernels[0].begin_ns, 111 * kMs);
  EXPECT_EQ(cycles[0].kernels[1].begin_ns, 161 * kMs);
  EXPECT_TRUE(HasNote(cycles[0], "wall_clock_step"));
}

TEST(CycleBuilder, HostileCountsAreRefusedNotBelieved) {
  BatchFactory agent;
  agent.WholeCycle(0, 1, 1, 100 * kMs, 1, 1);
  v1::Batch batch = agent.Take(200 * kMs);
  batch.mutable_memcpys()->set_count(0xffffffffU);
  batch.mutable_syncs()->set_count(1U << 30);
  batch.mutable_kernels()->mutable_shapes()->set_count(0xffffffffU);
  batch.mutable_kernels()->mutable_lanes()->set_count(0xffffffffU);
  batch.mutable_calls()->add_flags(1);  // one entry too many: the column reads as zeros
  const auto cycles = Build(agent, {batch});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_TRUE(cycles[0].copies.empty());
  EXPECT_EQ(cycles[0].kernels.size(), 1U);
  EXPECT_EQ(cycles[0].calls.size(), 1U);
}

// Bytes with a right checksum and wrong content: whatever parses is taken without harm.
TEST(CycleBuilder, MutatedBatchesDoNoHarm) {
  const google::protobuf::LogSilencer quiet;
  BatchFactory agent;
  agent.Range(v1::RANGE_START, "io", 100 * kMs + 10, 77, 3);
  agent.Copy({.begin = 100 * kMs + 5, .correlation = 2});
  agent.Set({.begin = 100 * kMs + 5, .correlation = 3});
  agent.Device(0, 1);
  agent.WholeCycle(0, 4, 2, 100 * kMs, 1);
  const std::string good = agent.Take(200 * kMs).SerializeAsString();
  uint64_t random = 73962769;
  const auto next = [&random] {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return random >> 33;
  };
  size_t parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0; i <= next() % 8; ++i) {
      bytes[next() % bytes.size()] = static_cast<char>(next());
    }
    v1::Batch batch;
    if (!batch.ParseFromString(bytes)) continue;
    ++parsed;
    CycleBuilder builder(agent.Hello());
    builder.Add(batch);
    for (const Cycle& cycle : builder.TakeRemaining()) ExpectBalanced(cycle);
  }
  EXPECT_GT(parsed, 500U);
}

TEST(CycleBuilder, LongWarmupDoesNotFillMemory) {
  BatchFactory agent;
  CycleBuilder builder(agent.Hello());
  agent.Event(0, Event::WARMUP_BEGIN, 0);
  uint32_t correlation = 1;
  uint64_t most = 0;
  for (int64_t s = 1; s <= 60; ++s) {
    for (int i = 0; i < 20'000; ++i, ++correlation) {
      agent.Launch(correlation, (s - 1) * 1000 * kMs + i);
      agent.Kernel({.begin = (s - 1) * 1000 * kMs + i + 10, .correlation = correlation});
    }
    builder.Add(agent.Take(s * 1000 * kMs));
    most = std::max(most, builder.progress().bytes_held);
  }
  EXPECT_LT(most, uint64_t{100} << 20);
  // The last warmup launch runs inside the window and is still known for what it is.
  const int64_t begin = 61'000 * kMs;
  agent.Kernel({.name = "late", .begin = begin + 100, .correlation = correlation - 1});
  agent.Event(0, Event::ACTIVE_BEGIN, begin);
  agent.Step(1, begin, begin + kMs);
  agent.Step(2, begin + kMs, begin + 2 * kMs);
  agent.Event(0, Event::ACTIVE_END, begin + 2 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, begin + 2 * kMs);
  agent.Report(0);
  builder.Add(agent.Take(begin + 3 * kMs));
  const auto cycles = builder.TakeClosed();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_TRUE(cycles[0].kernels.empty());
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).out_of_window, 60U * 20'000 + 1);
  EXPECT_EQ(Of(cycles[0], Activity::kLaunch).out_of_window, 60U * 20'000);
}

// A million launches of a graph at node level in a thousand cycles, ids wrapping meanwhile: what
// the builder holds between cycles does not grow.
TEST(CycleBuilder, AMillionGraphReplaysTakeBoundedMemory) {
  BatchFactory agent;
  agent.active = 1;
  CycleBuilder builder(agent.Hello());
  uint32_t correlation = 0xfff80000U;
  uint64_t settled = 0, most = 0, unjoined = 0, replays = 0;
  for (uint32_t cycle = 0; cycle < 1000; ++cycle) {
    const int64_t begin = (cycle + 1) * 10 * kMs, end = begin + 10 * kMs;
    agent.Event(cycle, Event::ACTIVE_BEGIN, begin);
    agent.Step(cycle, begin, end, cycle);
    for (int64_t i = 0; i < 1000; ++i) {
      if (++correlation == 0) ++correlation;
      agent.Call({.name = "cuGraphLaunch",
                  .cls = v1::CALL_GRAPH_LAUNCH,
                  .begin = begin + i * 1000,
                  .correlation = correlation});
      for (uint64_t node : {1, 2}) {
        agent.Kernel({.begin = begin + i * 1000 + static_cast<int64_t>(node) * 300,
                      .duration = 100,
                      .correlation = correlation,
                      .graph = 3 + cycle % 7,
                      .node = node});
      }
    }
    agent.Event(cycle, Event::ACTIVE_END, end, "schedule");
    agent.Event(cycle, Event::CLOSED, end);
    agent.Report(cycle);
    builder.Add(agent.Take(end));
    for (const Cycle& taken : builder.TakeClosed()) {
      replays += taken.calls.size();
      unjoined += *taken.joins.launches_without_device_work;
      unjoined += *taken.joins.device_work_without_launch;
    }
    const uint64_t held = builder.progress().bytes_held;
    if (cycle == 10) settled = held;
    most = std::max(most, held);
  }
  EXPECT_EQ(replays, 1'000'000U);
  EXPECT_EQ(unjoined, 0U);
  EXPECT_LT(most, settled + (uint64_t{1} << 20));
}

TEST(CycleBuilder, AMillionRecordsAndMemoryIsGivenBack) {
  BatchFactory agent;
  agent.active = 1;
  CycleBuilder builder(agent.Hello());
  agent.Event(0, Event::ACTIVE_BEGIN, 0);
  agent.Step(0, 0, 1000 * kMs);
  uint32_t correlation = 1;
  for (int b = 0; b < 50; ++b) {
    for (int i = 0; i < 10'000; ++i, ++correlation) {
      agent.Launch(correlation, 1000 + correlation);
      agent.Kernel({.begin = 2000 + correlation, .duration = 1, .correlation = correlation});
    }
    builder.Add(agent.Take(10 * kMs));
  }
  agent.Event(0, Event::ACTIVE_END, 1000 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 1000 * kMs);
  agent.Report(0);
  builder.Add(agent.Take(1001 * kMs));
  const auto cycles = builder.TakeClosed();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].kernels.size(), 500'000U);
  EXPECT_EQ(cycles[0].joins.launches_without_device_work, 0U);
  // What stays: 16 bytes a call, so that a late record of this cycle is known for what it is.
  EXPECT_LT(builder.progress().bytes_held, 500'000U * 16 + (uint64_t{1} << 20));
}

}  // namespace
}  // namespace stepagent::model
