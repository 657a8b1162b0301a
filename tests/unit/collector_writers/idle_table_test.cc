// Where the host was while a device had nothing to do, against a count of every nanosecond.
#include <map>
#include <random>
#include <tuple>

#include "collector/analysis/summary.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using model::CallClass;
using ::stepagent::testing::CycleMaker;
using ::stepagent::testing::GoldenCycle;

constexpr int64_t kEnd = 400;

template <typename T>
void SortByBegin(std::vector<T>& items) {
  std::stable_sort(items.begin(), items.end(), [](const T& a, const T& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
}

// Two steps with a pause between them, nested ranges, calls one after the other, two devices.
model::Cycle RandomCycle(std::mt19937_64& random) {
  CycleMaker m;
  const auto upto = [&random](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  const uint32_t other = m.Thread(9, "other"), main = m.Thread(1, "main");
  const uint32_t lanes[] = {m.Lane(0, 1, 7), m.Lane(0, 1, 8), m.Lane(1, 2, 7)};
  const uint32_t shape = m.Shape("k");
  m.Step(4, 0, 150, main), m.Step(5, 200, kEnd, main);
  const char* names[] = {"a", "b", "c"};
  for (int i = 0; i < 6; ++i) {
    const int64_t begin = upto(kEnd), end = std::min(kEnd, begin + 20 + upto(100));
    m.Range(names[i % 3], main, begin, end);
    const int64_t inner = begin + upto(end - begin + 1);
    m.Range(names[(i + 1) % 3], main, inner, inner + upto(end - inner + 1));
  }
  m.Range("elsewhere", other, 0, kEnd);
  uint32_t correlation = 1;
  for (int64_t at = upto(10); at < kEnd;) {
    const int64_t end = at + upto(30);
    const bool is_wait = random() % 3 == 0;
    m.Call(is_wait ? "cudaStreamSynchronize" : "cudaLaunchKernel_v7000",
           is_wait ? CallClass::kSync : CallClass::kLaunch, random() % 4 == 0 ? other : main, at,
           end, correlation++);
    at = end + upto(20);
  }
  // The first work of each stream, so that all of the time behind it is known.
  for (const uint32_t lane : lanes) m.Kernel(shape, lane, 5, 6, 0);
  for (int i = 0; i < 12; ++i) {
    const int64_t begin = 5 + upto(kEnd);
    m.Kernel(shape, lanes[upto(3)], begin, begin + upto(25), 0);
  }
  SortByBegin(m.cycle.ranges), SortByBegin(m.cycle.kernels);
  return m.Finish();
}

using Place = std::tuple<int32_t, std::string, std::string>;  // device, range, call

template <typename T>
std::string InnermostAt(const model::Cycle& cycle, const std::vector<T>& items, uint32_t thread,
                        int64_t at) {
  const T* found = nullptr;
  for (const T& item : items) {
    if (item.thread != thread || item.begin_ns > at || item.end_ns <= at) continue;
    const bool is_inner = found == nullptr || item.begin_ns > found->begin_ns ||
                          (item.begin_ns == found->begin_ns && item.end_ns <= found->end_ns);
    if (is_inner) found = &item;
  }
  return found == nullptr ? "" : std::string(cycle.Text(found->name));
}

TEST(Idle, EqualsACountOfEveryNanosecond) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    const model::Cycle cycle = RandomCycle(random);
    const Json idle = Summarize(cycle).at("idle");
    ASSERT_EQ(idle.at("thread").at("tid"), 1);
    EXPECT_EQ(idle.at("not_known_ns"), 5);
    EXPECT_EQ(idle.at("looked_at_ns"), kEnd - 5);
    std::map<Place, int64_t> wanted, outside;
    for (int64_t at = 5; at < kEnd; ++at) {
      for (int32_t device = 0; device < 2; ++device) {
        const bool is_busy = std::any_of(cycle.kernels.begin(), cycle.kernels.end(),
                                         [&](const model::Kernel& kernel) {
                                           return cycle.lanes[kernel.lane].device == device &&
                                                  kernel.begin_ns <= at && at < kernel.end_ns;
                                         });
        if (is_busy) continue;
        std::string call = InnermostAt(cycle, cycle.calls, 1, at);
        if (call == "cudaLaunchKernel_v7000") call = "cudaLaunchKernel";
        const Place place{device, InnermostAt(cycle, cycle.ranges, 1, at), call};
        ++wanted[place], outside[place] += at >= 150 && at < 200;
      }
    }
    std::map<Place, int64_t> ours, ours_outside;
    std::map<int32_t, int64_t> sum, sum_outside;
    for (const Json& row : idle.at("rows")) {
      const auto text = [&](const char* key) {
        return row.at(key).is_null() ? "" : row.at(key).get<std::string>();
      };
      const auto device = row.at("device").get<int32_t>();
      const Place place{device, text("range"), text("call")};
      EXPECT_FALSE(ours.contains(place));
      ours[place] = row.at("idle_ns"), ours_outside[place] = row.at("outside_steps_ns");
      sum[device] += ours[place], sum_outside[device] += ours_outside[place];
    }
    ASSERT_EQ(ours, wanted) << round;
    ASSERT_EQ(ours_outside, outside) << round;
    for (const Json& device : idle.at("devices")) {
      const auto ordinal = device.at("ordinal").get<int32_t>();
      EXPECT_EQ(device.at("idle_ns"), sum[ordinal]);
      EXPECT_EQ(device.at("outside_steps_ns"), sum_outside[ordinal]);
    }
  }
}

TEST(Idle, AWaitSaysWhatItIsFor) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.syncs.clear();
  Json idle = Summarize(cycle).at("idle");
  const auto wait = [](const Json& table) -> Json {
    for (const Json& row : table.at("rows")) {
      if (row.at("call") == "cudaStreamSynchronize") return row;
    }
    return nullptr;
  };
  ASSERT_FALSE(wait(idle).is_null()) << idle.dump(1);
  EXPECT_TRUE(wait(idle).at("waits_for").is_null());  // CUPTI's record of it is not there
  for (size_t i = 0; i < cycle.calls.size(); ++i) {
    if (cycle.calls[i].cls != CallClass::kSync) continue;
    model::Sync sync;
    sync.call = static_cast<int32_t>(i), sync.type = 3, sync.device = 0;
    sync.stream = cycle.lanes[0].stream;
    cycle.syncs.push_back(sync);
  }
  idle = Summarize(cycle).at("idle");
  EXPECT_EQ(wait(idle).at("waits_for"), "GPU 0 stream 7");
  for (model::Sync& sync : cycle.syncs) sync.type = 4, sync.stream.reset();
  EXPECT_EQ(wait(Summarize(cycle).at("idle")).at("waits_for"), "all of GPU 0");
  for (model::Sync& sync : cycle.syncs) sync.type = 1;
  EXPECT_EQ(wait(Summarize(cycle).at("idle")).at("waits_for"), "an event");
}

