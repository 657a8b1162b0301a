// From frames to files.
#include "collector/ingest/pipeline.h"

#include <filesystem>
#include <regex>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/spool/recover.h"
#include "tests/unit/collector_ingest/pipeline_fixture.h"

namespace stepagent::ingest {
namespace {

TEST(Names, AreSafeAndRecognised) {
  EXPECT_EQ(spool::SafeName("../e vil\n/x"), "_._e_vil__x");
  EXPECT_EQ(spool::SafeName(""), "unknown");
  EXPECT_TRUE(spool::IsRunName("20260102T030405_0a1b2c3d"));
  EXPECT_FALSE(spool::IsRunName("20260102T030405_0a1b2c3g"));
  EXPECT_EQ(spool::RunName("", "torchrun/77", kNow).substr(0, 16), "20260102T030405_");
  EXPECT_EQ(spool::RunName("../x", "", kNow), "_._x");
  EXPECT_EQ(spool::RunName("latest", "latest", kNow).substr(0, 16), "20260102T030405_");
  EXPECT_EQ(RankInName("a_rank7_b_rank3_node_12_0011aabb"), 3);
  EXPECT_EQ(RankInName("nothing"), -1);
}

TEST(Pipeline, OneAgentOneCycle) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory), "");
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  agent.Feed(factory.TakeFrame(200 * kMs));
  EXPECT_TRUE(agent.pipeline->OnGoodbye(ToFrame(factory.GoodbyeFrame())));
  agent.pipeline->Finish();

  const std::string run = out.path() + "/20260102T030405_0a1b2c3d";
  const std::string session = run + "/sessions/train_rank0_node1_4242_00112233";
  EXPECT_EQ(fs::read_symlink(out.path() + "/latest"), "20260102T030405_0a1b2c3d");
  EXPECT_EQ(FilesBelow(run + "/traces"),
            std::vector<std::string>{"cycle-0000/train_node1_rank0.0000.pt.trace.json.gz"});
  ASSERT_EQ(agent.written.size(), 1U);
  EXPECT_TRUE(agent.written[0].complete());
  EXPECT_EQ(agent.written[0].error(), "");
  const auto state = ReadJson(session + "/session.json");
  EXPECT_EQ(state["state"], "closed");
  EXPECT_EQ(state["session"]["pid"], 4242);
  EXPECT_EQ(state["cycles"][0]["state"], "written");
  EXPECT_EQ(state["cycles"][0]["files"][0],
            "traces/cycle-0000/train_node1_rank0.0000.pt.trace.json.gz");
  const auto manifest = ReadJson(session + "/cycle-0000/manifest.json");
  EXPECT_EQ(manifest["cycle"]["ended"], "schedule");
  EXPECT_EQ(manifest["steps"].size(), 2U);
  EXPECT_TRUE(fs::exists(session + "/cycle-0000/summary.json"));
  EXPECT_TRUE(fs::exists(session + "/cycle-0000/summary.txt"));
  EXPECT_TRUE(agent.problems.empty());
}

TEST(Pipeline, NoActiveStepNoCycleFolder) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory), "");
  factory.Event(0, v1::CycleEvent::WARMUP_BEGIN, 100);
  agent.Feed(factory.TakeFrame(200));
  agent.pipeline->Finish();
  EXPECT_FALSE(fs::exists(agent.pipeline->session_dir() + "/cycle-0000"));
  EXPECT_FALSE(fs::exists(agent.pipeline->run().path + "/traces"));
}

TEST(Pipeline, StepsOnlyWritesAStepsTable) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  factory.activities.clear();
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory), "");
  factory.WholeCycle(0, 1, 1, 100 * kMs, 1, 0);
  agent.Feed(factory.TakeFrame(200 * kMs));
  agent.pipeline->Finish();
  EXPECT_TRUE(fs::exists(agent.pipeline->session_dir() + "/cycle-0000/steps.csv"));
  EXPECT_TRUE(fs::exists(agent.pipeline->session_dir() + "/cycle-0000/manifest.json"));
}

