// The control client against an agent that answers, lies, hangs or hangs up.
#include "collector/launch/control_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "collector/cli/common_step.h"
#include "collector/cli/targets.h"
#include "proto/limits.h"
#include "tests/unit/launch/fake_agent.h"
#include "tests/unit/launch/temp_folder.h"

namespace stepagent::launch {
namespace {

class ControlTest : public testing::Test {
 protected:
  // An agent of this very process that serves one connection.
  void Serve(std::function<void(int)> serve) {
    agent_.pid = getpid();
    agent_.session = "0123456789abcdef";
    agent_.address = proto::AgentAddress(folder_.path(), geteuid(), agent_.pid, agent_.session);
    listen_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(listen_fd_, reinterpret_cast<const sockaddr*>(&agent_.address.raw),
                   agent_.address.length),
              0);
    ASSERT_EQ(listen(listen_fd_, 4), 0);
    thread_ = std::thread([this, serve] {
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      // Nobody answers before he is asked: the client's send would meet a closed socket.
      char first;
      (void)!recv(fd, &first, 1, MSG_PEEK);
      serve(fd);
      close(fd);
    });
  }
  void TearDown() override {
    if (listen_fd_ >= 0) shutdown(listen_fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    if (listen_fd_ >= 0) close(listen_fd_);
  }
  static void SendAll(int fd, const std::string& bytes) {
    for (const char c : bytes) send(fd, &c, 1, MSG_NOSIGNAL);  // in pieces, as a stream may come
  }
  Answer AskStatus(int timeout_ms = 5000) {
    return Ask(agent_, MakeRequest(v1::ControlRequest::STATUS),
               std::chrono::milliseconds(timeout_ms));
  }
  TempFolder folder_;
  proto::AgentEntry agent_;
  int listen_fd_ = -1;
  std::thread thread_;
};

TEST_F(ControlTest, AsksAndIsAnswered) {
  Serve([](int fd) {
    v1::ControlRequest request;
    v1::ControlAnswer answer;
    answer.set_verdict(ReadRequest(fd, &request).empty() &&
                               request.verb() == v1::ControlRequest::STATUS &&
                               request.protocol() == proto::kProtocol
                           ? v1::ControlAnswer::OK
                           : v1::ControlAnswer::REFUSED);
    answer.mutable_status()->set_title("python train.py");
    // A newer agent may send frames that we do not know ahead of it.
    SendAll(fd, Frame(static_cast<proto::FrameType>(99), "?") +
                    Frame(proto::FrameType::kControlAnswer, answer.SerializeAsString()));
  });
  const Answer answer = AskStatus();
  ASSERT_TRUE(answer.message) << answer.error;
  EXPECT_EQ(answer.message->verdict(), v1::ControlAnswer::OK);
  EXPECT_EQ(cli::StatusLine(answer),
            std::to_string(getpid()) +
                "  python train.py  rank 0  idle  step 0  cycle 0  records 0  error -");
}

TEST_F(ControlTest, SaysWhatIsWrongWithAnAnswer) {
  Serve([](int fd) {
    v1::ControlRequest request;
    static_cast<void>(ReadRequest(fd, &request));
    std::string frame = Frame(proto::FrameType::kControlAnswer, "xyz");
    frame.back() ^= 1;
    SendAll(fd, frame);
  });
  EXPECT_EQ(AskStatus().error, "its answer is damaged");
}

TEST_F(ControlTest, RefusesWhatIsNoFrame) {
  Serve([](int fd) { SendAll(fd, std::string(64, 'x')); });
  EXPECT_EQ(AskStatus().error, "its answer is no frame of ours");
}

TEST_F(ControlTest, RefusesOversizedAnswers) {
  Serve([](int fd) {
    std::string frame = Frame(proto::FrameType::kControlAnswer, "");
    const uint32_t bytes = proto::kMaxControlBytes + 1;
    std::memcpy(frame.data() + 8, &bytes, 4);
    SendAll(fd, frame);
  });
  EXPECT_EQ(AskStatus().error, "its answer is no frame of ours");
}

TEST_F(ControlTest, DoesNotWaitForOneThatHangs) {
  Serve([](int fd) {
    char c;
    while (recv(fd, &c, 1, 0) > 0) {  // until the client gives up
    }
  });
  EXPECT_EQ(AskStatus(50).error, "no answer in time");
}

TEST_F(ControlTest, SaysWhatBecomesOfARequestWithoutAnAnswer) {
  Serve([](int fd) {
    char c;
    while (recv(fd, &c, 1, 0) > 0) {
    }
  });
  const Answer answer =
      Ask(agent_, MakeRequest(v1::ControlRequest::START), std::chrono::milliseconds(50));
  EXPECT_EQ(answer.error.find("no answer in time: the request is withdrawn; if it was"), 0U)
      << answer.error;
}

TEST_F(ControlTest, SeesOneThatHangsUp) {
  Serve([](int) {});
  EXPECT_FALSE(AskStatus().message);
}

TEST_F(ControlTest, RefusesAnotherProcessInItsName) {
  Serve([](int) {});
  agent_.pid = getpid() + 1;
  EXPECT_NE(AskStatus().error.find("answers in its name"), std::string::npos);
}

TEST_F(ControlTest, KnowsTheDead) {
  agent_.address = proto::AgentAddress(folder_.path(), 0, 1, "x");
  EXPECT_TRUE(AskStatus().is_gone);
}

Answer Target(pid_t pid, int rank, const std::string& title, bool has_cuda) {
  Answer answer;
  answer.agent.pid = pid;
  answer.agent.session = "abc" + std::to_string(pid);
  answer.message.emplace();
  v1::AgentStatus& status = *answer.message->mutable_status();
  status.set_rank(rank);
  status.set_title(title);
  status.set_has_cuda(has_cuda);
  if (has_cuda) status.add_gpus(static_cast<uint32_t>(rank));
  return answer;
}

TEST(Targets, MatchByWhatTheySayOfThemselves) {
  const Answer answer = Target(10, 3, "python train.py", true);
  const auto matches = [&](auto change) {
    cli::TargetRules rules;
    change(rules);
    return cli::Matches(rules, answer);
  };
  EXPECT_TRUE(matches([](auto&) {}));
  EXPECT_TRUE(matches([](auto& r) { r.pids = {9, 10}; }));
  EXPECT_FALSE(matches([](auto& r) { r.pids = {9}; }));
  EXPECT_TRUE(matches([](auto& r) { r.ranks = {0, 3}; }));
  EXPECT_FALSE(matches([](auto& r) { r.ranks = {0}; }));
  EXPECT_TRUE(matches([](auto& r) { r.gpu = 3; }));
  EXPECT_FALSE(matches([](auto& r) { r.gpu = 0; }));
  EXPECT_TRUE(matches([](auto& r) { r.name = "*train*"; }));
  EXPECT_FALSE(matches([](auto& r) { r.name = "train*"; }));
  EXPECT_TRUE(matches([](auto& r) { r.session = "abc10"; }));
  EXPECT_FALSE(matches([](auto& r) { r.session = "b"; }));
  Answer unranked = Target(11, -1, "x", false);
  cli::TargetRules rules;
  rules.ranks = {0};
  EXPECT_FALSE(cli::Matches(rules, unranked));
  unranked.message.reset();
  rules = {};
  EXPECT_TRUE(cli::Matches(rules, unranked));
}

// One that hangs is known by what /proc tells of it.
TEST(Targets, ASilentOneHasTheRankThatItWasTold) {
  Answer hangs;
  hangs.agent.pid = 12;
  hangs.rank = 3;
  hangs.title = "python train.py";
  hangs.error = "no answer in time";
  cli::TargetRules rules;
  rules.ranks = {3};
  EXPECT_TRUE(cli::Matches(rules, hangs));
  EXPECT_EQ(cli::StatusLine(hangs), "12  python train.py  rank 3  no state: no answer in time");
  rules.ranks = {2};
  EXPECT_FALSE(cli::Matches(rules, hangs));
  rules.ranks = {3};
  rules.name = "*";
  EXPECT_FALSE(cli::Matches(rules, hangs));
  // And by what it said before.
  std::vector<Answer> answers{Answer{}};
  cli::DescribeSilent({Target(12, 5, "python x.py", true)}, &answers);
  EXPECT_EQ(answers[0].rank, 5);
  EXPECT_EQ(answers[0].title, "python x.py");
}

// A rank that the collector assigned is in the session's document, or in its folder's name.
TEST(Targets, AnAssignedRankIsKnownOnceThereIsASession) {
  TempFolder folder;
  Answer answer = Target(12, -1, "x", true);
  v1::AgentStatus& status = *answer.message->mutable_status();
  EXPECT_EQ(cli::RankOf(answer), -1);
  status.set_session("aa");
  status.set_session_dir(folder.path() + "/train_rank7_a_rank_h_12_00c0ffee");
  EXPECT_EQ(cli::RankOf(answer), -1);  // "_rank_": the host's
  status.set_session_dir(folder.path() + "/train_rank7_host_12_00c0ffee");
  EXPECT_EQ(cli::RankOf(answer), 7);
  folder.Write("train_rank7_host_12_00c0ffee/session.json", R"({"session":{"id":"aa","rank":8}})");
  EXPECT_EQ(cli::RankOf(answer), 8);
  status.set_session("bb");  // a folder of the same name in another container
  EXPECT_EQ(cli::RankOf(answer), 7);
  cli::TargetRules rules;
  rules.ranks = {7};
  EXPECT_TRUE(cli::Matches(rules, answer));
}

TEST(Targets, SayPlainlyThatNobodyToldItsGpu) {
  cli::TargetRules rules;
  rules.gpu = 2;
  Answer up = Target(10, 3, "w", true);
  up.message->mutable_status()->clear_gpus();
  const Answer down = Target(11, 0, "launcher", false);
  Answer hangs = Target(12, 1, "w", true);
  hangs.message.reset();
  const auto has = [&](const std::vector<Answer>& answers, const char* part) {
    return cli::WhyNoGpuMatches(rules, answers).find(part) != std::string::npos;
  };
  EXPECT_TRUE(has({up, down, hangs}, "--gpu 2: none of the 3 processes"));
  EXPECT_TRUE(has({up, down}, "no context that is known yet"));
  EXPECT_TRUE(has({down, hangs}, "CUDA is up in none"));
  // One that told is something to compare with, whether it matches or not.
  EXPECT_EQ(cli::WhyNoGpuMatches(rules, {up, Target(13, 2, "w", true)}), "");
  rules.gpu = -1;
  EXPECT_EQ(cli::WhyNoGpuMatches(rules, {up}), "");
}

Answer Counting(const std::string& run, const std::string& source, const std::string& exe = "t") {
  Answer answer = Target(1, 0, exe, true);
  answer.message->mutable_status()->set_run(run);
  answer.message->mutable_status()->set_step_source(source);
  answer.message->mutable_status()->set_exe(exe);
  return answer;
}

TEST(CommonStep, ForThoseOfOneRunAndOneSource) {
  using Groups = std::vector<std::vector<size_t>>;
  v1::ControlRequest request;
  std::vector<Answer> targets{Counting("a", "nvtx:x"), Counting("b", "nvtx:x"),
                              Counting("a", "nvtx:x"), Counting("a", "nvtx:y"),
                              Counting("b", "nvtx:x"), Counting("a", "every:1s")};
  EXPECT_EQ(cli::CountTogether(targets, request), (Groups{{0, 2}, {1, 4}}));
  targets[2].message.reset();  // one that hangs has no say, and does not keep the others apart
  EXPECT_EQ(cli::CountTogether(targets, request), (Groups{{1, 4}}));
  // Bare preload without a launcher: each is a run of its own, and the ranks are of one program.
  targets = {Counting("a", "nvtx:x"), Counting("b", "nvtx:x"), Counting("c", "nvtx:x", "other")};
  EXPECT_EQ(cli::CountTogether(targets, request), (Groups{{0, 1}}));
  (*request.mutable_settings())["step"] = "nvtx:z";
  EXPECT_EQ(cli::CountTogether(targets, request), Groups{});
  request.clear_settings();
  request.set_duration_ns(5);
  EXPECT_EQ(cli::CountTogether(targets, request), Groups{});
}

TEST(Targets, ThoseWithADeviceComeFirst) {
  std::vector<Answer> answers{Target(1, -1, "launcher", false), Target(4, 1, "w", true),
                              Target(2, -1, "parent", false), Target(3, 0, "w", true)};
  cli::SortTargets(&answers);
  EXPECT_EQ(answers[0].agent.pid, 3);
  EXPECT_EQ(answers[1].agent.pid, 4);
  EXPECT_EQ(answers[2].agent.pid, 1);
}

}  // namespace
}  // namespace stepagent::launch
