// Where sockets live, and how they are found again.
#include "proto/address.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace stepagent::proto {
namespace {

class AddressTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "address.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    for (const int fd : fds_) close(fd);
    std::filesystem::remove_all(folder_);
  }
  void Listen(const SocketAddress& address) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds_.push_back(fd);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length), 0);
    ASSERT_EQ(listen(fd, 4), 0);
  }
  void ConnectTo(const SocketAddress& address) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds_.push_back(fd);
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length), 0);
  }
  static size_t CountOf(const std::vector<AgentEntry>& entries, pid_t pid,
                        const std::string& session) {
    return static_cast<size_t>(
        std::count_if(entries.begin(), entries.end(),
                      [&](const AgentEntry& e) { return e.pid == pid && e.session == session; }));
  }
  std::string folder_;
  std::vector<int> fds_;
};

TEST_F(AddressTest, TextGoesThereAndBack) {
  for (const std::string& text :
       {std::string("/run/x/agent.1.ab"), std::string("@stepagent/0/agent.1.ab"),
        "/" + std::string(106, 'p'), "@" + std::string(107, 'p')}) {
    const auto address = AddressFromText(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->Text(), text);
    EXPECT_EQ(address->IsAbstract(), text[0] == '@');
  }
  EXPECT_FALSE(AddressFromText(""));
  EXPECT_FALSE(AddressFromText("@"));
  EXPECT_FALSE(AddressFromText("/" + std::string(107, 'p')));
  EXPECT_FALSE(AddressFromText("@" + std::string(108, 'p')));
  EXPECT_FALSE(AddressFromText(std::string_view("a\0b", 3)));
}

TEST_F(AddressTest, FolderFollowsTheContractsOrder) {
  EXPECT_EQ(SocketFolder({"/a", "/b"}), "/a");
  EXPECT_EQ(SocketFolder({"", "/b"}), "/b/stepagent");
  EXPECT_EQ(SocketFolder({"", ""}), "");
  EXPECT_EQ(SocketFolder({"relative", "/b"}), "");
  EXPECT_EQ(SocketFolder({"", "relative"}), "");
}

TEST_F(AddressTest, ReadsTheEnvironment) {
  std::string a = "STEPAGENT_RUNTIME_DIR=/a", b = "XDG_RUNTIME_DIR=/b",
              c = "STEPAGENT_RUNTIME_DIRX=/c";
  char* environment[] = {c.data(), a.data(), b.data(), nullptr};
  const RuntimeDirs dirs = RuntimeDirsFromEnvironment(environment);
  EXPECT_EQ(dirs.stepagent_runtime_dir, "/a");
  EXPECT_EQ(dirs.xdg_runtime_dir, "/b");
}

TEST_F(AddressTest, NamesAreAsDocumented) {
  EXPECT_EQ(AgentAddress("/d", 7, 42, "0123456789abcdef").Text(), "/d/agent.42.0123456789abcdef");
  EXPECT_EQ(AgentAddress("", 7, 42, "0123456789abcdef").Text(),
            "@stepagent/7/agent.42.0123456789abcdef");
  EXPECT_EQ(CollectorAddress("/d", 7, "r").Text(), "/d/collector.r");
  EXPECT_EQ(CollectorAddress("", 7, "r").Text(), "@stepagent/7/collector.r");
  const std::string longest(100, 'd');
  EXPECT_EQ(AgentAddress("/" + longest, 7, 42, "0123456789abcdef").Text(),
            "@stepagent/7/agent.42.0123456789abcdef");
  EXPECT_EQ(CollectorAddress("", 7, std::string(300, 'r')).Text().size(), 108U);
}

TEST_F(AddressTest, MakesAPrivateFolder) {
  const std::string folder = folder_ + "/a/b";
  ASSERT_TRUE(EnsureSocketFolder(folder));
  struct stat st {};
  ASSERT_EQ(stat(folder.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700U);
  EXPECT_TRUE(EnsureSocketFolder(folder));
  EXPECT_FALSE(EnsureSocketFolder(""));
  EXPECT_FALSE(EnsureSocketFolder("/proc/none/such"));
}

TEST_F(AddressTest, RefusesAFolderThatOthersCanSwapSocketsIn) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_FALSE(EnsureSocketFolder(folder_));
  ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
  EXPECT_TRUE(EnsureSocketFolder(folder_));
}

TEST_F(AddressTest, ListsAFolderAskedForAndNothingElse) {
  const RuntimeDirs dirs{folder_, ""};
  Listen(AgentAddress("", getuid(), 4242, "00000000000000aa"));
  Listen(AgentAddress(folder_, getuid(), 4243, "00000000000000bb"));
  Listen(*AddressFromText(folder_ + "/agent.x.y"));
  Listen(CollectorAddress(folder_, getuid(), "run"));
  const auto entries = ListAgents(dirs, getuid());
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].pid, 4243);
  EXPECT_EQ(entries[0].session, "00000000000000bb");
  EXPECT_EQ(entries[0].address.Text(), folder_ + "/agent.4243.00000000000000bb");
}

TEST_F(AddressTest, ListsAbstractNamesOnceEach) {
  const std::string session = "00000000000" + std::to_string(10000 + getpid() % 90000);
  const SocketAddress address = AgentAddress("", getuid(), 4244, session);
  Listen(address);
  ConnectTo(address);  // an accepted connection shows the same name in /proc/net/unix
  const int fd = accept4(fds_[0], nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(fd, 0);
  fds_.push_back(fd);
  EXPECT_EQ(CountOf(ListAgents({}, getuid()), 4244, session), 1U);
  EXPECT_EQ(CountOf(ListAgents({}, 0), 4244, session), 1U);
  EXPECT_EQ(CountOf(ListAgents({}, getuid() + 77777), 4244, session), 0U);
  // A folder asked for that cannot be used is where agents fell back from.
  EXPECT_EQ(CountOf(ListAgents({"/dev/null/none", ""}, getuid()), 4244, session), 1U);
}

}  // namespace
}  // namespace stepagent::proto
