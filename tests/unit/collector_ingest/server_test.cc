// Many agents on one socket: handshake, reconnects, hostile bytes, endings.
#include "proto/limits.h"
#include "tests/unit/collector_ingest/server_fixture.h"

namespace stepagent::ingest {
namespace {

TEST_F(ServerTest, StraightPath) {
  Start();
  EXPECT_FALSE(fs::exists(Out()));  // nothing on disk before a Hello
  BatchFactory factory;
  Client agent(address_);
  ASSERT_TRUE(agent.Send(factory.HelloFrame()));
  const v1::Welcome welcome = agent.Welcome();
  ASSERT_TRUE(welcome.accepted()) << welcome.reason();
  EXPECT_EQ(welcome.protocol(), proto::kProtocol);
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  ASSERT_TRUE(agent.Send(factory.TakeFrame(200 * kMs)));
  const v1::Written written = agent.Written();
  EXPECT_TRUE(written.complete());
  for (const std::string& file : written.files()) EXPECT_TRUE(fs::exists(file)) << file;
  ASSERT_TRUE(agent.Send(factory.GoodbyeFrame()));
  EXPECT_TRUE(agent.IsClosedByPeer());
  StopAndJoin();
  EXPECT_EQ(status_, 0);
}

TEST_F(ServerTest, GoodbyeInMidCycleStillGetsItsWritten) {
  Start();
  BatchFactory factory;
  Client agent(address_);
  factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
  factory.Step(0, 100 * kMs, 0);
  ASSERT_TRUE(agent.Send(factory.HelloFrame() + factory.TakeFrame(101 * kMs) +
                         factory.GoodbyeFrame("exit")));
  const std::string session = agent.Welcome().session_dir();
  EXPECT_FALSE(agent.Written().complete());
  EXPECT_TRUE(agent.IsClosedByPeer());
  EXPECT_EQ(Manifest(session)["cycle"]["ended"], "exit");
}

TEST_F(ServerTest, ReconnectGoesOnAndARepeatedBatchCountsOnce) {
  Start();
  BatchFactory factory;
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  const std::string whole = factory.TakeFrame(200 * kMs);
  std::string session;
  {
    Client agent(address_);
    ASSERT_TRUE(agent.Send(factory.HelloFrame()));
    session = agent.Welcome().session_dir();
    ASSERT_TRUE(agent.Send(whole.substr(0, whole.size() / 2)));
  }
  Client again(address_);
  ASSERT_TRUE(again.Send(factory.HelloFrame() + whole + whole));
  EXPECT_EQ(again.Welcome().session_dir(), session);
  EXPECT_TRUE(again.Written().complete());
  EXPECT_EQ(Manifest(session)["balance"]["kernel"]["written"], 6);
}

// The agent closes its connection while it waits for its next window.
TEST_F(ServerTest, AnAgentMayLeaveBetweenCycles) {
  Start();
  BatchFactory factory;
  std::string session;
  for (uint32_t cycle = 0; cycle < 3; ++cycle) {
    Client agent(address_);
    factory.WholeCycle(cycle, 4 + 10 * cycle, 2, (1 + cycle) * 1000 * kMs, 1 + 100 * cycle);
    ASSERT_TRUE(agent.Send(factory.HelloFrame() + factory.TakeFrame((2 + cycle) * 1000 * kMs)));
    session = agent.Welcome().session_dir();
    EXPECT_EQ(agent.Written().cycle(), cycle);
  }
  StopAndJoin();
  EXPECT_TRUE(fs::exists(session + "/cycle-0002/manifest.json"));
  EXPECT_EQ(nlohmann::json::parse(test::ReadFile(session + "/session.json"))["state"], "closed");
}

// Ends within a cycle, by itself; what it does last with its connection is up to `leave`.
class DyingAgent {
 public:
  // Forks before there are threads; begins when told.
  DyingAgent(const proto::SocketAddress& address, const std::function<void(Client*)>& leave) {
    if (pipe(ready_) != 0) return;
    child_ = fork();
    if (child_ != 0) return;
    char go = 0;
    if (read(ready_[0], &go, 1) != 1) _exit(1);
    BatchFactory factory;
    factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
    factory.Step(0, 100 * kMs, 101 * kMs);
    factory.Step(1, 101 * kMs, 0);
    Client agent(address);
    agent.Send(factory.HelloFrame() + factory.TakeFrame(102 * kMs));
    leave(&agent);
    _exit(0);
  }
  // Whether it ran and ended.
  bool Run() {
    int status = 0;
    const bool is_told = write(ready_[1], "x", 1) == 1;
    close(ready_[0]), close(ready_[1]);
    return is_told && waitpid(child_, &status, 0) == child_ && status == 0;
  }

