// The program itself: its exit statuses, its socket, SIGTERM.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "proto/address.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent {
namespace {

namespace fs = std::filesystem;

class Stepcollector : public testing::Test {
 protected:
  pid_t Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), STEPCOLLECTOR);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {1, 2}) {
      posix_spawn_file_actions_addopen(&actions, fd, Output().c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, STEPCOLLECTOR, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  static int Wait(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments)); }
  // Connected to the collector, which may still be starting.
  int Connect() {
    const auto address = *proto::AddressFromText(Socket());
    for (int i = 0; i < 1000; ++i) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length) == 0) {
        return fd;
      }
      close(fd);
      poll(nullptr, 0, 10);
    }
    ADD_FAILURE() << "nobody listens";
    return -1;
  }
  [[nodiscard]] std::string Socket() const { return folder_.path() + "/s"; }
  [[nodiscard]] std::string Out() const { return folder_.path() + "/out"; }
  [[nodiscard]] std::string Output() const { return folder_.path() + "/output"; }
  [[nodiscard]] std::string Said() const { return test::ReadFile(Output()); }

  test::TemporaryFolder folder_;
};

TEST_F(Stepcollector, SaysItsVersionAndRefusesNonsense) {
  EXPECT_EQ(Run({"--version"}), 0);
  EXPECT_EQ(Said().rfind("stepcollector ", 0), 0U);
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--idle-exit", "soon"}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", Out(), "--log", "loud"}), 2);
  EXPECT_EQ(Run({"--socket", std::string(300, 'x'), "--out", Out()}), 2);
  EXPECT_EQ(Run({"--socket", Socket(), "--out", ""}), 2);
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