TEST(Idle, TheTextSaysWhoseTimeOfWhat) {
  const Json summary = Summarize(GoldenCycle("train"));
  RenderOptions options;
  options.by = "idle";
  const std::string text = RenderSummaryText(summary, options);
  EXPECT_NE(text.find("Idle (no work of this process on the device), by where the host was\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("which runs the steps; looked at: "), std::string::npos) << text;
  EXPECT_NE(text.find("until each stream's first work"), std::string::npos) << text;
  EXPECT_NE(text.find("(no CUDA call)"), std::string::npos) << text;
  EXPECT_NE(text.find("(no range)"), std::string::npos) << text;
  EXPECT_NE(RenderSummaryText(summary, {}).find("\nIdle (no work"), std::string::npos);
}

// A step by a signal or a clock is no thread's.
TEST(Idle, WithoutAStepThreadTheOneThatLaunchesMost) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.session.step_source = "signal";
  for (model::Step& step : cycle.steps) step.thread = 1;
  for (model::Call& call : cycle.calls) call.thread = 0;
  EXPECT_EQ(Summarize(cycle).at("idle").at("thread").at("why"), "makes most launch calls");
  EXPECT_EQ(Summarize(cycle).at("idle").at("thread").at("tid"), cycle.threads[0].tid);
  cycle.steps.clear();
  for (model::Call& call : cycle.calls) call.step = model::kNoStep;
  for (model::Kernel& kernel : cycle.kernels) kernel.step = model::kNoStep;
  for (model::Copy& copy : cycle.copies) copy.step = model::kNoStep;
  const Json idle = Summarize(cycle).at("idle");
  EXPECT_TRUE(idle.at("devices").at(0).at("outside_steps_ns").is_null());
  for (const Json& row : idle.at("rows")) EXPECT_TRUE(row.at("outside_steps_ns").is_null());
}

TEST(Idle, WhereRecordsAreMissingNothingIsSaidToBeIdle) {
  model::Cycle lost = GoldenCycle("train");
  lost.joins.launches_without_device_work = 2;
  Json summary = Summarize(lost);
  EXPECT_TRUE(summary.at("idle").is_null());
  EXPECT_EQ(summary.at("absent").at("idle"), "2 kernel or graph launches without a device record");
  RenderOptions options;
  options.by = "idle";
  EXPECT_NE(RenderSummaryText(summary, options).find("not available: 2 kernel or graph launches"),
            std::string::npos);
  summary = Summarize(GoldenCycle("host_only"));
  EXPECT_TRUE(summary.at("idle").is_null());
  EXPECT_EQ(summary.at("absent").at("idle"), "no driver library in the process");
  model::Cycle partial = GoldenCycle("train");
  for (model::Step& step : partial.steps) step.partial = true;
  summary = Summarize(partial);
  EXPECT_TRUE(summary.at("idle").is_null());
  EXPECT_NE(summary.at("absent").at("idle").get<std::string>().find("within the steps"),
            std::string::npos);
  // One of them is left out, and said to be.
  partial.steps[1].partial = false;
  summary = Summarize(partial);
  EXPECT_EQ(summary.at("idle").at("steps_left_out"), 1);
  EXPECT_EQ(summary.at("idle").at("left_out_ns"), 1'000'000);
  EXPECT_NE(RenderSummaryText(summary, options).find("of a step with the tracer's start"),
            std::string::npos);
}

TEST(Idle, WhatOfTheHostWasNotRecordedIsSaid) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.ranges.clear();
  cycle.kinds[static_cast<size_t>(model::Activity::kNvtx)] = {};
  cycle.kinds[static_cast<size_t>(model::Activity::kSync)] = {};
  const Json summary = Summarize(cycle);
  EXPECT_EQ(summary.at("absent").at("idle.range"), "nvtx: not asked for (--activities)");
  EXPECT_EQ(summary.at("absent").at("idle.call"), "sync: not asked for (--activities)");
  RenderOptions options;
  options.by = "idle";
  const std::string text = RenderSummaryText(summary, options);
  EXPECT_NE(text.find("ranges not known: nvtx"), std::string::npos) << text;
  EXPECT_NE(text.find("calls not known: sync"), std::string::npos) << text;
  EXPECT_EQ(text.find("(no range)"), std::string::npos) << text;
  EXPECT_EQ(text.find("(no CUDA call)"), std::string::npos) << text;
}

// A copy in the first step's stream is there until the end: nobody can know what was idle before.
TEST(Idle, TimeThatIsNotKnownIsNotIdle) {
  CycleMaker m;
  const uint32_t main = m.Thread(1, "main"), a = m.Lane(0, 1, 7), b = m.Lane(0, 1, 8);
  m.Step(0, 0, 100, main);
  const int32_t call = m.Call("cudaLaunchKernel_v7000", CallClass::kLaunch, main, 1, 2, 1);
  const uint32_t shape = m.Shape("k");
  m.Kernel(shape, a, 10, 20, call), m.Kernel(shape, b, 90, 95, call);
  const Json idle = Summarize(m.Finish()).at("idle");
  EXPECT_EQ(idle.at("not_known_ns"), 90);
  EXPECT_EQ(idle.at("devices").at(0).at("idle_ns"), 5);
}

}  // namespace
}  // namespace stepagent::analysis