 private:
  int ready_[2] = {-1, -1};
  pid_t child_ = -1;
};

constexpr char kItsSession[] = "/20260102T030405_0a1b2c3d/sessions/train_rank0_node1_4242_00112233";

TEST_F(ServerTest, ADeadProcessEndsItsSessionAsKilled) {
  DyingAgent agent(*proto::AddressFromText(folder_.path() + "/socket"),
                   [](Client* client) { client->Welcome(); });
  Start();
  ASSERT_TRUE(agent.Run());
  const std::string session = Out() + kItsSession;
  ASSERT_TRUE(Eventually([&] { return fs::exists(session + "/cycle-0000/manifest.json"); }));
  EXPECT_EQ(Manifest(session)["cycle"]["ended"], "killed");
  EXPECT_EQ(Manifest(session)["steps"].size(), 2U);
}

// Answers left unread make the kernel reset the connection, after which no event comes.
TEST_F(ServerTest, ADeadProcessWithAnswersUnreadEndsItsSessionToo) {
  DyingAgent agent(*proto::AddressFromText(folder_.path() + "/socket"),
                   [](Client* client) { client->AwaitAnswer(); });
  Start();
  ASSERT_TRUE(agent.Run());
  const std::string session = Out() + kItsSession;
  ASSERT_TRUE(Eventually([&] { return fs::exists(session + "/cycle-0000/manifest.json"); }));
  EXPECT_EQ(Manifest(session)["steps"].size(), 2U);
}

TEST_F(ServerTest, SixtyFourAgentsAtOnce) {
  Start();
  constexpr int kAgents = 64;
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAgents; ++i) {
    threads.emplace_back([&, i] {
      char id[17];
      std::snprintf(id, sizeof id, "%08x00000000", 0x1000 + i);
      BatchFactory factory(id, 5000 + static_cast<uint32_t>(i));
      factory.rank = i;
      Client agent(address_);
      factory.WholeCycle(0, 4, 2, 100 * kMs, 1, 20);
      agent.Send(factory.HelloFrame() + factory.TakeFrame(200 * kMs));
      const bool is_good = agent.Welcome().accepted() && agent.Written().complete();
      agent.Send(factory.GoodbyeFrame());
      if (is_good && agent.IsClosedByPeer()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kAgents);
  size_t traces = 0;
  const std::string folder = Out() + "/20260102T030405_0a1b2c3d/traces/cycle-0000";
  for (const auto& entry : fs::directory_iterator(folder)) traces += entry.is_regular_file();
  EXPECT_EQ(traces, static_cast<size_t>(kAgents));
}

TEST_F(ServerTest, HostileBytesEndOneConnectionOnly) {
  Start();
  BatchFactory factory;
  Client good(address_);
  ASSERT_TRUE(good.Send(factory.HelloFrame()));
  ASSERT_TRUE(good.Welcome().accepted());

  std::string oversized = test::MakeFrame(proto::FrameType::kHello, "");
  const auto too_much = static_cast<uint32_t>(proto::kMaxFrameBytes + 1);
  std::memcpy(oversized.data() + 8, &too_much, 4);
  const std::vector<std::string> attacks{
      "GET / HTTP/1.1\r\nHost: here, and enough of it\r\n\r\n",
      oversized,
      factory.TakeFrame(1),                                       // before Hello
      test::MakeFrame(proto::FrameType::kHello, "\xff\xff\xff"),  // no message
      test::MakeFrame(proto::FrameType::kHello, ""),              // no session
      BatchFactory("../../../../tmp/x").HelloFrame(),
  };
  for (const std::string& attack : attacks) {
    Client bad(address_);
    ASSERT_TRUE(bad.Send(attack));
    spool::RawFrame frame;
    v1::Welcome refusal;
    while (bad.Receive(&frame)) {
      ASSERT_TRUE(refusal.ParseFromString(frame.payload));
      EXPECT_FALSE(refusal.accepted());
    }
  }
  for (int i = 0; i < 200; ++i) Client gone(address_);
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  std::string damaged = factory.TakeFrame(200 * kMs);
  const std::string whole = damaged;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  ASSERT_TRUE(
      good.Send(damaged + test::MakeFrame(static_cast<proto::FrameType>(77), "later") + whole));
  EXPECT_TRUE(good.Written().complete());
}

TEST_F(ServerTest, ProtocolsThatDoNotMeetAreRefusedWithAReason) {
  Start();
  BatchFactory factory;
  v1::Hello hello = factory.Hello();
  hello.set_protocol_min(proto::kProtocol + 1);
  hello.set_protocol(proto::kProtocol + 3);
  Client agent(address_);
  ASSERT_TRUE(agent.Send(test::MakeFrame(proto::FrameType::kHello, hello.SerializeAsString())));
  const v1::Welcome welcome = agent.Welcome();
  EXPECT_FALSE(welcome.accepted());
  EXPECT_NE(welcome.reason().find("protocol"), std::string::npos);
  EXPECT_FALSE(fs::exists(Out()));
}

TEST_F(ServerTest, NewerAgentIsSpokenToInOurProtocol) {
  Start();
  BatchFactory factory;
  v1::Hello hello = factory.Hello();
  hello.set_protocol(proto::kProtocol + 3);
  Client agent(address_);
  ASSERT_TRUE(agent.Send(test::MakeFrame(proto::FrameType::kHello, hello.SerializeAsString())));
  const v1::Welcome welcome = agent.Welcome();
  EXPECT_TRUE(welcome.accepted());
  EXPECT_EQ(welcome.protocol(), proto::kProtocol);
}

TEST_F(ServerTest, SilentConnectionsAreDropped) {
  config_.hello_timeout_ns = 50 * kMs;
  config_.frame_timeout_ns = 50 * kMs;
  config_.idle_exit_ns = 3'600'000 * kMs;  // quick ticks
  Start();
  Client mute(address_);
  EXPECT_TRUE(mute.IsClosedByPeer());
  BatchFactory factory;
  Client half(address_);
  const std::string frame = factory.TakeFrame(1);
  ASSERT_TRUE(half.Send(factory.HelloFrame()));
  EXPECT_TRUE(half.Welcome().accepted());
  ASSERT_TRUE(half.Send(frame.substr(0, frame.size() - 1)));
  EXPECT_TRUE(half.IsClosedByPeer());
}

TEST_F(ServerTest, TooManyConnectionsAreRefusedAndOthersFinish) {
  config_.max_connections = 2;
  Start();
  BatchFactory first, second("aaaaaaaaaaaaaaaa");
  Client a(address_), b(address_);
  ASSERT_TRUE(a.Send(first.HelloFrame()));
  ASSERT_TRUE(a.Welcome().accepted());
  ASSERT_TRUE(b.Send(second.HelloFrame()));
  ASSERT_TRUE(b.Welcome().accepted());
  Client c(address_);
  const v1::Welcome refused = c.Welcome();
  EXPECT_FALSE(refused.accepted());
  EXPECT_NE(refused.reason().find("descriptors"), std::string::npos);
  first.WholeCycle(0, 4, 2, 100 * kMs, 1);
  ASSERT_TRUE(a.Send(first.TakeFrame(200 * kMs)));
  EXPECT_TRUE(a.Written().complete());
}

TEST_F(ServerTest, ASlowWriterDoesNotHoldUpOthers) {
  std::atomic<bool> may_go_on{false};
  config_.write_cycle = [&](const model::Cycle& cycle, const CyclePlace&) {
    while (cycle.session.pid == 1 && !may_go_on) std::this_thread::yield();
    return CycleOutput{};
  };
  Start();
  BatchFactory slow("aaaaaaaaaaaaaaaa", 1), quick("bbbbbbbbbbbbbbbb", 2);
  slow.rank = 1;
  Client a(address_), b(address_);
  slow.WholeCycle(0, 4, 2, 100 * kMs, 1);
  quick.WholeCycle(0, 4, 2, 100 * kMs, 1);
  ASSERT_TRUE(a.Send(slow.HelloFrame() + slow.TakeFrame(200 * kMs)));
  ASSERT_TRUE(a.Welcome().accepted());
  ASSERT_TRUE(b.Send(quick.HelloFrame() + quick.TakeFrame(200 * kMs)));
  ASSERT_TRUE(b.Welcome().accepted());
  EXPECT_TRUE(b.Written().complete());
  may_go_on = true;
  EXPECT_TRUE(a.Written().complete());
}

TEST_F(ServerTest, AFailedWriteIsToldAndMakesTheExitStatus) {
  config_.write_cycle = [](const model::Cycle&, const CyclePlace&) {
    return CycleOutput{.error = "/there/file: cannot write: No space left on device"};
  };
  Start();
  BatchFactory factory;
  Client agent(address_);
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  ASSERT_TRUE(agent.Send(factory.HelloFrame() + factory.TakeFrame(200 * kMs)));
  ASSERT_TRUE(agent.Welcome().accepted());
  EXPECT_NE(agent.Written().error().find("No space"), std::string::npos);
  ASSERT_TRUE(agent.Send(factory.GoodbyeFrame()));
  EXPECT_TRUE(agent.IsClosedByPeer());
  StopAndJoin();
  EXPECT_EQ(status_, 1);
}

TEST_F(ServerTest, LeavesByItselfWhenIdle) {
  config_.idle_exit_ns = 1;
  Start();
  thread_.join();
  EXPECT_EQ(status_, 0);
}

// This process lives, so the collector waits for it although nobody is connected.
TEST_F(ServerTest, AnAgentThatIsAwayHoldsTheCollector) {
  BatchFactory factory;
  factory.WholeCycle(0, 4, 2, 100 * kMs, 1);
  std::unique_ptr<Client> agent;
  config_.idle_exit_ns = 2'000 * kMs;
  Start();
  agent = std::make_unique<Client>(address_);
  ASSERT_TRUE(agent->Send(factory.HelloFrame() + factory.TakeFrame(200 * kMs)));
  ASSERT_TRUE(agent->Welcome().accepted());
  EXPECT_TRUE(agent->Written().complete());
  agent.reset();
  poll(nullptr, 0, 3'500);  // longer than idle-exit and a look at the process
  EXPECT_EQ(status_, -1);
  Client again(address_);
  ASSERT_TRUE(again.is_connected());
  ASSERT_TRUE(again.Send(factory.HelloFrame() + factory.GoodbyeFrame()));
  EXPECT_TRUE(again.Welcome().accepted());
  EXPECT_TRUE(again.IsClosedByPeer());
  again.Close();
  thread_.join();
  EXPECT_EQ(status_, 0);
}

TEST_F(ServerTest, StopFinishesOpenCycles) {
  Start();
  BatchFactory factory;
  factory.Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
  factory.Step(0, 100 * kMs, 0);
  Client agent(address_);
  ASSERT_TRUE(agent.Send(factory.HelloFrame()));
  const std::string session = agent.Welcome().session_dir();
  ASSERT_TRUE(agent.Send(factory.TakeFrame(101 * kMs)));
  ASSERT_TRUE(Eventually([&] {
    return test::ReadFile(session + "/session.json").find("recording") != std::string::npos;
  }));
  StopAndJoin();
  EXPECT_EQ(Manifest(session)["cycle"]["ended"], "killed");
  EXPECT_EQ(Manifest(session)["cycle"]["reason"], "the collector was stopped");
}

TEST(Listen, SecondFindsTheFirstAndAStaleFileIsReplaced) {
  TemporaryFolder folder;
  const auto address = *proto::AddressFromText(folder.path() + "/socket");
  {
    // A collector that was killed: its socket file stays.
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length), 0);
    close(fd);
  }
  Listener first, second;
  EXPECT_EQ(first.Open(address), Listener::Result::kListening);
  EXPECT_EQ(second.Open(address), Listener::Result::kAlreadyServed);
  first.Close();
  EXPECT_TRUE(fs::is_empty(folder.path()));
  Listener third;
  EXPECT_EQ(third.Open(address), Listener::Result::kListening);
}

TEST(Listen, AbstractNamesHaveOneOwner) {
  const auto address =
      *proto::AddressFromText("@stepagent-test/" + std::to_string(getpid()) + "/collector");
  Listener first, second;
  EXPECT_EQ(first.Open(address), Listener::Result::kListening);
  EXPECT_EQ(second.Open(address), Listener::Result::kAlreadyServed);
}

}  // namespace
}  // namespace stepagent::ingest
