// The control socket: one request, one answer, whoever asks.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "control.pb.h"
#include "proto/limits.h"
#include "uplink_fixture.h"

namespace stepagent::drain::io {
namespace {

class ControlTest : public UplinkTest {
 protected:
  void SetUp() override {
    UplinkTest::SetUp();
    char folder[] = "/tmp/stepagent-control-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    config_.control_folder = folder_;
  }
  void TearDown() override {
    UplinkTest::TearDown();
    EXPECT_EQ(rmdir(folder_.c_str()), 0) << "the socket's file was left behind";
  }
  Peer Connect(const std::string& folder) {
    const proto::SocketAddress address =
        proto::AgentAddress(folder, geteuid(), getpid(), config_.session);
    const uint64_t end = HostClock::MonotonicNs() + kPatienceNs;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length) != 0) {
      if (HostClock::MonotonicNs() > end) {
        ADD_FAILURE() << "no control socket";
        break;
      }
      sched_yield();
    }
    return Peer(fd);
  }
  void AnswerAll() {
    for (const PendingRequest& request : uplink_.TakeRequests()) {
      uplink_.Answer(request.id, "answer to " + request.payload);
    }
  }
  std::string Ask(Peer* peer, const std::string& what) {
    peer->Send(FrameBytes(proto::FrameType::kControlRequest, what));
    EXPECT_TRUE(Await([&] {
      AnswerAll();
      pollfd ready{peer->fd(), POLLIN, 0};
      return poll(&ready, 1, 0) > 0;
    }));
    const auto frame = peer->ReadFrame();
    return frame ? frame->payload : "";
  }

  std::string folder_;
};

TEST_F(ControlTest, OneRequestOneAnswerThenItHangsUp) {
  ASSERT_TRUE(uplink_.Start(config_));
  for (int i = 0; i < 3; ++i) {
    Peer peer = Connect(folder_);
    EXPECT_EQ(Ask(&peer, "status"), "answer to status");
    EXPECT_FALSE(peer.ReadFrame());
  }
}

TEST_F(ControlTest, AFolderThatCannotBeUsedGivesTheAbstractName) {
  config_.control_folder = "/proc/no/such/folder";
  ASSERT_TRUE(uplink_.Start(config_));
  Peer peer = Connect("");
  EXPECT_EQ(Ask(&peer, "status"), "answer to status");
}

TEST_F(ControlTest, SilentAndRudePeersAreDroppedAndOthersAnswered) {
  ASSERT_TRUE(uplink_.Start(config_));
  std::vector<Peer> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(Connect(folder_));  // more than it serves at once
  Peer rude = Connect(folder_);
  rude.Send("what is this?! something longer than a header");
  Peer vanishing = Connect(folder_);
  vanishing.Send(FrameBytes(proto::FrameType::kControlRequest, "gone"));
  vanishing.Close();
  Peer polite = Connect(folder_);
  EXPECT_EQ(Ask(&polite, "status"), "answer to status");  // after the silent ones' two seconds
  EXPECT_FALSE(silent[0].ReadFrame());
  EXPECT_FALSE(rude.ReadFrame());
}

// It was told that there was no answer: what it asked for must not be done behind its back.
TEST_F(ControlTest, ARequestOfOneThatHasHungUpIsWithdrawn) {
  ASSERT_TRUE(uplink_.Start(config_));
  for (int i = 0; i < 20; ++i) {
    Peer gone = Connect(folder_);
    gone.Send(FrameBytes(proto::FrameType::kControlRequest, "gone"));
    gone.Close();
  }
  Peer there = Connect(folder_);
  there.Send(FrameBytes(proto::FrameType::kControlRequest, "there"));
  std::vector<PendingRequest> requests;
  EXPECT_TRUE(Await([&] {
    requests = uplink_.TakeRequests();
    return !requests.empty();
  }));
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].payload, "there");
}

}  // namespace
}  // namespace stepagent::drain::io
