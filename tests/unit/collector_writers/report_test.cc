// `report` on everything a user may name, with the exit status scripts rely on.
#include "collector/cli/report.h"

#include "collector/analysis/summary.h"
#include "collector/writers/manifest.h"
#include "collector/writers/writer.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::stepagent::testing::Folder;
using ::stepagent::testing::GoldenCycle;

struct Outcome {
  int status = -1;
  std::string out, err;
};

Outcome Ask(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = ReportMain(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

// OUT/<run>/… as the collector lays it out, from a golden cycle.
std::string AddSession(const std::string& run, const std::string& name, model::Cycle cycle,
                       int rank) {
  cycle.session.rank = rank;
  const std::string folder = run + "/sessions/" + name + "/cycle-0000";
  const std::string traces = run + "/traces/cycle-0000";
  fs::create_directories(folder), fs::create_directories(traces);
  const auto trace =
      writers::MakeWriter("chrome")->Write(cycle, {traces, folder, name + ".0000", {}});
  EXPECT_TRUE(trace.ok) << trace.error;
  EXPECT_TRUE(analysis::WriteSummary(cycle, folder).ok);
  EXPECT_TRUE(writers::WriteManifest(cycle, trace.files, folder, run).ok);
  return folder;
}

TEST(Report, ACycleASessionARunAndOut) {
  const Folder out;
  const std::string run = out / "20260921T134640_00c0ffee";
  const std::string cycle = AddSession(run, "train", GoldenCycle("train"), 3);
  AddSession(out / "20260920T000000_00000001", "old", GoldenCycle("graph"), 0);
  fs::create_directory_symlink("20260921T134640_00c0ffee", out / "latest");
  for (const std::string& path : {cycle, cycle + "/", cycle + "/manifest.json", run, out.path()}) {
    const Outcome outcome = Ask({path});
    EXPECT_EQ(outcome.status, 0) << path << outcome.err;
    EXPECT_NE(outcome.out.find("train.py  rank 3 of 8"), std::string::npos) << path;
    EXPECT_NE(outcome.out.find(run + "/traces/cycle-0000/train.0000.pt.trace.json.gz"),
              std::string::npos);
  }
  EXPECT_NE(Ask({out.path()}).err.find("1 other runs"), std::string::npos);
}

TEST(Report, RanksAreRowsAndOfTwoStepsNoSlowestIsNamed) {
  const Folder out;
  const std::string run = out / "20260921T134640_00c0ffee";
  AddSession(run, "a", GoldenCycle("train"), 0);
  model::Cycle slow = GoldenCycle("train");
  for (model::Step& step : slow.steps) step.end_ns += 50'000;
  AddSession(run, "b", slow, 1);
  const Outcome outcome = Ask({run});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("\n     0     2   1.00 ms"), std::string::npos) << outcome.out;
  const size_t row = outcome.out.find("\n     1     2   1.05 ms");
  ASSERT_NE(row, std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("  slowest\n", row), std::string::npos);
  EXPECT_NE(outcome.out.find("  slowest: none is named: 2 steps are whole in all, too few (3 are "
                             "needed)\n"),
            std::string::npos)
      << outcome.out;
}

TEST(Report, AKinetoFileAndAFolderOfThem) {
  const Folder out;
  AddSession(out.path(), "train", GoldenCycle("train"), 3);
  const std::string traces = out / "traces/cycle-0000";
  EXPECT_EQ(Ask({traces}).status, 0);
  const Outcome outcome =
      Ask({traces + "/train.0000.pt.trace.json.gz", "--by", "kernel", "--top", "1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.out.find("void gemm"), std::string::npos);
  EXPECT_NE(outcome.out.find("1 more (--top 0 shows all)"), std::string::npos);
  EXPECT_EQ(outcome.out.find("cudaLaunchKernel"), std::string::npos);
}

TEST(Report, JsonHoldsWholeSummaries) {
  const Folder out;
  const Json document =
      Json::parse(Ask({AddSession(out.path(), "t", GoldenCycle("train"), 3), "--json"}).out);
  EXPECT_EQ(document.at("schema"), "stepagent.report/1");
  EXPECT_EQ(document.at("cycles").at(0).at("schema"), "stepagent.summary/1");
  EXPECT_EQ(document.at("cycles").at(0).at("kernels").size(), 2U);
}

// Fewer rows are no smaller totals.
TEST(Report, JsonSaysWhatTopLeavesOut) {
  const Folder out;
  const std::string cycle = AddSession(out.path(), "t", GoldenCycle("train"), 3);
  const auto first = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {cycle, "--json"});
    return Json::parse(Ask(words).out).at("cycles").at(0);
  };
  const Json all = first({"--by", "call"}), one = first({"--by", "call", "--top", "1"});
  EXPECT_EQ(all.at("rows").size(), 4U);
  EXPECT_EQ(all.at("rows_left_out"), 0);
  EXPECT_EQ(one.at("rows").size(), 1U);
  EXPECT_EQ(one.at("rows_left_out"), 3);
  EXPECT_EQ(one.at("totals"), all.at("totals"));
  int64_t total = 0;
  for (const Json& row : all.at("rows")) total += row.at("total_ns").get<int64_t>();
  EXPECT_EQ(one.at("totals").at("total_ns"), total);
  EXPECT_EQ(one.at("totals").at("rows"), 4);
  const Json whole = first({"--top", "1"});
  EXPECT_EQ(whole.at("kernels").size(), 1U);
  EXPECT_EQ(whole.at("steps").at("each").size(), 1U);
  EXPECT_EQ(whole.at("left_out").at("kernels").at("rows"), 1);
  EXPECT_EQ(whole.at("left_out").at("calls").at("totals"), one.at("totals"));
  EXPECT_EQ(first({"--by", "idle"}).at("totals").at("idle_ns"),
            first({}).at("idle").at("devices").at(0).at("idle_ns"));
}

// What is wrong with a session is wrong with it at every look.
TEST(Report, ProblemsOfASessionAreToldEachTime) {
  const Folder out;
  const std::string cycle = AddSession(out.path(), "t", GoldenCycle("train"), 3);
  const std::string session = fs::path(cycle).parent_path().string();
  std::ofstream(session + "/session.json")
      << R"({"state": "closed", "problems": ["raw.steps: damaged in 1 place"]})";
  for (int look = 0; look < 2; ++look) {
    for (const std::string& path : {session, out.path()}) {
      const Outcome outcome = Ask({path});
      EXPECT_EQ(outcome.status, 1) << path;
      EXPECT_NE(outcome.err.find("report: raw.steps: damaged in 1 place\n"), std::string::npos);
    }
  }
}

TEST(Report, StatusSaysWhatTheInputIsWorth) {
  const Folder out;
  const std::string cut = AddSession(out / "r", "cut", GoldenCycle("cut"), 0);
  const Outcome problems = Ask({cut});
  EXPECT_EQ(problems.status, 1);
  EXPECT_NE(problems.err.find("cut short (killed)"), std::string::npos);
  EXPECT_EQ(Ask({AddSession(out / "h", "host", GoldenCycle("host_only"), 0)}).status, 0);
  EXPECT_EQ(Ask({out / "absent"}).status, 3);
  EXPECT_EQ(Ask({cut, out / "absent"}).status, 1);
  EXPECT_EQ(Ask({}).status, 2);
  EXPECT_EQ(Ask({cut, "--by", "nothing"}).status, 2);
  EXPECT_EQ(Ask({cut, "--top", "many"}).status, 2);
}

TEST(Report, DamagedInputIsRefusedNotCrashed) {
  const Folder out;
  const std::string cycle = AddSession(out.path(), "t", GoldenCycle("train"), 3);
  const std::string whole = testing::ReadFile(cycle + "/summary.json");
  for (const std::string& text :
       {std::string(), std::string("{"), whole.substr(0, whole.size() / 2),
        std::string("{\"schema\": \"stepagent.summary/1\"}")}) {
    std::ofstream(cycle + "/summary.json") << text;
    EXPECT_EQ(Ask({cycle}).status, 3) << text.substr(0, 40);
  }
  std::ofstream(out / "junk") << "\x7f"
                              << "ELF";
  EXPECT_EQ(Ask({out / "junk"}).status, 3);
  std::ofstream(out / "empty");
  EXPECT_EQ(Ask({out / "empty"}).status, 3);
  EXPECT_EQ(Ask({"/proc/self"}).status, 3);
}

}  // namespace
}  // namespace stepagent::cli
