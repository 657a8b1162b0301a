// Memory stays bounded, and what waits waits as it came.
#include "tests/unit/collector_ingest/builder_fixture.h"

namespace stepagent::model {
namespace {

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

// What waits is told as held, at about what came, and an idle session's batches are not kept.
TEST(CycleBuilder, RecordsWaitAsTheyCameAndIdleBatchesDoNot) {
  BatchFactory agent;
  agent.active = 1;
  CycleBuilder builder(agent.Hello());
  for (int i = 0; i < 10'000; ++i) builder.Add(agent.Take(i * kMs));
  EXPECT_LT(builder.progress().bytes_held, 4096U);
  const int64_t begin = 10'000 * kMs;
  agent.Event(0, Event::ACTIVE_BEGIN, begin);
  agent.Step(0, begin, begin + kMs);
  for (uint32_t i = 1; i <= 10'000; ++i) agent.Launch(i, begin + i);
  v1::Batch batch = agent.Take(begin + kMs);
  const uint64_t came = batch.ByteSizeLong();
  builder.Add(batch);
  EXPECT_GE(builder.progress().records, 10'000U);
  EXPECT_GE(builder.progress().bytes_held, came);
  EXPECT_LT(builder.progress().bytes_held, 2 * came);
  agent.Event(0, Event::ACTIVE_END, begin + kMs, "schedule");
  agent.Event(0, Event::CLOSED, begin + kMs);
  agent.Report(0);
  builder.Add(agent.Take(begin + 2 * kMs));
  const auto cycles = builder.TakeClosed();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].calls.size(), 10'000U);
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
