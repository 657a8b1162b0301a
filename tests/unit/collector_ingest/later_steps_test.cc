// Steps behind a cycle: told later, and put into what was written.
#include <vector>

#include "collector/spool/folders.h"
#include "collector/spool/recover.h"
#include "collector/writers/sha256.h"
#include "tests/unit/collector_ingest/builder_fixture.h"
#include "tests/unit/collector_ingest/pipeline_fixture.h"

namespace stepagent::ingest {
namespace {

using model::CycleBuilder;
using model::LaterSteps;

struct Row {
  uint64_t index, duration_ns;
  uint32_t collecting;
};

void Fill(v1::AllSteps* steps, const std::vector<Row>& rows) {
  steps->set_count(rows.empty() ? 0 : rows.back().index + 1);
  for (const Row& row : rows) {
    steps->add_index(row.index);
    steps->add_duration_ns(row.duration_ns);
    steps->add_collecting(row.collecting);
  }
}

// Steps 0 to 3 without collection, 4 a warmup, 5 and 6 recorded, 1 ms each.
std::vector<Row> FirstRows() {
  std::vector<Row> rows;
  for (uint64_t i = 0; i < 7; ++i) {
    rows.push_back({i, uint64_t{kMs} - (i < 4 ? 100'000 : 0), i < 4 ? 0U : i < 5 ? 1U : 2U});
  }
  return rows;
}

v1::Batch FirstCycle(BatchFactory* agent) {
  agent->WholeCycle(0, 5, 2, 100 * kMs, 1);
  v1::Batch batch = agent->Take(200 * kMs);
  Fill(batch.mutable_cycle_reports(0)->mutable_all_steps(), FirstRows());
  return batch;
}

std::string BatchFrame(const v1::Batch& batch) {
  return test::MakeFrame(proto::FrameType::kBatch, batch.SerializeAsString(), batch.sequence());
}

std::string GoodbyeFrame(const BatchFactory& agent, const std::vector<Row>& rows) {
  v1::Goodbye goodbye = agent.Goodbye();
  Fill(goodbye.mutable_all_steps(), rows);
  return test::MakeFrame(proto::FrameType::kGoodbye, goodbye.SerializeAsString());
}

const std::vector<Row> kBehind = {{7, 900'000, 3}, {8, 910'000, 0}, {9, 920'000, 0}, {10, 990'000, 0}};

TEST(LaterStepsOfBuilder, TheGoodbyeTellsThem) {
  BatchFactory agent;
  CycleBuilder builder(agent.Hello());
  builder.Add(FirstCycle(&agent));
  const auto cycles = builder.TakeClosed();
  ASSERT_EQ(cycles.size(), 1U);
  EXPECT_EQ(cycles[0].why_no_later_steps, "this was written when the cycle ended");
  EXPECT_TRUE(builder.TakeLaterSteps().empty());
  v1::Goodbye goodbye = agent.Goodbye();
  Fill(goodbye.mutable_all_steps(), kBehind);
  builder.Add(goodbye);
  const std::vector<LaterSteps> later = builder.TakeLaterSteps();
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].cycle, 0U);
  EXPECT_EQ(later[0].why_none, "");
  EXPECT_FALSE(later[0].until.has_value());
  EXPECT_EQ(later[0].all_steps.count, 11U);
  EXPECT_EQ(later[0].all_steps.each.size(), 11U);
  EXPECT_TRUE(builder.TakeRemaining().empty());
  EXPECT_TRUE(builder.TakeLaterSteps().empty()) << "told already";
}

TEST(LaterStepsOfBuilder, WithoutThemTheReasonIsSaid) {
  BatchFactory agent;
  CycleBuilder of_old_agent(agent.Hello()), of_killed(agent.Hello());
  const v1::Batch batch = FirstCycle(&agent);
  of_old_agent.Add(batch), of_killed.Add(batch);
  EXPECT_EQ(of_old_agent.TakeClosed().size() + of_killed.TakeClosed().size(), 2U);
  of_old_agent.Add(agent.Goodbye());
  const auto old = of_old_agent.TakeLaterSteps();
  ASSERT_EQ(old.size(), 1U);
  EXPECT_NE(old[0].why_none.find("older version"), std::string::npos);
  EXPECT_TRUE(of_killed.TakeRemaining().empty());
  const auto killed = of_killed.TakeLaterSteps();
  ASSERT_EQ(killed.size(), 1U);
  EXPECT_NE(killed[0].why_none.find("without a goodbye"), std::string::npos);
}

TEST(LaterStepsOfBuilder, TheNextCyclesReportTellsThemUpToItsWarmup) {
  BatchFactory agent;
  CycleBuilder builder(agent.Hello());
  builder.Add(FirstCycle(&agent));
  EXPECT_EQ(builder.TakeClosed().size(), 1U);
  agent.WholeCycle(1, 12, 2, 300 * kMs, 100);  // its warmup is step 11
  v1::Batch batch = agent.Take(400 * kMs);
  std::vector<Row> rows = kBehind;
  rows.insert(rows.end(), {{11, 1'000'000, 1}, {12, 1'000'000, 2}, {13, 1'000'000, 2}});
  Fill(batch.mutable_cycle_reports(0)->mutable_all_steps(), rows);
  builder.Add(batch);
  EXPECT_EQ(builder.TakeClosed().size(), 1U);
  const auto later = builder.TakeLaterSteps();
  ASSERT_EQ(later.size(), 1U);
  EXPECT_EQ(later[0].cycle, 0U);
  EXPECT_EQ(later[0].until, 11U);
  EXPECT_EQ(later[0].all_steps.each.size(), 14U);
}

class LaterStepsOfPipeline : public ::testing::Test {
 protected:
  void Open() { ASSERT_EQ(agent_.Open(&runs_, out_.path(), factory_), ""); }
  [[nodiscard]] std::string Folder(int cycle = 0) const {
    return agent_.pipeline->session_dir() + "/cycle-000" + std::to_string(cycle);
  }
  void ExpectDigestsHold() const {
    const auto manifest = ReadJson(Folder() + "/manifest.json");
    for (const auto& file : manifest.at("files")) {
      const std::string text =
          ReadFile(agent_.pipeline->run().path + "/" + file.at("name").get<std::string>());
      EXPECT_EQ(file.at("bytes"), text.size()) << file;
      writers::Sha256 digest;
      digest.Update(text);
      EXPECT_EQ(file.at("sha256"), digest.HexDigest()) << file;
    }
  }

  TemporaryFolder out_;
  RunTable runs_;
  BatchFactory factory_;
  Agent agent_;
};

TEST_F(LaterStepsOfPipeline, GoIntoManifestAndSummary) {
  Open();
  agent_.Feed(BatchFrame(FirstCycle(&factory_)));
  const auto first = ReadJson(Folder() + "/summary.json").at("cost").at("after");
  EXPECT_EQ(first.at("steps"), 0);
  EXPECT_EQ(first.at("reason"), "not measured: this was written when the cycle ended");
  EXPECT_TRUE(agent_.pipeline->OnGoodbye(ToFrame(GoodbyeFrame(factory_, kBehind))));
  agent_.pipeline->Finish();
  const auto manifest = ReadJson(Folder() + "/manifest.json");
  const auto summary = ReadJson(Folder() + "/summary.json");
  const auto& after = manifest.at("cost").at("after");
  EXPECT_EQ(after.at("steps"), 3) << "the step in which the tail was collected is none of them";
  EXPECT_EQ(after.at("median_ns"), 920'000);
  EXPECT_EQ(after.at("min_ns"), 910'000);
  EXPECT_EQ(after.at("max_ns"), 990'000);
  EXPECT_TRUE(after.at("reason").is_null());
  EXPECT_EQ(manifest.at("cost"), summary.at("cost"));
  EXPECT_EQ(manifest.at("cost").at("ratio").at("reason"),
            "not measured: 2 and 6 values, 3 of each are needed");
  const auto& each = manifest.at("all_steps").at("each");
  ASSERT_EQ(each.size(), 11U);
  EXPECT_EQ(each[0].at("collecting"), "no");
  EXPECT_EQ(each[4].at("collecting"), "warmup");
  EXPECT_EQ(each[5].at("collecting"), "active");
  EXPECT_EQ(each[7].at("collecting"), "finishing");
  EXPECT_NE(ReadFile(Folder() + "/summary.txt").find("after 920 us (n=3, 910 us to 990 us)"),
            std::string::npos)
      << ReadFile(Folder() + "/summary.txt");
  ExpectDigestsHold();
  EXPECT_TRUE(agent_.problems.empty());
}

TEST_F(LaterStepsOfPipeline, GoIntoTheTableOfSteps) {
  factory_.activities.clear();
  Open();
  agent_.Feed(BatchFrame(FirstCycle(&factory_)));
  EXPECT_TRUE(agent_.pipeline->OnGoodbye(ToFrame(GoodbyeFrame(factory_, kBehind))));
  agent_.pipeline->Finish();
  const std::string text = ReadFile(Folder() + "/steps.csv");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
  EXPECT_NE(text.find(",8,,910000,no,\n"), std::string::npos) << text;
  const auto manifest = ReadJson(Folder() + "/manifest.json");
  for (const auto& file : manifest.at("files")) {
    if (file.at("format") == "csv") {
      EXPECT_EQ(file.at("events"), 11);
    }
  }
  ExpectDigestsHold();
}

// The collector dies when the cycle is written and the goodbye is not yet heard; the next one finds
// the goodbye in the raw file.
TEST_F(LaterStepsOfPipeline, AreAddedByWhoeverFinishesTheSession) {
  Open();
  agent_.Feed(BatchFrame(FirstCycle(&factory_)));
  const std::string manifest = ReadFile(Folder() + "/manifest.json");
  const std::string summary = ReadFile(Folder() + "/summary.json");
  const std::string state = ReadFile(agent_.pipeline->session_dir() + "/session.json");
  EXPECT_TRUE(agent_.pipeline->OnGoodbye(ToFrame(GoodbyeFrame(factory_, kBehind))));
  agent_.pipeline->Finish();
  const std::string folder = Folder(), session = agent_.pipeline->session_dir();
  const std::string amended = ReadFile(folder + "/manifest.json");
  ASSERT_NE(manifest, amended);
  ASSERT_EQ(spool::ReplaceFile(folder + "/manifest.json", manifest), "");
  ASSERT_EQ(spool::ReplaceFile(folder + "/summary.json", summary), "");
  ASSERT_EQ(spool::ReplaceFile(session + "/session.json", state), "");
  agent_.pipeline.reset();
  EXPECT_TRUE(spool::RecoverAll(session).problems.empty());
  EXPECT_EQ(ReadFile(folder + "/manifest.json"), amended);
}

TEST_F(LaterStepsOfPipeline, AKilledProcessHasNone) {
  Open();
  agent_.Feed(BatchFrame(FirstCycle(&factory_)));
  agent_.pipeline->Finish();
  const auto after = ReadJson(Folder() + "/summary.json").at("cost").at("after");
  EXPECT_EQ(after.at("steps"), 0);
  EXPECT_EQ(after.at("reason"),
            "not measured: the session ended without a goodbye, so that the times of later steps "
            "never came");
}

TEST(FileReplacement, APreparedFileTakesItsNameOnlyWhenItIsTold) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/a";
  ASSERT_EQ(spool::ReplaceFile(path, "old"), "");
  {
    spool::FileReplacement left(path);
    left.Append("new");
    EXPECT_EQ(left.Prepare(), "");
    EXPECT_EQ(ReadFile(path), "old");
  }
  EXPECT_EQ(FilesBelow(folder.path()), std::vector<std::string>{"a"}) << "nothing is left of it";
  spool::FileReplacement told(path);
  told.Append("new");
  EXPECT_EQ(told.Prepare(), "");
  EXPECT_EQ(told.Commit(), "");
  EXPECT_EQ(ReadFile(path), "new");
  EXPECT_EQ(FilesBelow(folder.path()), std::vector<std::string>{"a"});
  spool::FileReplacement no_place(folder.path() + "/" + std::string(300, 'x'));
  no_place.Append("new");
  EXPECT_NE(no_place.Prepare(), "");
  EXPECT_NE(no_place.Commit(), "");
}

TEST_F(LaterStepsOfPipeline, ADocumentThatSomebodyDamagedStaysAsItIs) {
  Open();
  agent_.Feed(BatchFrame(FirstCycle(&factory_)));
  ASSERT_EQ(spool::ReplaceFile(Folder() + "/summary.json", "{}"), "");
  EXPECT_TRUE(agent_.pipeline->OnGoodbye(ToFrame(GoodbyeFrame(factory_, kBehind))));
  agent_.pipeline->Finish();
  ASSERT_EQ(agent_.problems.size(), 1U);
  EXPECT_NE(agent_.problems[0].find("the times of later steps could not be added"),
            std::string::npos);
  EXPECT_EQ(ReadFile(Folder() + "/summary.json"), "{}");
}

}  // namespace
}  // namespace stepagent::ingest
