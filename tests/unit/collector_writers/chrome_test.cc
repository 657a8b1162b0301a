// The Chrome writer and the manifest, read back with nlohmann's parser. What consumers trip over is
// checked by check_chrome.py on the same cycles (tests/golden).
#include <map>

#include "collector/writers/chrome.h"
#include "collector/writers/manifest.h"
#include "collector/writers/steps_csv.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::writers {
namespace {

using Json = nlohmann::ordered_json;
using ::stepagent::testing::Folder;
using ::stepagent::testing::GoldenCycle;

struct Written {
  WriteResult result;
  Json doc;
  std::vector<Json> Rows(const std::string& cat) const {
    std::vector<Json> out;
    for (const Json& e : doc.at("traceEvents")) {
      if (e.value("cat", "") == cat && e.at("ph") == "X") out.push_back(e);
    }
    return out;
  }
};

Written WriteCase(std::string_view name) {
  const Folder folder;
  Written out;
  out.result =
      ChromeWriter().Write(GoldenCycle(name), {folder.path(), folder.path(), "stem.0", {}});
  EXPECT_TRUE(out.result.ok) << out.result.error;
  out.doc = testing::ParseGzip(out.result.files.at(0).path);
  return out;
}

int64_t Ns(const Json& micros) { return std::llround(micros.get<double>() * 1000); }

TEST(Chrome, HoldsEveryItemOnceWithItsDuration) {
  const model::Cycle cycle = GoldenCycle("train");
  const Written w = WriteCase("train");
  EXPECT_EQ(w.Rows("kernel").size(), cycle.kernels.size());
  EXPECT_EQ(w.Rows("gpu_memcpy").size(), cycle.copies.size());
  EXPECT_EQ(w.Rows("cuda_runtime").size(), cycle.calls.size());
  EXPECT_EQ(w.Rows("cuda_sync").size(), cycle.syncs.size());
  int64_t model_ns = 0, file_ns = 0;
  for (const model::Kernel& k : cycle.kernels) model_ns += k.end_ns - k.begin_ns;
  for (const Json& row : w.Rows("kernel")) file_ns += Ns(row.at("dur"));
  EXPECT_EQ(model_ns, file_ns);
  uint64_t rows = 0;
  for (const Json& e : w.doc.at("traceEvents")) rows += e.at("ph") == "X";
  EXPECT_EQ(w.result.files.at(0).events, rows);
}

TEST(Chrome, SameBytesForTheSameCycle) {
  EXPECT_EQ(WriteCase("train").result.files.at(0).sha256,
            WriteCase("train").result.files.at(0).sha256);
}

TEST(Chrome, ClockMeetsTheManifests) {
  const model::Cycle cycle = GoldenCycle("train");
  const Written w = WriteCase("train");
  const auto base = w.doc.at("baseTimeNanoseconds").get<int64_t>();
  EXPECT_EQ(base % kChromeBaseUnitNs, 0);
  const Json step = w.Rows("user_annotation").at(0);
  EXPECT_EQ(step.at("name"), "ProfilerStep#4");
  EXPECT_NEAR(double(base + Ns(step.at("ts")) - cycle.session.base_unix_ns),
              double(cycle.steps[0].begin_ns), 2);
}

TEST(Chrome, NodeLevelGraphHasAFlowPerKernel) {
  const Written w = WriteCase("graph");
  std::map<uint64_t, int> starts, ends;
  for (const Json& e : w.doc.at("traceEvents")) {
    if (e.at("ph") == "s") ++starts[e.at("id").get<uint64_t>()];
    if (e.at("ph") == "f") ++ends[e.at("id").get<uint64_t>()];
  }
  EXPECT_EQ(starts.size(), 7U);  // six nodes, one launch at graph level
  EXPECT_EQ(starts, ends);
  for (const Json& row : w.Rows("kernel")) EXPECT_EQ(row.at("args").at("graph id"), 9);
  EXPECT_EQ(w.Rows("gpu_graph").size(), 1U);
}

TEST(Chrome, WideAndRepeatedCorrelations) {
  const Written w = WriteCase("wide_correlation");
  EXPECT_EQ(w.Rows("kernel").at(0).at("args").at("correlation"), 4'294'967'290U);
  EXPECT_EQ(w.Rows("kernel").at(1).at("args").at("correlation"), 1U);
}

TEST(Chrome, WorkWithoutALaunchBorrowsNoCall) {
  const Written w = WriteCase("cut");
  std::vector<uint64_t> numbers;
  for (const Json& row : w.Rows("kernel")) {
    numbers.push_back(row.at("args").at("correlation").get<uint64_t>());
  }
  EXPECT_EQ(numbers,
            (std::vector<uint64_t>{6, 0, 99}));  // 5 is a call's; the unplaced one is not drawn
}

TEST(Chrome, ApplicationsOwnStepTextGivesOneRow) {
  const Written w = WriteCase("own_step_text");
  std::map<std::string, int> names;
  for (const Json& row : w.Rows("user_annotation")) ++names[row.at("name").get<std::string>()];
  const std::map<std::string, int> expected = {
      {"ProfilerStep#2", 1}, {"ProfilerStep#3", 1}, {"range ProfilerStep#1", 2}};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(w.Rows("user_annotation").at(0).at("args").at("range"), "ProfilerStep#500");
  EXPECT_TRUE(w.Rows("gpu_user_annotation").empty());
}

TEST(Chrome, NoStepRowsWithoutCallRows) {
  for (const Json& row : WriteCase("no_launch").Rows("user_annotation")) {
    EXPECT_EQ(row.at("name"), "train_step");
  }
}

TEST(Chrome, HostOnlyIsSaidInNameAndProcess) {
  const Written w = WriteCase("host_only");
  EXPECT_TRUE(w.result.files.at(0).path.ends_with("stem.0.hostonly.pt.trace.json.gz"));
  EXPECT_EQ(w.doc.at("traceEvents").at(0).at("args").at("name"),
            "python train.py [host only: no driver library in the process]");
  EXPECT_EQ(w.Rows("user_annotation").size(), 3U);
}

TEST(Chrome, HostileTextComesBack) {
  const model::Cycle cycle = GoldenCycle("hostile");
  const Written w = WriteCase("hostile");
  const std::string shown = w.Rows("kernel").at(0).at("name").get<std::string>();
  EXPECT_EQ(shown.substr(0, 8), "a\"b\\c\n\t\x01");
  EXPECT_EQ(w.Rows("kernel").at(1).at("name").get<std::string>().size(), 5123U);
}

TEST(Chrome, FailureNamesPathAndLeavesNothing) {
  const Folder folder;
  const WriteResult result =
      ChromeWriter().Write(GoldenCycle("train"), {folder / "absent", folder.path(), "s.0", {}});
  EXPECT_FALSE(result.ok);
  EXPECT_NE(result.error.find("absent/s.0.pt.trace.json.gz: create: No such file"),
            std::string::npos);
  EXPECT_EQ(folder.FileCount(), 0U);
}

TEST(Manifest, HasTheContractsKeys) {
  const Json m = BuildManifest(GoldenCycle("train"),
                               {{"/out/run/traces/a.gz", "chrome", 12, 3, "ff"}}, "/out/run");
  const std::vector<std::string> keys = {"schema",    "session",       "cycle",
                                         "schedule",  "step_source",   "step_extent",
                                         "steps",     "outside_steps", "overlapping_steps",
                                         "all_steps", "gpu",           "kinds",
                                         "balance",   "joins",         "clock",
                                         "cost",      "notes",         "files"};
  for (const std::string& key : keys) EXPECT_TRUE(m.contains(key)) << key;
  EXPECT_EQ(m.at("files").at(0).at("name"), "traces/a.gz");
  EXPECT_EQ(m.at("schedule").size(), 6U);
  EXPECT_EQ(m.at("steps").at(1).at("index"), 5);
  EXPECT_EQ(m.at("steps").at(1).at("phase"), "active");
  for (const auto& [kind, b] : m.at("balance").items()) {
    if (b.at("produced").is_null()) continue;
    const auto part = [&b = b](const char* key) { return b.at(key).get<int64_t>(); };
    EXPECT_EQ(part("produced"),
              part("written") + part("dropped") + part("out_of_window") + part("invalid"));
  }
}

TEST(Manifest, CostComparesStepsByCollection) {
  const Json cost = BuildManifest(GoldenCycle("train"), {}, "/").at("cost");
  // Steps 0 to 2 before (3 was warmup), 4 and 5 active, 6 and 7 after.
  EXPECT_EQ(cost.at("before").at("steps"), 3);
  EXPECT_EQ(cost.at("before").at("median_ns"), 951'000);
  EXPECT_EQ(cost.at("active").at("median_ns"), 1'000'000);
  EXPECT_EQ(cost.at("after").at("steps"), 2);
  EXPECT_EQ(cost.at("after").at("median_ns"), 956'500);  // the mean of the two middle values
  EXPECT_TRUE(cost.at("active").at("p90_ns").is_null());
}

TEST(Manifest, HostOnlyCountsAreNull) {
  const Json m = BuildManifest(GoldenCycle("host_only"), {}, "/");
  EXPECT_EQ(m.at("gpu").at("status"), "unavailable");
  EXPECT_TRUE(m.at("steps").at(0).at("kernels").is_null());
  EXPECT_TRUE(m.at("steps").at(0).at("launches").is_null());
  EXPECT_TRUE(m.at("balance").at("kernel").at("produced").is_null());
  EXPECT_TRUE(m.at("joins").at("launches").is_null());
  EXPECT_TRUE(m.at("cost").at("after").at("median_ns").is_null());
}

TEST(StepsCsv, OneLineAStep) {
  const Folder folder;
  ASSERT_TRUE(WriteStepsCsv(GoldenCycle("train"), folder.path()).ok);
  const std::string text = testing::ReadFile(folder / "steps.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 9);
  EXPECT_NE(text.find("\n4,4,1000000,1000000,active,1\n"), std::string::npos);
  EXPECT_NE(text.find("\n3,3,,953000,warmup,\n"), std::string::npos);
}

}  // namespace
}  // namespace stepagent::writers
