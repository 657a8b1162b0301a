// Readings: each fault raises its own, in words with numbers and a place.
#include <set>
#include <sstream>
#include <utility>

#include "collector/analysis/cost_amend.h"
#include "collector/analysis/rank_readings.h"
#include "collector/analysis/readings.h"
#include "collector/analysis/summary.h"
#include "tests/unit/collector_writers/faulty_loop.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using ::stepagent::testing::Loop;
using ::stepagent::testing::MakeLoop;

std::vector<std::string> ReadingsOf(const Loop& loop) {
  std::vector<std::string> ids;
  const Json readings = Summarize(MakeLoop(loop)).at("readings");
  for (const Json& reading : readings) {
    for (const char* key : {"id", "rank", "observation", "evidence", "hypothesis", "next_check"}) {
      EXPECT_TRUE(reading.contains(key));
    }
    ids.push_back(reading.at("id").get<std::string>());
  }
  return ids;
}

TEST(Readings, EachFaultRaisesItsOwn) {
  using Ids = std::vector<std::string>;
  Loop healthy;
  healthy.kernel_ns = 90'000;
  EXPECT_EQ(ReadingsOf(healthy), Ids{});
  Loop slow_loader = healthy;
  slow_loader.loader_ns = 1'000'000;
  EXPECT_EQ(ReadingsOf(slow_loader), Ids{"device_idle_in_range"});
  Loop small;
  small.kernels = 320, small.kernel_ns = 2000;
  EXPECT_EQ(ReadingsOf(small), Ids{"many_small_launches"});
  Loop one_long = healthy;
  one_long.one_long = true;
  EXPECT_EQ(ReadingsOf(one_long), Ids{"one_kernel_dominates"});
  Loop waits = healthy;
  waits.kernel_ns = 80'000, waits.waits_inside = true;
  EXPECT_EQ(ReadingsOf(waits), Ids{"waits_drain_the_queue"});
  Loop pageable = healthy;
  pageable.pageable = true;
  EXPECT_EQ(ReadingsOf(pageable), Ids{"pageable_copies"});
  Loop collective = healthy;
  collective.kernel_ns = 70'000, collective.collective = true;
  EXPECT_EQ(ReadingsOf(collective), Ids{"exposed_collectives"});
  Loop pause = healthy;
  pause.pause_mid_ns = 1'500'000;
  EXPECT_EQ(ReadingsOf(pause), Ids{"device_idle"});
  Loop border = healthy;
  border.pause_ns = 1'500'000;
  EXPECT_EQ(ReadingsOf(border), Ids{"device_idle_at_step_borders"});
}

TEST(Readings, FaultsOfWorkStepsAndHost) {
  using Ids = std::vector<std::string>;
  Loop healthy;
  healthy.kernel_ns = 90'000;
  Loop copy = healthy;
  copy.copy_ns = 400'000, copy.kernel_ns = 75'000;
  EXPECT_EQ(ReadingsOf(copy), Ids{"same_copy_each_step"});
  Loop streams = healthy;
  streams.two_streams = true;
  EXPECT_EQ(ReadingsOf(streams), Ids{"streams_without_overlap"});
  Loop first = healthy;
  first.first_extra_ns = 1'500'000;
  EXPECT_EQ(ReadingsOf(first), Ids{"first_step_slower"});
  Loop unsteady = healthy;
  unsteady.kernel_ns = 85'000, unsteady.extra_kernels = 1;
  EXPECT_EQ(ReadingsOf(unsteady), Ids{"steps_not_steady"});
  Loop drift = healthy;
  drift.steps = 9, drift.growth_ns = 100'000;
  EXPECT_EQ(ReadingsOf(drift), Ids{"step_times_drift"});
  Loop slow_launches = healthy;
  slow_launches.kernels = 45, slow_launches.kernel_ns = 30'000, slow_launches.between_ns = 35'000;
  EXPECT_EQ(ReadingsOf(slow_launches), Ids{"launch_bound_stretches"});
  Loop allocates = healthy;
  allocates.allocates = true;
  EXPECT_EQ(ReadingsOf(allocates), Ids{"allocation_calls_in_steps"});
  Loop names = healthy;
  names.range = "job of jane.doe@example.org";
  EXPECT_EQ(ReadingsOf(names), Ids{"private_looking_names"});
  names.range = "forward";
  EXPECT_EQ(ReadingsOf(names), Ids{});
}

