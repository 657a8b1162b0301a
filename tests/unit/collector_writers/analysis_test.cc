// Unions, tables, text and the Kineto reader.
#include <random>

#include "collector/analysis/device_time.h"
#include "collector/analysis/kineto_reader.h"
#include "collector/analysis/range_work.h"
#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/chrome.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using model::CallClass;
using ::stepagent::testing::CycleMaker;
using ::stepagent::testing::Folder;
using ::stepagent::testing::GoldenCycle;

// Random work on four streams against a count of every nanosecond.
TEST(DeviceTime, EqualsABruteForceCount) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    CycleMaker m;
    const uint32_t shapes[] = {m.Shape("k"), m.Shape("ncclDevKernel_AllReduce()")};
    for (uint64_t s = 0; s < 4; ++s) m.Lane(0, 1, s);
    std::vector<int> compute(400), collective(400), copy(400);
    for (int i = 0; i < 30; ++i) {
      const auto begin = static_cast<int64_t>(random() % 300);
      const int64_t end = begin + static_cast<int64_t>(random() % 40);
      const auto lane = static_cast<uint32_t>(random() % 4);
      const auto kind = random() % 3;
      if (kind == 2) {
        m.Copy(1, lane, begin, end, 1, -1);
      } else {
        m.Kernel(shapes[kind], lane, begin, end, -1);
      }
      for (int64_t t = begin; t < end; ++t) {
        ++(kind == 0 ? compute : kind == 1 ? collective : copy)[static_cast<size_t>(t)];
      }
    }
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; };
    std::stable_sort(m.cycle.kernels.begin(), m.cycle.kernels.end(), by_begin);
    std::stable_sort(m.cycle.copies.begin(), m.cycle.copies.end(), by_begin);
    const model::Cycle cycle = m.Finish();
    const DeviceWork work(cycle);
    ASSERT_EQ(work.devices().size(), 1U);
    const DeviceTime& d = work.devices()[0];
    int64_t busy = 0, both = 0, exposed = 0;
    for (size_t t = 0; t < 400; ++t) {
      busy += compute[t] || collective[t] || copy[t];
      both += compute[t] && copy[t];
      exposed += collective[t] && !compute[t];
    }
    ASSERT_EQ(d.busy.TotalNs(), busy);
    ASSERT_EQ(d.busy.TotalNs() + d.IdleNs(), d.SpanNs());
    ASSERT_EQ(d.OverlapNs(), both);
    ASSERT_EQ(d.ExposedCollectiveNs(), exposed);
  }
}