// `stepagent start` with other options: the agent says Hello again.
TEST(Pipeline, ASecondHelloChangesSettingsNotIdentity) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  factory.rank = -1;
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory), "");
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  agent.Feed(factory.TakeFrame(200 * kMs));
  factory.active = 1;
  factory.step_source = "nvtx:other";
  agent.pipeline->OnHello(ToFrame(factory.HelloFrame()));
  factory.WholeCycle(1, 20, 1, 1000 * kMs, 100);
  agent.Feed(factory.TakeFrame(1100 * kMs));
  agent.pipeline->Finish();
  const std::string session = agent.pipeline->session_dir();
  EXPECT_EQ(ReadJson(session + "/cycle-0000/manifest.json")["schedule"]["active"], 2);
  EXPECT_EQ(ReadJson(session + "/cycle-0001/manifest.json")["schedule"]["active"], 1);
  EXPECT_EQ(ReadJson(session + "/cycle-0001/manifest.json")["session"]["rank"], 0);
  // The raw file says the same.
  std::vector<model::Cycle> cycles;
  spool::RawReport report;
  ASSERT_EQ(
      spool::ReadCycles(
          session + "/raw.steps", [&](model::Cycle c) { cycles.push_back(std::move(c)); }, &report),
      "");
  ASSERT_EQ(cycles.size(), 2U);
  EXPECT_EQ(cycles[0].session.schedule->active, 2U);
  EXPECT_EQ(cycles[1].session.schedule->active, 1U);
  EXPECT_EQ(cycles[1].session.step_source, "nvtx:other");
}

TEST(Pipeline, TwoProcessesWithOneRankKeepBothFiles) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory first("00112233aabbccdd", 11), second("99112233aabbccdd", 12);
  Agent a, b;
  ASSERT_EQ(a.Open(&runs, out.path(), first), "");
  ASSERT_EQ(b.Open(&runs, out.path(), second), "");
  for (auto [agent, factory] : {std::pair(&a, &first), std::pair(&b, &second)}) {
    factory->WholeCycle(0, 1, 1, 100 * kMs, 1);
    agent->Feed(factory->TakeFrame(200 * kMs));
    agent->pipeline->Finish();
  }
  EXPECT_EQ(FilesBelow(a.pipeline->run().path + "/traces/cycle-0000"),
            (std::vector<std::string>{"train_node1_rank0.0000.pt.trace.json.gz",
                                      "train_node1_rank0_12.0000.pt.trace.json.gz"}));
  const auto manifest = ReadJson(b.pipeline->session_dir() + "/cycle-0000/manifest.json");
  EXPECT_NE(manifest["notes"].dump().find("duplicate_rank"), std::string::npos);
}

TEST(Pipeline, RanksNobodySetAreNumberedByDeviceThenPid) {
  TemporaryFolder out;
  RunTable runs;
  struct Who {
    const char* session;
    uint32_t pid, device;
    int32_t want;
  };
  const std::vector<Who> all{{"aa00000000000000", 50, 1, 2},
                             {"bb00000000000000", 40, 0, 1},
                             {"cc00000000000000", 30, 0, 0}};
  std::vector<BatchFactory> factories;
  std::vector<Agent> agents(all.size());
  for (const Who& who : all) {
    factories.emplace_back(who.session, who.pid);
    factories.back().rank = -1;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(agents[i].Open(&runs, out.path(), factories[i]), "");
    factories[i].Device(all[i].device, 1);
    agents[i].Feed(factories[i].TakeFrame(1));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    factories[i].WholeCycle(0, 1, 1, 100 * kMs, 1);
    agents[i].Feed(factories[i].TakeFrame(200 * kMs));
    agents[i].pipeline->Finish();
    const std::string dir = agents[i].pipeline->session_dir();
    const auto manifest = ReadJson(dir + "/cycle-0000/manifest.json");
    EXPECT_EQ(manifest["session"]["rank"], all[i].want);
    EXPECT_EQ(manifest["session"]["rank_source"], "assigned");
    EXPECT_EQ(RankInName(dir), all[i].want);
    const std::string stale = std::regex_replace(dir, std::regex("_rank[0-9]+_"), "_rank9_");
    EXPECT_EQ(spool::CurrentSessionDir(stale), dir);
  }
  EXPECT_EQ(FilesBelow(agents[0].pipeline->run().path + "/traces/cycle-0000").size(), 3U);
}

