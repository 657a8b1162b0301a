// How a session ends when nobody says goodbye, and what its launcher says then.
#include "proto/crc32c.h"
#include "tests/unit/collector_ingest/server_fixture.h"

namespace stepagent::ingest {
namespace {

constexpr const char* kRun = "20260102T030405_0a1b2c3d";

class ServerEndTest : public ServerTest {
 protected:
  // An agent in a process of its own that ends in mid-cycle without a goodbye. Forked before there
  // are threads; begins when the server is up.
  void StartWithDyingAgent(bool launcher_watches, uint32_t ppid) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const auto address = *proto::AddressFromText(folder_.path() + "/socket");
    child_ = fork();
    if (child_ == 0) {
      char go = 0;
      if (read(ready[0], &go, 1) != 1) _exit(1);
      BatchFactory factory;
      factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
      factory.Step(0, 100 * kMs, 101 * kMs);
      factory.Step(1, 101 * kMs, 0);
      v1::Hello hello = factory.Hello();
      hello.set_launcher_watches(launcher_watches);
      hello.set_ppid(ppid);
      Client agent(address);
      agent.Send(EncodeFrame(proto::FrameType::kHello, hello.SerializeAsString(), 0) +
                 factory.TakeFrame(102 * kMs));
      agent.Welcome();
      _exit(0);
    }
    Start();
    ASSERT_EQ(write(ready[1], "x", 1), 1);
    close(ready[0]), close(ready[1]);
  }
  void AwaitChild() {
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, 0), child_);
  }
  [[nodiscard]] std::string Session() const {
    return Out() + "/" + kRun + "/sessions/train_rank0_node1_4242_00112233";
  }
  [[nodiscard]] nlohmann::json CycleWhenWritten() const {
    const std::string path = Session() + "/cycle-0000/manifest.json";
    EXPECT_TRUE(Eventually([&] { return fs::exists(path); }));
    return fs::exists(path) ? Manifest(Session())["cycle"] : nlohmann::json();
  }
  static v1::TargetEnded Ended(uint32_t signal, uint32_t exit_status) {
    v1::TargetEnded ended;
    ended.set_run(kRun);
    ended.set_pid(4242);
    ended.set_signal(signal);
    ended.set_exit_status(exit_status);
    return ended;
  }
  // What a launcher does; the run's folder as the collector tells it.
  std::string Tell(const v1::TargetEnded& ended) {
    Client launcher(address_);
    launcher.Send(EncodeFrame(proto::FrameType::kTargetEnded, ended.SerializeAsString(), 0));
    const v1::Welcome welcome = launcher.Welcome();
    EXPECT_TRUE(welcome.accepted());
    EXPECT_TRUE(launcher.IsClosedByPeer());
    return welcome.run_dir();
  }

  pid_t child_ = -1;
};

TEST_F(ServerEndTest, ADeadProcessEndsItsSessionAsKilled) {
  StartWithDyingAgent(false, 0);
  AwaitChild();
  const nlohmann::json cycle = CycleWhenWritten();
  EXPECT_EQ(cycle["ended"], "killed");
  EXPECT_EQ(cycle["reason"], "the process ended without a goodbye");
  EXPECT_FALSE(cycle.contains("signal"));
  EXPECT_EQ(Manifest(Session())["steps"].size(), 2U);
}

TEST_F(ServerEndTest, OfAGrandchildItSaysWhoKnows) {
  StartWithDyingAgent(false, 4711);
  AwaitChild();
  EXPECT_EQ(CycleWhenWritten()["reason"],
            "the process ended without a goodbye; its exit status went to its parent, process 4711");
}

TEST_F(ServerEndTest, TheLaunchersWordIsAwaitedAndIsTheReason) {
  StartWithDyingAgent(true, 4711);
  AwaitChild();
  EXPECT_EQ(Tell(Ended(9, 0)), Out() + "/" + kRun);
  const nlohmann::json cycle = CycleWhenWritten();
  EXPECT_EQ(cycle["ended"], "killed");
  EXPECT_EQ(cycle["reason"], "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(cycle["signal"], 9);
  EXPECT_FALSE(cycle.contains("exit_status"));
  const auto summary = nlohmann::json::parse(test::ReadFile(Session() + "/cycle-0000/summary.json"));
  EXPECT_EQ(summary["cycle"], cycle);
  // Another run, and another process of this one, are not meant.
  v1::TargetEnded other = Ended(9, 0);
  other.set_run("nobody");
  EXPECT_EQ(Tell(other), "");
}

TEST_F(ServerEndTest, AnExitWithoutHandlersHasItsStatus) {
  StartWithDyingAgent(true, 4711);
  AwaitChild();
  Tell(Ended(0, 3));
  const nlohmann::json cycle = CycleWhenWritten();
  EXPECT_EQ(cycle["reason"],
            "the process exited with status 3 without its exit handlers (as _exit does), or "
            "the collector was gone");
  EXPECT_EQ(cycle["exit_status"], 3);
}

TEST_F(ServerEndTest, ALauncherThatSaysNothingIsNotAwaitedForEver) {
  StartWithDyingAgent(true, 4711);
  AwaitChild();
  EXPECT_EQ(CycleWhenWritten()["reason"],
            "the process ended without a goodbye; its launcher did not say how");
}

TEST_F(ServerEndTest, AWordThatCannotBeReadEndsItsConnectionOnly) {
  Start();
  Client hostile(address_);
  hostile.Send(EncodeFrame(proto::FrameType::kTargetEnded, "\xff\xff\xff", 0));
  EXPECT_TRUE(hostile.IsClosedByPeer());
  EXPECT_EQ(Tell(Ended(9, 0)), "");
}

}  // namespace
}  // namespace stepagent::ingest
