// What is not compared and not judged: slices of the clock, and device time that has not all
// records.
#include <algorithm>
#include <map>
#include <sstream>

#include "collector/analysis/readings.h"
#include "collector/analysis/summary.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;
using ::stepagent::testing::CycleMaker;

struct Loop {
  int64_t first_extra_ns = 0;  // the first step takes so much longer
  int64_t growth_ns = 0;       // each step takes so much longer than the one before
  int extra_kernels = 0;       // in the last step
};

// Fourteen steps of 3 ms: one in a range that launches nothing, a collective alone, some kernels.
model::Cycle MakeLoop(const Loop& loop) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(1, "main"), lane = m.Lane(0, 1, 7);
  const uint32_t shapes[] = {m.Shape("ncclDevKernel_AllReduce_Sum()"), m.Shape("a"), m.Shape("b"),
                             m.Shape("c")};
  constexpr int kSteps = 14;
  std::vector<int64_t> begins{1000};
  for (int s = 0; s < kSteps; ++s) {
    begins.push_back(begins.back() + 3'000'000 + (s == 0 ? loop.first_extra_ns : 0) +
                     s * loop.growth_ns);
    m.Step(static_cast<uint64_t>(s), begins[static_cast<size_t>(s)], begins.back(), thread);
  }
  uint32_t correlation = 1;
  for (int s = 0; s < kSteps; ++s) {
    const int64_t begin = begins[static_cast<size_t>(s)], end = begins[static_cast<size_t>(s) + 1];
    int64_t host = begin + 1'000'000, device = host + 10'000;
    m.Range("load_batch", thread, begin, host);
    const int count = 10 + (s + 1 == kSteps ? loop.extra_kernels : 0);
    const int64_t length = (end - 50'000 - device) / count;
    for (int k = 0; k < count; ++k) {
      const int32_t call =
          m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, host, host + 5000, correlation++);
      m.Kernel(k < 2 ? shapes[0] : shapes[1 + k % 3], lane, device, device + length, call);
      host += 6000, device += length;
    }
  }
  return m.Finish();
}

std::map<std::string, std::string> SilentOf(const Json& summary) {
  std::map<std::string, std::string> out;
  for (const Json& row : summary.at("readings_without_input")) {
    out[row.at("id").get<std::string>()] = row.at("why").get<std::string>();
  }
  return out;
}