TEST(Pipeline, ForeignAndGarbledBatchesAreRefusedAlone) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory, other("ffffffffffffffff");
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory), "");
  EXPECT_FALSE(agent.pipeline->OnBatch(ToFrame(other.TakeFrame(1)), kNow));
  EXPECT_FALSE(agent.pipeline->OnBatch(
      ToFrame(test::MakeFrame(proto::FrameType::kBatch, "\xff\xff garbage")), kNow));
  factory.WholeCycle(0, 1, 1, 100 * kMs, 1);
  agent.Feed(factory.TakeFrame(200 * kMs));
  agent.pipeline->Finish();
  EXPECT_EQ(agent.written.size(), 1U);
  EXPECT_EQ(ReadJson(agent.pipeline->session_dir() + "/session.json")["raw"]["refused_frames"], 2);
}

TEST(Pipeline, LowDiskAndMaxBytesStopRecordingOnce) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out.path(), factory,
                       [](const std::string&) {
                         return DiskSpace{9, 100};
                       }),
            "");
  agent.Feed(factory.TakeFrame(1));
  agent.Feed(factory.TakeFrame(2));
  ASSERT_EQ(agent.throttles.size(), 1U);
  EXPECT_NE(agent.throttles[0].find("10 %"), std::string::npos);

  BatchFactory capped("aaaaaaaaaaaaaaaa");
  capped.max_bytes = 10;
  Agent second;
  ASSERT_EQ(second.Open(&runs, out.path(), capped), "");
  second.Feed(capped.TakeFrame(1));
  ASSERT_EQ(second.throttles.size(), 1U);
  EXPECT_NE(second.throttles[0].find("max-bytes"), std::string::npos);
}

TEST(Pipeline, UnwritableOutNamesPathAndErrno) {
  RunTable runs;
  BatchFactory factory;
  Agent agent;
  const std::string error = agent.Open(&runs, "/dev/null/x", factory);
  EXPECT_NE(error.find("/dev/null"), std::string::npos);
  EXPECT_NE(error.find("Not a directory"), std::string::npos);
}

TEST(Pipeline, SaysWhereTheRankIsFrom) {
  TemporaryFolder out;
  RunTable runs;
  BatchFactory factory;
  v1::Hello hello = factory.Hello();
  hello.add_rank_conflicts("SLURM_PROCID=0");
  Agent agent;
  bool is_held = false;
  const std::string frame = test::MakeFrame(proto::FrameType::kHello, hello.SerializeAsString());
  ASSERT_EQ(SessionPipeline::Open(&runs, out.path(), hello, ToFrame(frame), kNow, {}, &is_held,
                                  &agent.pipeline),
            "");
  factory.WholeCycle(0, 1, 1, 100 * kMs, 1);
  agent.Feed(factory.TakeFrame(200 * kMs));
  agent.pipeline->Finish();
  const std::string dir = agent.pipeline->session_dir();
  EXPECT_EQ(ReadJson(dir + "/session.json")["rank_conflicts"][0], "SLURM_PROCID=0");
  std::string text;
  const auto manifest = ReadJson(dir + "/cycle-0000/manifest.json");
  for (const auto& note : manifest["notes"])
    if (note["code"] == "rank_conflict") text = note["text"];
  EXPECT_NE(text.find("is from RANK, the first of RANK,"), std::string::npos) << text;
  EXPECT_NE(text.find("not taken: SLURM_PROCID=0"), std::string::npos) << text;
}

TEST(Pipeline, LinksInThePathAreNotFollowed) {
  TemporaryFolder out, elsewhere;
  ASSERT_EQ(symlink(elsewhere.path().c_str(), (out.path() + "/20260102T030405_0a1b2c3d").c_str()),
            0);
  RunTable runs;
  BatchFactory factory;
  Agent agent;
  EXPECT_NE(agent.Open(&runs, out.path(), factory), "");
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

}  // namespace
}  // namespace stepagent::ingest