// One kernel of 2 s over fifty successors of its stream is set aside; a dense healthy stream is
// not.
TEST(DeviceTime, SetsAsideADurationNoStreamCanHave) {
  CycleMaker m;
  const uint32_t shape = m.Shape("k"), lane = m.Lane(0, 1, 7);
  for (int64_t i = 0; i < 1000; ++i) {
    m.Kernel(shape, lane, i * 1000, i == 100 ? 2'000'000'000 : i * 1000 + 1000, -1);
    if (i == 151) m.cycle.kernels[100].end_ns = 151'500;
  }
  const model::Cycle cycle = m.Finish();
  const DeviceWork work(cycle);
  ASSERT_EQ(work.set_aside().size(), 1U);
  EXPECT_EQ(work.set_aside()[0].kernel, 100U);
  EXPECT_EQ(work.devices()[0].busy.TotalNs(), 999'000);
  CycleMaker healthy;
  healthy.Shape("k"), healthy.Lane(0, 1, 7);
  for (int64_t i = 0; i < 1000; ++i) healthy.Kernel(0, 0, i / 2 * 10, i / 2 * 10 + 10, -1);
  EXPECT_TRUE(DeviceWork(healthy.Finish()).set_aside().empty());
}

TEST(Ranges, SelfLaunchWaitAndDeviceTime) {
  const Json summary = Summarize(GoldenCycle("train"));
  const Json step = summary.at("ranges").at(0);
  EXPECT_EQ(step.at("name"), "train_step");
  EXPECT_EQ(step.at("count"), 2);
  EXPECT_EQ(step.at("total_ns"), 2'000'000);
  EXPECT_EQ(step.at("self_ns"), 2 * (1'000'000 - 190'000 - 290'000));
  EXPECT_EQ(step.at("launch_ns"), 2 * (3000 + 6000));  // the side thread's launches are not its own
  EXPECT_EQ(step.at("wait_ns"), 560'000);
  EXPECT_EQ(step.at("other_ns"), 2'000'000 - 18'000 - 560'000);
  EXPECT_EQ(step.at("device_ns"), 2 * (70'123 + 339'876));
}

// What a range launched ran for so long, and lay so far apart: two figures, whenever the work ran.
TEST(Ranges, ProjectedTimeHasTheGapsThatDeviceTimeLeavesOut) {
  CycleMaker m;
  const uint32_t main = m.Thread(1, "main"), side = m.Thread(2, "side");
  const uint32_t a = m.Lane(0, 1, 7), b = m.Lane(0, 1, 8), shape = m.Shape("k");
  m.Step(0, 0, 1000, main);
  m.Range("forward", main, 0, 100), m.Range("forward", main, 200, 300);
  m.Range("empty", main, 400, 500);
  const auto launch = [&](uint32_t thread, int64_t at, uint32_t correlation) {
    return m.Call("cudaLaunchKernel", CallClass::kLaunch, thread, at, at + 5, correlation);
  };
  const int32_t first = launch(main, 10, 1), second = launch(main, 20, 2),
                third = launch(main, 210, 3), other = launch(side, 220, 4),
                outside = launch(main, 1100, 5);
  m.Kernel(shape, a, 100, 150, first), m.Kernel(shape, b, 300, 350, second);
  m.Kernel(shape, a, 340, 400, third), m.Kernel(shape, b, 500, 530, other);
  m.Kernel(shape, a, 1200, 1220, outside);
  const Json summary = Summarize(m.Finish());
  const auto row = [&](const char* name) -> Json {
    for (const Json& one : summary.at("ranges")) {
      if (one.at("name") == name) return one;
    }
    return nullptr;
  };
  EXPECT_EQ(row("forward").at("device_ns"), 50 + 100);     // 100..150, 300..400
  EXPECT_EQ(row("forward").at("projected_ns"), 300);       // 100..350 and 340..400
  EXPECT_EQ(row("empty").at("projected_ns"), 0);
  const Json& device = summary.at("devices").at(0);
  EXPECT_EQ(device.at("launched_outside_ranges_ns"), 30 + 20);
  EXPECT_EQ(device.at("launched_outside_steps_ns"), 20);
  const std::string text = RenderSummaryText(summary, {});
  EXPECT_NE(text.find("; of work launched outside\n           every step 20 ns, outside every range "
                      "50 ns\n"),
            std::string::npos)
      << text;
}

// A step that ran in part before collection came on has no device time that anybody knows.
TEST(Steps, OfAStepRecordedInPartDeviceTimeIsNotKnown) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.steps[0].partial = true;
  Json each = Summarize(cycle).at("steps").at("each");
  for (const char* key : {"device_ns", "exposed_collective_ns", "launches"}) {
    EXPECT_TRUE(each.at(0).at(key).is_null()) << key;
    EXPECT_TRUE(each.at(1).at(key).is_number()) << key;
  }
  // The same where its device records did not all come.
  cycle.steps[0].partial = cycle.steps[0].complete = false;
  EXPECT_TRUE(Summarize(cycle).at("steps").at("each").at(0).at("device_ns").is_number());
  cycle.joins.launches_without_device_work = 1;
  each = Summarize(cycle).at("steps").at("each");
  EXPECT_TRUE(each.at(0).at("device_ns").is_null());
  EXPECT_TRUE(each.at(1).at("device_ns").is_number());
}

TEST(Summary, EveryCaseHasEveryKey) {
  const std::vector<std::string> keys = {"schema",  "window",   "steps",  "devices",
                                         "kernels", "calls",    "copies", "ranges",
                                         "waits",   "readings", "cost",   "notes"};
  for (const std::string_view name : testing::GoldenNames()) {
    const Json summary = Summarize(GoldenCycle(name));
    for (const std::string& key : keys) EXPECT_TRUE(summary.contains(key)) << name << " " << key;
    for (const std::string_view table : KnownTables()) {
      RenderOptions options;
      options.by = table, options.top = 0;
      EXPECT_FALSE(RenderSummaryText(summary, options).empty()) << name << " " << table;
    }
  }
}

TEST(Summary, HostOnlyIsNullWithAReasonAndSaidFirst) {
  const Json summary = Summarize(GoldenCycle("host_only"));
  for (const char* table : {"devices", "kernels", "copies", "calls", "waits"}) {
    EXPECT_TRUE(summary.at(table).is_null()) << table;
    EXPECT_EQ(summary.at("absent").at(table), "no driver library in the process");
  }
  EXPECT_TRUE(summary.at("ranges").at(0).at("launch_ns").is_null());
  const std::string text = RenderSummaryText(summary, {});
  EXPECT_LT(text.find("HOST ONLY  no device data: no driver library in the process"), 200U);
}

// Without kernels nobody knows when the device was busy: no figure is made of the copies alone.
TEST(Summary, FiguresThatNeedAKindThatWasNotAskedForAreNull) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.kernels.clear();
  cycle.kinds[static_cast<size_t>(model::Activity::kKernel)] = {};
  for (model::Step& step : cycle.steps) step.kernels.reset();
  const Json summary = Summarize(cycle);
  EXPECT_TRUE(summary.at("kernels").is_null());
  const Json& device = summary.at("devices").at(0);
  for (const char* key : {"busy_ns", "idle_ns", "compute_ns", "collective_ns",
                          "exposed_collective_ns", "overlap_ns", "busy_in_window_ns"}) {
    EXPECT_TRUE(device.at(key).is_null()) << key;
  }
  EXPECT_GT(device.at("copy_ns").get<int64_t>(), 0);
  const Json& step = summary.at("steps").at("each").at(0);
  for (const char* key : {"device_ns", "exposed_collective_ns", "kernels"}) {
    EXPECT_TRUE(step.at(key).is_null()) << key;
  }
  EXPECT_EQ(summary.at("absent").at("devices.busy_ns"), "kernel: not asked for (--activities)");
  for (const Json& reading : summary.at("readings")) {
    EXPECT_EQ(reading.at("id").get<std::string>().find("idle"), std::string::npos);
  }
  const std::string text = RenderSummaryText(summary, {});
  EXPECT_NE(text.find("busy not known"), std::string::npos);
  EXPECT_EQ(text.find("compute 0 ns"), std::string::npos);
  EXPECT_NE(text.find("kernel: not asked for"), std::string::npos);
}

TEST(Summary, TracerStartAndCutStepsAreLeftOutOfTheMedian) {
  const Json steps = Summarize(GoldenCycle("cut")).at("steps");
  EXPECT_EQ(steps.at("count"), 1);
  EXPECT_EQ(steps.at("counted"), 0);
  EXPECT_TRUE(steps.at("median_ns").is_null());
}

TEST(Summary, TextStaysWithin100Columns) {
  for (const std::string_view name : testing::GoldenNames()) {
    const std::string text = RenderSummaryText(GoldenCycle(name), 0);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      EXPECT_LE(Columns(std::string_view(text).substr(at, end - at)), kTextColumns)
          << name << ": " << text.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(Text, ASentenceIsCutBehindAWord) {
  const std::string reason =
      "the session ended before the rest of this cycle's device records arrived";
  EXPECT_EQ(FitSentence(reason, 300), reason);
  EXPECT_EQ(FitSentence(reason, 60), "the session ended before the rest of this cycle's device…");
  EXPECT_EQ(FitSentence("the session ended", 12), "the session…");  // just behind one
  EXPECT_EQ(Columns(FitSentence(std::string(300, 'x'), 30)), 30U);
  EXPECT_EQ(FitSentence("a " + std::string(300, 'x'), 30), "a " + std::string(27, 'x') + "…");
  EXPECT_EQ(FitSentence("a\nb", 300), "a?b");
}

TEST(TextFormat, ThreeDigitsAndAUnit) {
  EXPECT_EQ(Duration(0), "0 ns");
  EXPECT_EQ(Duration(999), "999 ns");
  EXPECT_EQ(Duration(1234), "1.23 us");
  EXPECT_EQ(Duration(123'456), "123 us");
  EXPECT_EQ(Duration(999'600), "1.00 ms");
  EXPECT_EQ(Duration(61'000'000'000), "61.0 s");
  EXPECT_EQ(Bytes(1'048'576), "1.05 MB");
  EXPECT_EQ(Count(1234567), "1,234,567");
  EXPECT_EQ(Fit("a\x1b[31m", 20), "a?[31m");
  EXPECT_EQ(Columns(Fit(std::string(300, 'x'), 30)), 30U);
}

// What turns the direction of writing, or is not seen, must not reach a terminal.
TEST(TextFormat, WhatATerminalWouldActOnIsShown) {
  EXPECT_EQ(Fit("a\xe2\x80\xae" "b", 20), "a\\u202eb");
  EXPECT_EQ(Fit("a\xe2\x81\xa6" "b\xe2\x81\xa9", 20), "a\\u2066b\\u2069");
  EXPECT_EQ(Fit("\xc2\x9b" "31m", 20), "\\u009b31m");
  EXPECT_EQ(Fit("x\xf3\xa0\x81\xa1", 20), "x\\U000e0061");
  EXPECT_EQ(Fit("gr\xc3\xbc\xc3\x9f \xe2\x82\xac", 20), "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
  EXPECT_EQ(Printable("a\nb\x07", true), "a\nb?");
  CycleMaker m;
  const uint32_t shape = m.Shape("evil\xe2\x80\xaeleets"), lane = m.Lane(0, 1, 7);
  m.Kernel(shape, lane, 0, 1000, -1);
  const model::Cycle cycle = m.Finish();
  const std::string text = RenderSummaryText(cycle, 0);
  EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_NE(text.find("evil\\u202eleets"), std::string::npos);
  EXPECT_EQ(Summarize(cycle).at("kernels").at(0).at("name"), "evil\xe2\x80\xaeleets");
}

TEST(TextFormat, NamesThatAreCutStayApart) {
  const std::string a(60, 'a'), z(60, 'z');
  const std::vector<std::string> names = {a + "<float>" + z, a + "<half>" + z, "short",
                                          a + "<float>" + z};
  const std::vector<std::string> cut = FitApart(names, 40);
  EXPECT_EQ(Fit(names[0], 40), Fit(names[1], 40));
  EXPECT_NE(cut[0], cut[1]);
  EXPECT_NE(cut[0].find("float"), std::string::npos) << cut[0];
  EXPECT_NE(cut[1].find("half"), std::string::npos) << cut[1];
  EXPECT_EQ(cut[2], "short");
  EXPECT_EQ(cut[3], cut[0]);
  for (const std::string& name : cut) EXPECT_LE(Columns(name), 40U);
  // Three that part in two places: a number tells what the cut hides.
  const std::vector<std::string> three = FitApart({a + "1" + z + "1" + z, a + "1" + z + "2" + z,
                                                   a + "2" + z + "1" + z}, 40);
  EXPECT_NE(three[0], three[1]);
  EXPECT_NE(three[1], three[2]);
}

// What our writer wrote, read as any Kineto file is, gives the same tables.
TEST(KinetoReader, OurOwnFileGivesTheSameFigures) {
  for (const char* name : {"train", "graph", "two_devices", "overlap"}) {
    const Folder folder;
    model::Cycle cycle = GoldenCycle(name);
    if (!cycle.steps.empty()) cycle.steps.front().contains_tracer_start = true;
    const auto written =
        writers::ChromeWriter().Write(cycle, {folder.path(), folder.path(), "s.0", {}});
    ASSERT_TRUE(written.ok);
    const KinetoReadResult read = ReadKinetoFile(written.files.at(0).path);
    ASSERT_TRUE(read.ok) << read.error;
    EXPECT_TRUE(read.problems.empty());
    EXPECT_EQ(read.cycle.session.rank, 3);
    const Json ours = Summarize(cycle), theirs = Summarize(read.cycle);
    for (const char* table : {"kernels", "calls", "copies", "sets", "waits", "graph_launches"}) {
      EXPECT_EQ(ours.at(table), theirs.at(table)) << name << " " << table;
    }
    ASSERT_EQ(read.cycle.steps.size(), cycle.steps.size());
    for (size_t i = 0; i < cycle.steps.size(); ++i) {
      EXPECT_EQ(read.cycle.steps[i].contains_tracer_start, cycle.steps[i].contains_tracer_start);
      EXPECT_EQ(read.cycle.steps[i].complete, cycle.steps[i].complete);
    }
    for (const char* key :
         {"busy_ns", "idle_ns", "compute_ns", "overlap_ns", "busy_in_window_ns"}) {
      EXPECT_EQ(ours.at("devices").at(0).at(key), theirs.at("devices").at(0).at(key)) << key;
    }
  }
}

// Numbers no clock and no device can mean: counted or cut, never undefined.
TEST(KinetoReader, AbsurdNumbersAreSetAside) {
  const Folder folder;
  std::string rows;
  for (const char* number : {"1e300", "-1e300", "18446744073709551615", "9223372036854775807.999",
                             "-9223372036854775808", "1e-300"}) {
    for (const char* form : {"\"ts\":%,\"dur\":1", "\"ts\":1,\"dur\":%", "\"ts\":%,\"dur\":%"}) {
      std::string row = form;
      for (size_t at; (at = row.find('%')) != std::string::npos;) row.replace(at, 1, number);
      for (const char* cat : {"kernel", "cuda_runtime", "user_annotation"}) {
        rows += (rows.empty() ? "" : ",") + std::string("{\"ph\":\"X\",\"cat\":\"") + cat +
                "\",\"name\":\"n\",\"pid\":" + number + ",\"tid\":" + number + "," + row +
                ",\"args\":{\"stream\":7,\"device\":0,\"correlation\":" + number + ",\"grid\":[" +
                number + ",1,1]}}";
      }
    }
  }
  std::ofstream(folder / "a.json")
      << "{\"baseTimeNanoseconds\":18446744073709551615,\"traceEvents\":[" << rows << "]}";
  const KinetoReadResult read = ReadKinetoFile(folder / "a.json");
  ASSERT_TRUE(read.ok) << read.error;
  ASSERT_EQ(read.problems.size(), 4U);
  const char* const said[] = {"\"baseTimeNanoseconds\" is beyond 64 bits", "\"correlation\" is",
                              "\"grid\" is", "rows have no time"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NE(read.problems[i].find(said[i]), std::string::npos) << read.problems[i];
  }
  EXPECT_FALSE(RenderSummaryText(read.cycle, 0).empty());
}

TEST(KinetoReader, DamagedAndForeignFilesAreSaidSo) {
  const Folder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return ReadKinetoFile(folder / name);
  };
  EXPECT_FALSE(write("a.json", "not json").ok);
  EXPECT_FALSE(write("b.json", "{\"x\": 1}").ok);
  EXPECT_FALSE(ReadKinetoFile(folder / "absent").ok);
  for (const char* empty : {"{\"traceEvents\": []}", "[]"}) {
    const KinetoReadResult read = write("c.json", empty);
    EXPECT_FALSE(read.ok);
    EXPECT_NE(read.error.find("holds no trace"), std::string::npos) << read.error;
  }
  const KinetoReadResult cut =
      write("e.json",
            "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"a\",\"pid\":1,"
            "\"tid\":1,\"ts\":1712195495505583.025,\"dur\":2}, {\"ph\":");
  EXPECT_TRUE(cut.ok);
  EXPECT_FALSE(cut.cycle.complete);
  ASSERT_EQ(cut.cycle.ranges.size(), 1U);
  EXPECT_EQ(cut.cycle.ranges[0].begin_ns, 1712195495505583025);
  EXPECT_EQ(cut.cycle.ranges[0].end_ns - cut.cycle.ranges[0].begin_ns, 2000);
}

}  // namespace
}  // namespace stepagent::analysis
