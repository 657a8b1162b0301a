// Readings: each fault raises its own, in words with numbers and a place.
#include <set>
#include <sstream>
#include <utility>

#include "collector/analysis/cost.h"
#include "collector/analysis/private_text.h"
#include "collector/analysis/readings.h"
#include "collector/analysis/summary.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;
using ::stepagent::testing::CycleMaker;

// Workloads with one fault each. A healthy one raises nothing.
struct Loop {
  int64_t loader_ns = 0;  // host time in a range that launches nothing
  int kernels = 20;
  int64_t kernel_ns = 40'000;
  bool one_long = false, waits_inside = false, pageable = false, collective = false;
  int64_t pause_ns = 0;      // host time in no range at the step's end, the device idle
  int64_t pause_mid_ns = 0;  // the same in the middle of the step
  int64_t copy_ns = 50'000;
  bool two_streams = false;    // every fourth kernel on another stream, never two at once
  int64_t first_extra_ns = 0;  // the first step takes so much longer
  int extra_kernels = 0;       // in the last step
  bool allocates = false;
  const char* range = nullptr;  // around each step's launches
  int steps = 4;
  int64_t between_ns = 0;  // host time between two launches
  int64_t growth_ns = 0;   // each step takes so much longer than the one before
};

model::Cycle MakeLoop(const Loop& loop) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(1, "main"), lane = m.Lane(0, 1, 7), side = m.Lane(0, 1, 13);
  const uint32_t shapes[] = {m.Shape("a"), m.Shape("b"), m.Shape("c"), m.Shape("d")};
  const int64_t step_ns = 2'000'000 + loop.loader_ns + loop.pause_ns + loop.pause_mid_ns;
  std::vector<int64_t> begins{1000};
  for (int s = 0; s < loop.steps; ++s) {
    begins.push_back(begins.back() + step_ns + (s == 0 ? loop.first_extra_ns : 0) +
                     s * loop.growth_ns);
    m.Step(static_cast<uint64_t>(s), begins[static_cast<size_t>(s)], begins.back(), thread);
  }
  uint32_t correlation = 1;
  for (int s = 0; s < loop.steps; ++s) {
    const int64_t begin = begins[static_cast<size_t>(s)], end = begins[static_cast<size_t>(s) + 1];
    int64_t host = begin, device = host + loop.loader_ns + 10'000;
    // A step that takes longer for no fault of its device has it busy all the same.
    const int64_t longer = (end - begin - step_ns) / loop.kernels;
    if (loop.range != nullptr) m.Range(loop.range, thread, begin + loop.loader_ns, end - 1000);
    if (loop.allocates) {
      m.Call("cudaMalloc", CallClass::kAlloc, thread, host, host + 2000, correlation++);
      m.Call("cudaMallocAsync", CallClass::kAlloc, thread, host + 2000, host + 3000, correlation++);
    }
    if (loop.loader_ns > 0) m.Range("load_batch", thread, host, host + loop.loader_ns);
    host += loop.loader_ns;
    const int32_t copy = m.Call("cudaMemcpyAsync", CallClass::kMemcpy, thread, host,
                                host + (loop.pageable ? 300'000 : 5000), correlation++);
    model::Copy& c = m.Copy(1, lane, device, device + loop.copy_ns, 1 << 20, copy);
    c.source_kind = loop.pageable ? 1 : 2;
    host += loop.pageable ? 300'000 : 5000, device += loop.copy_ns;
    if (loop.collective) {
      const int32_t call =
          m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, host, host + 5000, correlation++);
      m.Kernel(m.Shape("ncclDevKernel_AllReduce_Sum()"), lane, device, device + 400'000, call);
      host += 6000, device += 400'000;
    }
    const int count = loop.kernels + (s + 1 == loop.steps ? loop.extra_kernels : 0);
    for (int k = 0; k < count; ++k) {
      if (k == loop.kernels / 2 && loop.pause_mid_ns > 0) {
        host = std::max(host, device) + loop.pause_mid_ns;
      }
      const int32_t call =
          m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, host, host + 5000, correlation++);
      device = std::max(device, host + 7000);
      const int64_t length = loop.one_long && k == 0 ? 1'750'000
                             : loop.one_long         ? 5000
                                                     : loop.kernel_ns + longer;
      m.Kernel(loop.one_long && k > 0 ? shapes[1 + k % 3] : shapes[k % 4],
               loop.two_streams && k % 4 == 3 ? side : lane, device, device + length, call);
      host += 6000 + loop.between_ns, device += length;
      if (loop.waits_inside && k % 2 == 1) {
        m.Call("cudaStreamSynchronize", CallClass::kSync, thread, host, device + 1000,
               correlation++);
        host = device + 25'000;
      }
    }
  }
  return m.Finish();
}

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

