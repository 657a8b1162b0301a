// The collector is started, as it should be, and the application sees nothing of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/drain/io/uplink.h"
#include "proto/address.h"

namespace stepagent::drain::io {
namespace {

std::atomic<int> g_child_signals{0};

class CollectorStartTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP()
        << "ThreadSanitizer takes the middle, which shares our memory, for a thread of ours";
#endif
    char folder[] = "/tmp/stepagent-start-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    out_ = folder;
    address_ = "@stepagent-test/start/" + std::to_string(getpid()) + out_;
    g_child_signals = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++g_child_signals; };
    sigaction(SIGCHLD, &action, nullptr);
    signal(SIGUSR1, SIG_IGN);
    watch_ = inotify_init1(IN_CLOEXEC);
    inotify_add_watch(watch_, out_.c_str(), IN_MOVED_TO);
  }
  void TearDown() override {
    if (out_.empty()) return;
    Tell("end");
    close(watch_);
    unlink((out_ + "/report").c_str());
    rmdir(out_.c_str());
    signal(SIGCHLD, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
  }
  std::string Start(const std::string& program = STEPAGENT_FAKE_COLLECTOR) {
    std::string path = "PATH=/usr/bin", preload = "LD_PRELOAD=/nowhere/libx.so",
                cuda = "CUDA_INJECTION64_PATH=/nowhere/a.so",
                nvtx = "NVTX_INJECTION64_PATH=/nowhere/b.so", audit = "LD_AUDIT=/nowhere/c.so",
                kept = "MY_LD_PRELOAD=kept";
    char* environment[] = {path.data(),  preload.data(), cuda.data(), nvtx.data(),
                           audit.data(), kept.data(),    nullptr};
    return StartCollector(program, address_, out_, "run_0badcafe", environment);
  }
  bool Tell(const std::string& word) {
    const auto address = proto::AddressFromText(address_);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_there =
        connect(fd, reinterpret_cast<const sockaddr*>(&address->raw), address->length) == 0;
    if (is_there) send(fd, word.data(), word.size(), MSG_NOSIGNAL);
    close(fd);
    return is_there;
  }
  std::multimap<std::string, std::string> ReadReport() {
    pollfd ready{watch_, POLLIN, 0};
    EXPECT_GT(poll(&ready, 1, 20000), 0) << "it did not come up";
    std::multimap<std::string, std::string> report;
    std::ifstream file(out_ + "/report");
    std::string line;
    while (std::getline(file, line)) {
      const size_t space = line.find(' ');
      report.emplace(line.substr(0, space), line.substr(space + 1));
    }
    return report;
  }
  static std::string One(const std::multimap<std::string, std::string>& report, const char* key) {
    const auto found = report.find(key);
    return found == report.end() ? "" : found->second;
  }
  static void ExpectNoChild() {
    errno = 0;
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
    EXPECT_EQ(errno, ECHILD);
    EXPECT_EQ(g_child_signals.load(), 0);
    std::ifstream children("/proc/thread-self/children");
    std::string any;
    children >> any;
    EXPECT_EQ(any, "");
  }

  std::string out_, address_;
  int watch_ = -1;
};

TEST_F(CollectorStartTest, ItIsNobodysChildAndComesUpAsItShould) {
  const int open_file = open("/etc/passwd", O_RDONLY);  // inheritable on purpose
  EXPECT_EQ(Start(), "");
  ExpectNoChild();
  const auto report = ReadReport();
  ExpectNoChild();
  close(open_file);
  std::vector<std::string> args;
  for (auto [at, end] = report.equal_range("arg"); at != end; ++at) args.push_back(at->second);
  EXPECT_EQ(args, (std::vector<std::string>{"stepcollector", "--socket", address_, "--out", out_,
                                            "--idle-exit", "5s", "--daemon-of", "run_0badcafe"}));
  std::multiset<std::string> environment;
  for (auto [at, end] = report.equal_range("env"); at != end; ++at) environment.insert(at->second);
  EXPECT_EQ(environment, (std::multiset<std::string>{"PATH=/usr/bin", "MY_LD_PRELOAD=kept"}));
  EXPECT_EQ(One(report, "files"), "0=/dev/null 1=/dev/null 2=/dev/null ");
  EXPECT_EQ(One(report, "nice"), "10");
  EXPECT_EQ(One(report, "oom"), "1000");
  EXPECT_EQ(One(report, "session"), "own");
  EXPECT_EQ(One(report, "signals"), "open default");
  EXPECT_EQ(One(report, "folder"), "/");
  // Our own were left as they were.
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

TEST_F(CollectorStartTest, WhereSomebodyListensNothingIsStarted) {
  EXPECT_EQ(Start(), "");
  (void)ReadReport();
  unlink((out_ + "/report").c_str());
  EXPECT_EQ(Start("/no/such/program"), "");  // not even looked at
  ExpectNoChild();
  EXPECT_TRUE(Tell("hello"));
}

TEST_F(CollectorStartTest, AProgramThatIsNotThereIsSaidAndLeavesNothing) {
  EXPECT_EQ(Start("/no/such/program"), "/no/such/program: No such file or directory");
  EXPECT_EQ(Start("/etc/passwd"), "/etc/passwd: Permission denied");
  ExpectNoChild();
}

TEST_F(CollectorStartTest, ItNeedsNoDescriptorOfTheApplication) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> fillers;
  for (int fd = dup(watch_); fd >= 0; fd = dup(watch_)) fillers.push_back(fd);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(Start(), "");
  for (const int fd : fillers) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(One(ReadReport(), "files"), "0=/dev/null 1=/dev/null 2=/dev/null ");
  ExpectNoChild();
}

}  // namespace
}  // namespace stepagent::drain::io
