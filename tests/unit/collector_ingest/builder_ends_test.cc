// Cycles that end early, ranges at borders, bytes that are hostile.
#include <google/protobuf/stubs/logging.h>

#include "tests/unit/collector_ingest/builder_fixture.h"

namespace stepagent::model {
namespace {

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

// What the device still had to hand over, nobody knows: not even of launches that have their work.
TEST(CycleBuilder, OfAKilledProcessTheDevicesLossesAreNotKnown) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(4, 100 * kMs, 0);
  agent.Launch(60, 100 * kMs + 100);
  agent.Kernel({.begin = 100 * kMs + 1000, .correlation = 60});
  CycleBuilder builder(agent.Hello());
  builder.Add(agent.Take(101 * kMs));
  const auto cycles = builder.TakeRemaining();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].gpu.status, "partial");
  EXPECT_EQ(Of(cycles[0], Activity::kKernel).written, 1U);
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).dropped.has_value());
  EXPECT_FALSE(Of(cycles[0], Activity::kKernel).produced.has_value());
}

// Bytes of raw.steps from the batch a cycle begins in to the one it ends in.
TEST(CycleBuilder, WhatACycleTakesInTheStreamIsMeasured) {
  BatchFactory agent;
  agent.active = 2;
  agent.Launch(90, 10 * kMs);
  const v1::Batch before = agent.Take(20 * kMs);
  agent.WholeCycle(0, 1, 2, 100 * kMs, 1, 2);
  const v1::Batch own = agent.Take(200 * kMs);
  agent.Launch(91, 210 * kMs);
  const v1::Batch after = agent.Take(220 * kMs);
  const auto cycles = Build(agent, {before, own, after});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].cost.raw_bytes, own.SerializeAsString().size() + 24);
}

TEST(CycleBuilder, PerKernelIsNotSaidOfGraphsThatAreNotThere) {
  for (const bool has_graph : {false, true}) {
    BatchFactory agent;
    agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
    agent.Step(0, 100 * kMs, 101 * kMs);
    agent.Event(0, Event::ACTIVE_END, 101 * kMs, "schedule");
    agent.Event(0, Event::CLOSED, 101 * kMs);
    agent.Report(0);
    v1::Batch batch = agent.Take(102 * kMs);
    batch.mutable_cycle_reports(0)->mutable_gpu()->set_graph_level("node");
    v1::Hello hello = agent.Hello();
    if (has_graph) (*hello.mutable_settings())["graph"] = "node";
    CycleBuilder builder(hello);
    builder.Add(batch);
    const auto cycles = builder.TakeClosed();
    ASSERT_EQ(cycles.size(), 1U);
    EXPECT_EQ(cycles[0].gpu.graph_level, has_graph ? "node" : "");
  }
}

TEST(CycleBuilder, HowItWasKilledIsTheReasonUnlessItSaidGoodbye) {
  v1::TargetEnded ended;
  ended.set_signal(11);
  for (const bool says_goodbye : {false, true}) {
    BatchFactory agent;
    agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
    agent.Step(4, 100 * kMs, 101 * kMs);
    CycleBuilder builder(agent.Hello());
    builder.Add(agent.Take(102 * kMs));
    v1::Goodbye goodbye;
    if (says_goodbye) builder.Add(goodbye);
    builder.Add(ended);
    const auto cycles = builder.TakeRemaining();
    ASSERT_EQ(cycles.size(), 1U);
    EXPECT_EQ(cycles[0].ended, says_goodbye ? "exit" : "killed");
    EXPECT_EQ(cycles[0].reason, says_goodbye ? "" : "killed by signal 11 (SIGSEGV)");
    EXPECT_EQ(cycles[0].killed_by_signal.has_value(), !says_goodbye);
  }
}

TEST(CycleBuilder, TheCapThatEndedACycleIsItsReason) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(4, 100 * kMs, 101 * kMs);
  agent.Event(0, Event::ACTIVE_END, 101 * kMs, "limit");
  v1::Batch batch = agent.Take(102 * kMs);
  v1::CycleEvent* closed = batch.add_cycle_events();
  closed->set_kind(Event::CLOSED);
  closed->set_host_ns(102 * kMs);
  closed->set_reason("max-window reached: 1 ms");
  const auto cycles = Build(agent, {batch});
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].ended, "limit");
  EXPECT_EQ(cycles[0].reason, "max-window reached: 1 ms");
}

TEST(CycleBuilder, AStepHasOneDurationInAllDocuments) {
  BatchFactory agent;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 101 * kMs);
  agent.Step(1, 101 * kMs, 102 * kMs, 0, v1::PHASE_ACTIVE, v1::STEP_CUT);
  agent.Event(0, Event::ACTIVE_END, 102 * kMs, "request");
  agent.Event(0, Event::CLOSED, 103 * kMs);
  v1::Batch batch = agent.Take(103 * kMs);
  v1::AllSteps* rows = batch.add_cycle_reports()->mutable_all_steps();
  rows->set_count(2);
  for (const uint64_t index : {0, 1}) {
    rows->add_index(index);
    rows->add_duration_ns(kMs + 2);  // as another rounding has it; the second went on after the cut
  }
  const auto cycles = Build(agent, {batch});
  ASSERT_EQ(cycles.size(), 1U);
  ASSERT_EQ(cycles[0].all_steps.each.size(), 2U);
  EXPECT_EQ(cycles[0].all_steps.each[0].dur_ns, uint64_t{kMs});
  EXPECT_EQ(cycles[0].all_steps.each[1].dur_ns, uint64_t{kMs} + 2);
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

// The thread may lose its processor between the step's stamp and its range's.
TEST(CycleBuilder, AStepsRangeThatBeginsLateIsTheStepsAllTheSame) {
  BatchFactory agent;
  agent.step_source = "nvtx-glob:train_*";
  agent.active = 2;
  agent.Event(0, Event::ACTIVE_BEGIN, 100 * kMs);
  agent.Step(0, 100 * kMs, 120 * kMs);
  agent.Push("last of the warmup", 99 * kMs + 500'000);
  agent.Pop(99 * kMs + 900'000);
  agent.Push("train_step", 105 * kMs);
  agent.Push("inner", 106 * kMs, 1);
  agent.Pop(107 * kMs, 1);
  agent.Pop(112 * kMs);
  agent.Step(1, 120 * kMs, 130 * kMs);
  agent.Push("train_step", 120 * kMs + 40);
  agent.Pop(128 * kMs);
  agent.Event(0, Event::ACTIVE_END, 130 * kMs, "schedule");
  agent.Event(0, Event::CLOSED, 131 * kMs);
  agent.Report(0);
  const auto cycles = Build(agent, {agent.Take(132 * kMs)});
  ASSERT_EQ(cycles.size(), 1U);
  ASSERT_EQ(cycles[0].ranges.size(), 3U);
  for (const Range& r : cycles[0].ranges) {
    EXPECT_EQ(r.is_step_range, cycles[0].Text(r.name) == "train_step") << r.begin_ns;
    if (r.is_step_range) {
      EXPECT_EQ(r.begin_ns, cycles[0].steps[static_cast<size_t>(r.step)].begin_ns);
    }
  }
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

}  // namespace
}  // namespace stepagent::model