// How long a slice of the clock is, and what falls into it, says nothing of the program.
TEST(NotJudged, SlicesOfTheClockAreNotCompared) {
  Loop loop;
  loop.first_extra_ns = 20'000'000, loop.growth_ns = 100'000, loop.extra_kernels = 1;
  model::Cycle cycle = MakeLoop(loop);
  cycle.session.labels["samples_per_step"] = "64";
  for (model::Step& step : cycle.steps) step.process_index = step.index += 10;
  for (uint64_t i = 0; i < 6; ++i) cycle.all_steps.each.push_back({i, 4'500'000 + i, 0});
  const Json steps = Summarize(cycle);
  EXPECT_TRUE(steps.at("cost").at("ratio").at("value").is_number());
  EXPECT_TRUE(steps.at("examples_per_second").is_number());
  cycle.session.step_source = "every:20ms";
  const Json slices = Summarize(cycle);
  const std::string why = "steps are slices of the clock (every:20ms)";
  const std::map<std::string, std::string> silent = SilentOf(slices);
  for (const char* id : {"first_step_slower", "steps_not_steady", "step_times_drift"}) {
    const auto speaks = [id](const Json& reading) { return reading.at("id") == id; };
    const Json &before = steps.at("readings"), &now = slices.at("readings");
    EXPECT_TRUE(std::any_of(before.begin(), before.end(), speaks)) << id;
    EXPECT_FALSE(std::any_of(now.begin(), now.end(), speaks)) << id;
    ASSERT_TRUE(silent.contains(id)) << id;
    EXPECT_EQ(silent.at(id), why);
  }
  const Json& cost = slices.at("cost");
  EXPECT_TRUE(cost.at("ratio").at("value").is_null());
  EXPECT_EQ(cost.at("ratio").at("reason"), "not measured: " + why);
  for (const char* group : {"before", "active", "after"}) {
    EXPECT_TRUE(cost.at(group).at("median_ns").is_null()) << group;
  }
  EXPECT_TRUE(slices.at("uncollected_steps").at("others").at("median_ns").is_null());
  EXPECT_TRUE(slices.at("examples_per_second").is_null());
  const std::string text = RenderSummaryText(slices, {});
  EXPECT_NE(text.find("without collection not measured: steps are slices"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("examples per second"), std::string::npos);
  // Modules that load do so in the window, whatever a step is.
  cycle.overheads.push_back({100'000, 2'000'000, 5U << 16, 1});
  const Json loads = Summarize(cycle).at("readings");
  EXPECT_TRUE(std::any_of(loads.begin(), loads.end(), [](const Json& reading) {
    return reading.at("id") == "steps_not_steady";
  })) << loads;
}

// Work without a record is not idle time: then busy is a lower bound, and nothing is judged by it.
TEST(NotJudged, WithoutAllDeviceRecordsNothingIsSaidToBeIdle) {
  const model::Cycle whole = MakeLoop({});
  EXPECT_EQ(Summarize(whole).at("readings").size(), 2U);
  model::Cycle owed = whole, killed = whole;
  owed.joins.launches_without_device_work = 514;
  killed.gpu.status = "partial", killed.gpu.reason_code = "not_reported";
  killed.gpu.reason = "the session ended before the rest came";
  const int64_t busy = Summarize(whole).at("devices")[0].at("busy_ns").get<int64_t>();
  for (const auto& [cycle, why] : {std::pair(owed, "514 kernel or graph launches without a device record"),
                                   std::pair(killed, "the session ended before the rest came")}) {
    const Json summary = Summarize(cycle);
    EXPECT_TRUE(summary.at("readings").empty()) << summary.at("readings");
    const std::map<std::string, std::string> silent = SilentOf(summary);
    for (const char* id : {"device_idle_in_range", "device_idle", "many_small_launches",
                           "waits_drain_the_queue", "exposed_collectives"}) {
      ASSERT_TRUE(silent.contains(id)) << id;
      EXPECT_EQ(silent.at(id), why);
    }
    const Json& device = summary.at("devices")[0];
    for (const char* key : {"busy_ns", "idle_ns", "compute_ns", "copy_ns", "collective_ns",
                            "exposed_collective_ns", "overlap_ns", "busy_in_window_ns"}) {
      EXPECT_TRUE(device.at(key).is_null()) << key;
    }
    EXPECT_EQ(device.at("busy_at_least_ns"), busy);
    EXPECT_EQ(summary.at("absent").at("devices.busy_ns"), why);
    const std::string text = RenderSummaryText(summary, {});
    EXPECT_NE(text.find("busy at least "), std::string::npos) << text;
    EXPECT_EQ(text.find(" of the window\n"), std::string::npos) << text;
  }
  EXPECT_FALSE(Summarize(whole).at("devices")[0].contains("busy_at_least_ns"));
}

TEST(CostLine, WhatHeldTheApplicationIsInTheLine) {
  model::Cycle cycle = MakeLoop({});
  cycle.cost.arm_wait_ns = 25'200'000, cycle.cost.drain_cpu_ns = 22'000'000;
  // Words may be on two lines.
  const auto words = [&cycle] {
    std::istringstream text(RenderSummaryText(Summarize(cycle), {}));
    std::string out, word;
    while (text >> word) out += word + " ";
    return out;
  };
  EXPECT_NE(words().find("the application was held 25.2 ms while CUPTI was armed, before the first "
                         "recorded step; 22.0 ms of CPU in a thread of ours; "),
            std::string::npos)
      << words();
  cycle.cost.arm_wait_ns = 0;
  EXPECT_EQ(words().find("was held"), std::string::npos);
}

}  // namespace
}  // namespace stepagent::analysis
