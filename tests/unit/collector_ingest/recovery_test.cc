// Back from a raw file after every kind of interruption.
#include "collector/spool/recover.h"

#include "collector/spool/first_hello.h"
#include "collector/spool/names.h"
#include "tests/unit/collector_ingest/pipeline_fixture.h"

namespace stepagent::ingest {
namespace {

// A collector that dies after any byte of the raw file: the next one finishes what was whole.
TEST(Recovery, AtEveryByteOfARawFile) {
  TemporaryFolder out;
  BatchFactory factory;
  factory.active = 1;
  std::string raw = factory.HelloFrame();
  std::vector<size_t> whole{raw.size()};
  factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
  factory.Step(0, 100 * kMs, 0);
  raw += factory.TakeFrame(100 * kMs + 1);
  whole.push_back(raw.size());
  factory.Launch(1, 100 * kMs + 10);
  factory.Kernel({.begin = 100 * kMs + 20, .correlation = 1});
  factory.Step(0, 100 * kMs, 101 * kMs);
  factory.Event(0, v1::CycleEvent::ACTIVE_END, 101 * kMs, "schedule");
  factory.Event(0, v1::CycleEvent::CLOSED, 101 * kMs);
  factory.Report(0);
  raw += factory.TakeFrame(102 * kMs);
  whole.push_back(raw.size());
  raw += factory.GoodbyeFrame();
  whole.push_back(raw.size());

  const std::string path = out.path() + "/raw.steps";
  for (size_t cut = 0; cut <= raw.size(); ++cut) {
    test::WriteFile(path, raw.substr(0, cut));
    std::vector<model::Cycle> cycles;
    spool::RawReport report;
    const std::string error = spool::ReadCycles(
        path, [&](model::Cycle c) { cycles.push_back(std::move(c)); }, &report);
    size_t frames = 0, end = 0;
    while (frames < whole.size() && whole[frames] <= cut) end = whole[frames++];
    EXPECT_EQ(error.empty(), frames > 0) << cut;
    if (!error.empty()) continue;
    EXPECT_EQ(report.frames, frames) << cut;
    EXPECT_EQ(report.cut_bytes, cut - end) << cut;
    ASSERT_EQ(cycles.size(), frames > 1 ? 1U : 0U) << cut;
    if (frames > 1) {
      EXPECT_EQ(cycles[0].complete, frames > 2) << cut;
    }
    if (frames == 2) {
      EXPECT_EQ(cycles[0].ended, "killed") << cut;
    }
  }
}

class Interrupted : public testing::Test {
 protected:
  // A session whose collector vanished after `batches` of its two batches, all locks released.
  std::string LeaveBehind(bool has_second_batch) {
    RunTable runs;
    Agent agent;
    EXPECT_EQ(agent.Open(&runs, out_.path(), factory_), "");
    factory_.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
    factory_.Step(0, 100 * kMs, 101 * kMs);
    factory_.Step(1, 101 * kMs, 0);
    agent.Feed(factory_.TakeFrame(101 * kMs));
    if (has_second_batch) Rest(&agent);
    return agent.pipeline->session_dir();
  }
  void Rest(Agent* agent) {
    factory_.Step(1, 101 * kMs, 102 * kMs);
    factory_.Event(0, v1::CycleEvent::ACTIVE_END, 102 * kMs, "schedule");
    factory_.Event(0, v1::CycleEvent::CLOSED, 102 * kMs);
    factory_.Report(0, "unavailable");
    agent->Feed(factory_.TakeFrame(103 * kMs));
  }
  TemporaryFolder out_;
  BatchFactory factory_;
};

TEST_F(Interrupted, RecoverWritesTheCycleAndClosesTheSession) {
  const std::string session = LeaveBehind(false);
  test::WriteFile(session + "/raw.steps", ReadFile(session + "/raw.steps") + "torn frame");
  EXPECT_EQ(ReadJson(session + "/session.json")["state"], "open");
  const spool::RecoverReport report = spool::RecoverAll(out_.path());
  EXPECT_EQ(report.sessions, 1U);
  EXPECT_EQ(report.cycles_written, 1U);
  EXPECT_EQ(report.cut_bytes, 10U);
  EXPECT_TRUE(report.problems.empty());
  const auto manifest = ReadJson(session + "/cycle-0000/manifest.json");
  EXPECT_EQ(manifest["cycle"]["ended"], "killed");
  EXPECT_EQ(manifest["cycle"]["complete"], false);
  EXPECT_EQ(ReadJson(session + "/session.json")["state"], "closed");
  // Once is enough.
  EXPECT_EQ(spool::RecoverAll(session).cycles_written, 0U);
}

// A launcher that outlives agent and collector finishes the session with what it saw.
TEST_F(Interrupted, HowTheProcessEndedIsWrittenAndKeptInTheRawFile) {
  const std::string session = LeaveBehind(false);
  v1::TargetEnded ended;
  ended.set_signal(9);
  spool::RecoverReport report;
  ended.set_pid(4242);
  spool::RecoverSession(session, spool::Living::kFinishToo, &report, {}, &ended);
  EXPECT_EQ(report.cycles_written, 1U);
  const auto manifest = ReadJson(session + "/cycle-0000/manifest.json");
  EXPECT_EQ(manifest["cycle"]["reason"], "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(manifest["cycle"]["signal"], 9);
  std::vector<std::string> reasons;
  spool::RawReport raw;
  EXPECT_EQ(spool::ReadCycles(
                session + "/raw.steps",
                [&](const model::Cycle& cycle) { reasons.push_back(cycle.reason); }, &raw),
            "");
  EXPECT_EQ(reasons, (std::vector<std::string>{"killed by signal 9 (SIGKILL)"}));
}

TEST_F(Interrupted, AnotherProcessesEndIsNotThisOnes) {
  const std::string session = LeaveBehind(false);
  v1::TargetEnded ended;
  ended.set_signal(9);
  ended.set_pid(1);
  spool::RecoverReport report;
  spool::RecoverSession(session, spool::Living::kFinishToo, &report, {}, &ended);
  const auto manifest = ReadJson(session + "/cycle-0000/manifest.json");
  EXPECT_EQ(manifest["cycle"]["reason"], "the session ended without a goodbye");
}

TEST_F(Interrupted, HalfWrittenCycleIsWrittenAnew) {
  const std::string session = LeaveBehind(true);
  const std::string trace =
      session + "/../../traces/cycle-0000/train_node1_rank0.0000.hostonly.pt.trace.json.gz";
  ASSERT_TRUE(fs::exists(trace));
  fs::remove(session + "/cycle-0000/manifest.json");
  test::WriteFile(session + "/../../traces/cycle-0000/.train_node1_rank0.0000.x.tmp", "half");
  EXPECT_EQ(spool::RecoverAll(out_.path()).cycles_written, 1U);
  EXPECT_TRUE(fs::exists(session + "/cycle-0000/manifest.json"));
  EXPECT_EQ(FilesBelow(session + "/../../traces").size(), 1U);
}

TEST_F(Interrupted, LiveSessionIsLeftAlone) {
  RunTable runs;
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out_.path(), factory_), "");
  factory_.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
  agent.Feed(factory_.TakeFrame(101 * kMs));
  const spool::RecoverReport report = spool::RecoverAll(out_.path());
  EXPECT_EQ(report.live, 1U);
  EXPECT_EQ(report.cycles_written, 0U);
  EXPECT_FALSE(fs::exists(agent.pipeline->session_dir() + "/cycle-0000"));
}

TEST_F(Interrupted, AgentThatComesBackGoesOnWithItsFolder) {
  const std::string session = LeaveBehind(false);
  RunTable runs;  // of the next collector
  Agent agent;
  ASSERT_EQ(agent.Open(&runs, out_.path(), factory_), "");
  EXPECT_EQ(agent.pipeline->session_dir(), session);
  Rest(&agent);
  agent.pipeline->Finish();
  ASSERT_EQ(agent.written.size(), 1U);
  EXPECT_TRUE(agent.written[0].complete());
  const auto manifest = ReadJson(session + "/cycle-0000/manifest.json");
  EXPECT_EQ(manifest["steps"].size(), 2U);
  EXPECT_TRUE(manifest["cycle"]["complete"]);
}

TEST(Recovery, RawFileOfAnotherKindIsNamed) {
  TemporaryFolder out;
  test::WriteFile(out.path() + "/raw.steps", "no frames here, only a long enough text");
  const spool::RecoverReport report = spool::RecoverAll(out.path());
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_NE(report.problems[0].find("raw.steps"), std::string::npos);
}

}  // namespace
}  // namespace stepagent::ingest