TEST(Intervals, WithoutCutsWhatTheOtherCovers) {
  const IntervalUnion a = MakeUnion({{0, 10}, {20, 30}, {40, 50}});
  const IntervalUnion b = MakeUnion({{2, 4}, {6, 22}, {29, 45}, {49, 60}});
  std::vector<std::pair<int64_t, int64_t>> parts;
  const IntervalUnion left = Without(a, b);
  for (const Interval& part : left.parts()) parts.push_back({part.begin_ns, part.end_ns});
  const std::vector<std::pair<int64_t, int64_t>> wanted{{0, 2}, {4, 6}, {22, 29}, {45, 49}};
  EXPECT_EQ(parts, wanted);
  EXPECT_EQ(Without(a, {}).TotalNs(), a.TotalNs());
  EXPECT_EQ(Without(a, a).TotalNs(), 0);
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
  for (const Threshold& t : Thresholds()) {
    std::ostringstream row;
    row << "| `" << t.name << "` | " << t.value << " | " << t.reason << " |\n";
    EXPECT_NE(document.find(row.str()), std::string::npos) << row.str();
  }
  for (const char* id : {"same_copy_each_step", "launch_bound_stretches", "profiler_cost"}) {
    EXPECT_NE(document.find("| `" + std::string(id) + "` |"), std::string::npos) << id;
  }
}

TEST(PrivateText, ShapesOfAddressesTokensAndPaths) {
  const auto kind = [](std::string_view name) { return FindPrivate(name).kind; };
  EXPECT_EQ(kind("job of jane.doe@example.org, second try"), PrivateKind::kMail);
  EXPECT_EQ(kind("load /home/jane/data.csv"), PrivateKind::kPath);
  EXPECT_EQ(kind("/data/sets/jane/x"), PrivateKind::kPath);
  EXPECT_EQ(kind("key=ghp_0123456789abcdefABCDEF0123456789abcd"), PrivateKind::kToken);
  EXPECT_EQ(kind("0123456789abcdef0123456789abcdef"), PrivateKind::kToken);
  for (const char* harmless :
       {"", "forward", "layer1/block2/attention", "train_step@torch", "x@y", "ProfilerStep#12",
        "aten::_scaled_dot_product_flash_attention_backward", "a@b@c.de", "/", "nccl:all_reduce",
        "Optimizer.step#AdamW.step", "triton_poi_fused_add_native_layer_norm_0d1d2d3d4d5d"}) {
    EXPECT_EQ(kind(harmless), PrivateKind::kNone) << harmless;
  }
  EXPECT_EQ(Masked("jane.doe@example.org"), "ja… (20 bytes)");
  EXPECT_EQ(kind(std::string(1 << 20, '@')), PrivateKind::kNone);
}

// The intervals of medians, against the coverage of fair coins worked out by hand.
TEST(Cost, RatioOfMediansWithItsInterval) {
  EXPECT_EQ(RatioOfMedians({1, 2}, {1, 2, 3}).at("reason"),
            "not measured: 2 and 3 values, 3 of each are needed");
  const Json three = RatioOfMedians({12, 10, 11}, {10, 9, 11});
  EXPECT_DOUBLE_EQ(three.at("value").get<double>(), 1.1);
  EXPECT_DOUBLE_EQ(three.at("low").get<double>(), 10.0 / 11);
  EXPECT_DOUBLE_EQ(three.at("high").get<double>(), 12.0 / 9);
  EXPECT_DOUBLE_EQ(three.at("coverage").get<double>(), 0.5);  // 3/4 each
  std::vector<int64_t> nine;
  for (int64_t i = 1; i <= 9; ++i) nine.push_back(i * 10);
  const Json of_nine = RatioOfMedians(nine, nine);
  EXPECT_DOUBLE_EQ(of_nine.at("low").get<double>(), 20.0 / 80);  // the second of nine: 96.1 %
  EXPECT_NEAR(of_nine.at("coverage").get<double>(), 2 * (1 - 20.0 / 512) - 1, 1e-12);
  EXPECT_TRUE(RatioOfMedians({1, 2, 3}, {0, 0, 0}).at("value").is_null());
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