// Work of earlier steps still fills the device while the first steps of the window run: not idle.
TEST(Readings, WorkFromBeforeTheWindowIsNoIdleTime) {
  Loop late;
  late.kernel_ns = 90'000;
  model::Cycle cycle = MakeLoop(late);
  for (model::Kernel& kernel : cycle.kernels) {
    kernel.begin_ns += 1'800'000, kernel.end_ns += 1'800'000;
  }
  for (model::Copy& copy : cycle.copies) copy.lane = 1;  // a stream of its own is ahead
  EXPECT_TRUE(Summarize(cycle).at("readings").empty());
}

// Loading within the window, and losses that look like other kernels.
TEST(Readings, ModulesThatLoadAndRecordsThatAreLost) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  model::Cycle loads = MakeLoop(healthy);
  loads.overheads.push_back({100'000, 300'000, 5U << 16, 1});
  Json readings = Summarize(loads).at("readings");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].at("id"), "steps_not_steady");
  EXPECT_EQ(readings[0].at("evidence").at("loading_ns"), 200'000);
  EXPECT_EQ(readings[0].at("evidence").at("where").at("step"), 0);
  healthy.extra_kernels = 2;
  model::Cycle lost = MakeLoop(healthy);
  lost.balance[static_cast<size_t>(model::Activity::kKernel)].dropped = 3;
  EXPECT_TRUE(Summarize(lost).at("readings").empty());
}

TEST(Readings, OurOwnCost) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  model::Cycle cycle = MakeLoop(healthy);
  cycle.cost.callback_ns = 600'000, cycle.cost.callbacks = 1000;  // of a window of 8 ms
  Json readings = Summarize(cycle).at("readings");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].at("id"), "profiler_cost");
  cycle.cost.callback_ns = 100'000;
  EXPECT_TRUE(Summarize(cycle).at("readings").empty());
  // The same steps against five that took three quarters of their time without us.
  for (model::Step& step : cycle.steps) step.process_index = step.index += 10;
  for (uint64_t i = 1; i < 6; ++i) cycle.all_steps.each.push_back({i, 1'500'000 + i, 0});
  cycle.all_steps.count = cycle.all_steps.each.size();
  readings = Summarize(cycle).at("readings");
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].at("id"), "profiler_cost");
}

// Steps that ended behind the cycle may bring the reading up, change it, or take it away.
TEST(Readings, OurOwnCostOnceLaterStepsAreKnown) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  model::Cycle cycle = MakeLoop(healthy);
  for (model::Step& step : cycle.steps) step.process_index = step.index += 10;
  cycle.why_no_later_steps = "not yet";
  const Json before = Summarize(cycle);
  EXPECT_TRUE(before.at("readings").empty());
  EXPECT_EQ(before.at("readings_without_input").back().at("id"), "profiler_cost");
  model::AllSteps all;
  for (uint64_t i = 0; i < 5; ++i) all.each.push_back({20 + i, 1'500'000 + i, 0});
  OtherSteps later{.steps = &all};
  Json amended = before;
  AmendSummary(RecordedStepsOf(cycle), later, &amended);
  // The same as if all had been known at once.
  cycle.all_steps = all;
  const Json whole = Summarize(cycle);
  EXPECT_EQ(amended.at("readings"), whole.at("readings"));
  ASSERT_EQ(amended.at("readings").size(), 1U);
  EXPECT_EQ(amended.at("readings")[0].at("id"), "profiler_cost");
  EXPECT_EQ(amended.at("cost"), whole.at("cost"));
  for (const Json& silent : amended.at("readings_without_input")) {
    EXPECT_NE(silent.at("id"), "profiler_cost");
  }
  // Of the next cycle's steps none is behind this one.
  later.until = 20;
  later.why_none_after = "the next cycle began";
  AmendSummary(RecordedStepsOf(cycle), later, &amended);
  EXPECT_EQ(amended.at("cost").at("after").at("steps"), 0);
  EXPECT_EQ(amended.at("cost").at("after").at("reason"), "not measured: the next cycle began");
  EXPECT_TRUE(amended.at("readings").empty());
}

