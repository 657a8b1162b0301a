// The program itself: its exit statuses, its socket, SIGTERM.
#include "tests/unit/collector_ingest/stepcollector_fixture.h"

namespace stepagent {
namespace {

namespace fs = std::filesystem;

TEST_F(Stepcollector, SaysItsVersionAndRefusesNonsense) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(Said().rfind("stepcollector ", 0), 0U);
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--idle-exit", "soon"}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--log", "loud"}), 2);
  EXPECT_EQ(Run({"--socket", std::string(300, 'x'), "--out", Out()}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", ""}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--memory", "much"}), 2);
  EXPECT_NE(Said().find("--idle-exit: 'soon'"), std::string::npos);
  EXPECT_NE(Said().find("--out: '': empty; allowed: a folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(Out()));
}

TEST_F(Stepcollector, LeavesByItselfAndWithoutATrace) {
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--idle-exit", "1ms", "--log", "warn"}), 0);
  EXPECT_FALSE(fs::exists(Out()));
  EXPECT_FALSE(fs::exists(Socket()));
  EXPECT_EQ(Said(), "");
}

TEST_F(Stepcollector, SecondOneFindsTheFirst) {
  const pid_t first = Start({"--socket", Socket(), "--out", Out()});
  close(Connect());
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out()}), 1);
  EXPECT_NE(Said().find("another collector"), std::string::npos);
  const std::string said = Said();
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--daemon-of", "run"}), 0);
  EXPECT_EQ(Said(), said);
  kill(first, SIGTERM);
  EXPECT_EQ(Wait(first), 0);
  EXPECT_FALSE(fs::exists(Socket()));
}

TEST_F(Stepcollector, SigtermFinishesOpenCycles) {
  const pid_t collector = Start({"--socket", Socket(), "--out", Out()});
  test::BatchFactory factory;
  factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100);
  factory.Step(0, 100, 0);
  const int fd = Connect();
  const std::string bytes = factory.HelloFrame() + factory.TakeFrame(200);
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  const std::string session =
      Out() + "/20260102T030405_0a1b2c3d/sessions/train_rank0_node1_4242_00112233";
  for (int i = 0; i < 1000; ++i) {
    if (test::ReadFile(session + "/session.json").find("recording") != std::string::npos) break;
    poll(nullptr, 0, 10);
  }
  kill(collector, SIGTERM);
  EXPECT_EQ(Wait(collector), 0);
  close(fd);
  EXPECT_TRUE(fs::exists(session + "/cycle-0000/manifest.json"));
}

TEST_F(Stepcollector, KilledOneIsReplacedAndItsSessionFinishedByTheNext) {
  const pid_t first = Start({"--socket", Socket(), "--out", Out()});
  test::BatchFactory factory;
  factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100);
  factory.Step(0, 100, 0);
  const int fd = Connect();
  const std::string bytes = factory.HelloFrame() + factory.TakeFrame(200);
  ASSERT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  const std::string session =
      Out() + "/20260102T030405_0a1b2c3d/sessions/train_rank0_node1_4242_00112233";
  for (int i = 0; i < 1000; ++i) {
    if (test::ReadFile(session + "/session.json").find("recording") != std::string::npos) break;
    poll(nullptr, 0, 10);
  }
  kill(first, SIGKILL);
  EXPECT_EQ(Wait(first), 128 + SIGKILL);
  close(fd);
  EXPECT_TRUE(fs::exists(Socket()));  // stale
  EXPECT_FALSE(fs::exists(session + "/cycle-0000"));
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--idle-exit", "1ms"}), 0);
  EXPECT_TRUE(fs::exists(session + "/cycle-0000/manifest.json"));
}

}  // namespace
}  // namespace stepagent
