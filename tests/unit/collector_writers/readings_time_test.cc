// What time a reading is of: elapsed, put down to what the host was in, without our own start.
#include <utility>

#include "collector/analysis/readings.h"
#include "collector/analysis/summary.h"
#include "tests/unit/collector_writers/faulty_loop.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;
using ::stepagent::testing::Loop;
using ::stepagent::testing::MakeLoop;

// The same host work on a second thread at the same time, and its copies on another stream.
model::Cycle OnTwoThreads(model::Cycle cycle) {
  const auto twin = static_cast<uint32_t>(cycle.threads.size());
  cycle.threads.push_back(cycle.threads[0]);
  cycle.threads.back().tid = 2;
  const size_t calls = cycle.calls.size(), ranges = cycle.ranges.size();
  for (size_t i = 0; i < calls; ++i) {
    cycle.calls.push_back(cycle.calls[i]);
    cycle.calls.back().thread = twin;
  }
  for (size_t i = 0; i < ranges; ++i) {
    cycle.ranges.push_back(cycle.ranges[i]);
    cycle.ranges.back().thread = twin;
  }
  std::vector<model::Copy> copies;
  for (const model::Copy& copy : cycle.copies) {
    copies.push_back(copy);
    copies.push_back(copy);
    copies.back().lane = 1, copies.back().call += static_cast<int32_t>(calls);
  }
  cycle.copies = copies;
  const size_t overheads = cycle.overheads.size();
  for (size_t i = 0; i < overheads; ++i) {
    cycle.overheads.push_back(cycle.overheads[i]);
    cycle.overheads.back().tid = 2;
  }
  return cycle;
}

// "48.0 % of": the last share that a text gives.
std::string ShareIn(const std::string& text) {
  const size_t end = text.rfind(" %");
  if (end == std::string::npos) return {};
  const size_t begin = text.rfind(' ', end - 1);
  return text.substr(begin + 1, end - begin - 1);
}

// What threads do at once takes its time once, and no share of the window is more than there is.
TEST(Readings, SharesAreOfElapsedTime) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  std::vector<std::pair<model::Cycle, std::vector<const char*>>> faults;
  Loop loader = healthy, waits = healthy, pageable = healthy, allocates = healthy;
  loader.loader_ns = 6'000'000;
  faults.push_back({MakeLoop(loader), {"idle_ns"}});
  waits.kernel_ns = 80'000, waits.waits_inside = true;
  faults.push_back({MakeLoop(waits), {"idle_ns", "gaps"}});
  pageable.pageable = true;
  faults.push_back({MakeLoop(pageable), {"call_ns", "device_ns"}});
  allocates.allocates = true;
  faults.push_back({MakeLoop(allocates), {"elapsed_ns"}});
  model::Cycle loads = MakeLoop(healthy);
  loads.overheads.push_back({100'000, 6'000'000, 5U << 16, 1});
  faults.push_back({loads, {"loading_ns"}});
  for (const auto& [cycle, keys] : faults) {
    const Json one = Summarize(cycle).at("readings"),
               two = Summarize(OnTwoThreads(cycle)).at("readings");
    ASSERT_EQ(one.size(), 1U) << one.dump(1);
    ASSERT_GE(two.size(), 1U);
    EXPECT_EQ(one[0].at("id"), two[0].at("id"));
    const std::string said = two[0].at("observation").get<std::string>();
    EXPECT_FALSE(ShareIn(said).empty()) << said;
    EXPECT_EQ(ShareIn(one[0].at("observation").get<std::string>()), ShareIn(said)) << said;
    for (const char* key : keys) {
      EXPECT_EQ(one[0].at("evidence").at(key), two[0].at("evidence").at(key)) << said << key;
    }
  }
  const Json sum = Summarize(OnTwoThreads(MakeLoop(allocates))).at("readings")[0].at("evidence");
  EXPECT_EQ(sum.at("total_ns"), 2 * sum.at("elapsed_ns").get<int64_t>());
  EXPECT_NE(sum.at("text").get<std::string>().find("added over threads"), std::string::npos);
}

TEST(Readings, CallbackTimeOfSeveralThreadsIsNoShareOfTheWindow) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  model::Cycle cycle = OnTwoThreads(MakeLoop(healthy));
  cycle.cost.callback_ns = 600'000, cycle.cost.callbacks = 2000;  // 300 us each, of 8 ms
  EXPECT_TRUE(Summarize(cycle).at("readings").empty());
  cycle.cost.callback_ns = 1'200'000;
  const Json readings = Summarize(cycle).at("readings");
  ASSERT_EQ(readings.size(), 1U);
  const std::string said = readings[0].at("observation").get<std::string>();
  EXPECT_NE(said.find("1.20 ms, added over 2 threads"), std::string::npos) << said;
  EXPECT_EQ(said.find('%'), std::string::npos) << said;
}