TEST(Readings, RulesWithoutInputAreNamed) {
  Loop two;
  two.steps = 2;
  std::vector<std::string> ids;
  const Json silent = Summarize(MakeLoop(two)).at("readings_without_input");
  for (const Json& row : silent) {
    ids.push_back(row.at("id").get<std::string>());
    EXPECT_FALSE(row.at("why").get<std::string>().empty());
  }
  const std::vector<std::string> wanted = {"allocation_calls_in_steps", "first_step_slower",
                                           "step_times_drift", "profiler_cost"};
  EXPECT_EQ(ids, wanted);
}

// The table in the documents is the one in the code.
TEST(Readings, ThresholdsAreDocumented) {
  const std::string document = testing::ReadFile(STEPAGENT_SOURCE_DIR "/docs/readings.md");
  for (const auto& table : {Thresholds(), RankThresholds()}) {
    for (const Threshold& t : table) {
      std::ostringstream row;
      row << "| `" << t.name << "` | " << t.value << " | " << t.reason << " |\n";
      EXPECT_NE(document.find(row.str()), std::string::npos) << row.str();
    }
  }
  for (const char* id : {"same_copy_each_step", "launch_bound_stretches", "profiler_cost"}) {
    EXPECT_NE(document.find("| `" + std::string(id) + "` |"), std::string::npos) << id;
  }
}

TEST(Readings, NothingStandsOutIsSaid) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  const Json summary = Summarize(MakeLoop(healthy));
  EXPECT_EQ(FirstReading(summary), "nothing stands out");
  EXPECT_NE(RenderSummaryText(summary, {}).find("nothing stands out"), std::string::npos);
}

// A server, or a window by signal: what is said of it knows no step.
TEST(ReadingsWithoutSteps, SpeakOfTheWindow) {
  const std::pair<Loop, const char*> workloads[] = {
      {{.loader_ns = 8'000'000}, "device_idle_in_range"},
      {{.kernels = 150, .kernel_ns = 2'000}, "many_small_launches"},
      {{.waits_inside = true}, "waits_drain_the_queue"},
      {{.one_long = true}, "one_kernel_dominates"},
      {{.collective = true}, "exposed_collectives"},
      {{.pageable = true}, "pageable_copies"},
  };
  std::set<std::string> seen;
  for (const auto& [loop, id] : workloads) {
    model::Cycle cycle = MakeLoop(loop);
    cycle.steps.clear();
    for (model::Call& call : cycle.calls) call.step = model::kNoStep;
    for (model::Kernel& kernel : cycle.kernels) kernel.step = model::kNoStep;
    for (model::Copy& copy : cycle.copies) copy.step = model::kNoStep;
    for (model::Range& range : cycle.ranges) range.step = model::kNoStep;
    const Json summary = Summarize(cycle);
    for (const Json& reading : summary.at("readings")) {
      seen.insert(reading.at("id").get<std::string>());
      const std::string text = reading.at("observation").get<std::string>() +
                               reading.at("evidence").at("text").get<std::string>() +
                               reading.at("hypothesis").get<std::string>() +
                               reading.at("next_check").get<std::string>();
      EXPECT_EQ(text.find("step"), std::string::npos) << text;
    }
    const std::string text = RenderSummaryText(summary, {});
    EXPECT_EQ(text.find("a step"), std::string::npos) << text;
    EXPECT_EQ(text.find(", 0 steps"), std::string::npos) << text;
  }
  for (const auto& [loop, id] : workloads) EXPECT_TRUE(seen.contains(id)) << id;
}

}  // namespace
}  // namespace stepagent::analysis