// Idle time at borders is put down to what the host was in.
TEST(Readings, BordersByWhatTheHostIsIn) {
  Loop border;
  border.kernel_ns = 90'000, border.pause_ns = 1'500'000;
  const auto reading = [](const model::Cycle& cycle) {
    const Json readings = Summarize(cycle).at("readings");
    EXPECT_EQ(readings.at(0).at("id"), "device_idle_at_step_borders");
    return readings.at(0).at("observation").get<std::string>() +
           readings.at(0).at("hypothesis").get<std::string>();
  };
  model::Cycle cycle = MakeLoop(border);
  EXPECT_NE(reading(cycle).find("does at the end of a step"), std::string::npos) << reading(cycle);
  EXPECT_NE(reading(cycle).find("GPU 0 has nothing"), std::string::npos) << reading(cycle);
  model::Cycle outside = cycle;
  for (model::Step& step : outside.steps) step.end_ns -= 1'400'000;
  EXPECT_NE(reading(outside).find("does between steps"), std::string::npos) << reading(outside);
  model::Cycle waits = cycle;
  for (const model::Step& step : cycle.steps) {
    model::Call call = cycle.calls[0];
    waits.strings.emplace_back("cudaEventSynchronize");
    call.name = static_cast<model::StringId>(waits.strings.size() - 1);
    call.cls = CallClass::kSync;
    call.begin_ns = step.end_ns - 1'400'000, call.end_ns = step.end_ns - 1000;
    waits.calls.push_back(call);
  }
  EXPECT_NE(reading(waits).find("is in cudaEventSynchronize for most"), std::string::npos)
      << reading(waits);
  model::Cycle two = cycle;
  for (size_t i = 0; i < two.kernels.size(); i += 2) two.kernels[i].lane = 1;
  two.lanes[1].device = 1;
  EXPECT_NE(reading(two).find("all GPUs have nothing to do"), std::string::npos) << reading(two);
}

// Our own start within a step is not the application's doing.
TEST(Readings, AStepWithTheTracersStartIsLeftOut) {
  Loop healthy;
  healthy.kernel_ns = 90'000;
  model::Cycle cycle = MakeLoop(healthy);
  bool is_first = true;
  std::erase_if(cycle.kernels, [&](const model::Kernel& kernel) {
    return kernel.step == 0 && !std::exchange(is_first, false);
  });
  EXPECT_FALSE(Summarize(cycle).at("readings").empty());
  cycle.steps[0].contains_tracer_start = true;
  EXPECT_TRUE(Summarize(cycle).at("readings").empty()) << Summarize(cycle).at("readings").dump(1);

  Loop loader = healthy;
  loader.loader_ns = 1'000'000;
  cycle = MakeLoop(loader);
  const Json all = Summarize(cycle).at("readings").at(0);
  cycle.steps[1].partial = true;
  const Json rest = Summarize(cycle).at("readings").at(0);
  EXPECT_EQ(rest.at("id"), "device_idle_in_range");
  const std::string text = rest.at("evidence").at("text").get<std::string>();
  EXPECT_NE(text.find("in 3 ranges"), std::string::npos) << text;
  EXPECT_NE(text.find("; without step 1 (the tracer started in it)"), std::string::npos) << text;
  EXPECT_EQ(rest.at("evidence").at("window_ns"),
            3 * (all.at("evidence").at("window_ns").get<int64_t>() / 4));
  EXPECT_NE(rest.at("evidence").at("where").at("step"), 1);
  loader.steps = 1, loader.pause_mid_ns = 2'000'000;
  cycle = MakeLoop(loader);
  cycle.steps[0].contains_tracer_start = true;
  const Json only = Summarize(cycle).at("readings");
  ASSERT_FALSE(only.empty());
  EXPECT_NE(only[0].at("evidence").at("text").get<std::string>().find("; holds step 0"),
            std::string::npos)
      << only.dump(1);
}

}  // namespace
}  // namespace stepagent::analysis
