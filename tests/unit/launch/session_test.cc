// The documents a run leaves, and waiting for them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <thread>

#include "collector/launch/session_wait.h"
#include "tests/unit/launch/temp_folder.h"

namespace stepagent::launch {
namespace {

std::string Document(const std::string& state, int64_t pid, const std::string& cycles) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return R"({"session":{"id":"aa","exe":"app","title":"app x","rank":3,"host":")" +
         std::string(host) + R"(","pid":)" + std::to_string(pid) + R"(},"state":")" + state +
         R"(","cycles":)" + cycles + "}";
}

// No process: pids end at 2^22.
constexpr int64_t kNoProcess = 99999999;

class SessionTest : public testing::Test {
 protected:
  std::string Put(const std::string& state, int64_t pid, const std::string& cycles,
                  const std::string& name = "s1") {
    folder_.Write("run1/sessions/" + name + "/session.json", Document(state, pid, cycles));
    return folder_.path() + "/run1/sessions/" + name;
  }
  WaitRules Rules(int timeout_ms) {
    WaitRules rules;
    rules.paths = {folder_.path()};
    rules.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    return rules;
  }
  TempFolder folder_;
};

TEST_F(SessionTest, ReadsWhatTheCollectorWrites) {
  const std::string path = Put("closed", 7, R"([{"index":1,"state":"written","ended":null,
      "files":["traces/cycle-0001/a.1.pt.trace.json.gz",{"name":"/abs/x"}]}])");
  const auto session = ReadSession(path);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->rank, 3);
  EXPECT_EQ(session->pid, 7);
  EXPECT_EQ(session->run_folder, folder_.path() + "/run1");
  ASSERT_EQ(session->cycles.size(), 1U);
  EXPECT_EQ(session->cycles[0].files,
            (std::vector<std::string>{
                folder_.path() + "/run1/traces/cycle-0001/a.1.pt.trace.json.gz", "/abs/x"}));
  EXPECT_TRUE(session->IsSettled());
  EXPECT_EQ(CycleFolder(*session, 1), path + "/cycle-0001");
}

TEST_F(SessionTest, AnythingElseIsNoSession) {
  EXPECT_FALSE(ReadSession(folder_.path()));
  for (const char* text :
       {"", "{", "[]", "null", "{}", R"({"session":3})", "\xff\xfe", R"({"session":[]})"}) {
    folder_.Write("x/session.json", text);
    EXPECT_FALSE(ReadSession(folder_.path() + "/x")) << text;
  }
  folder_.Write("x/session.json",
                R"({"session":{"id":3,"pid":"a","rank":null},"cycles":{"a":1},"state":1})");
  const auto odd = ReadSession(folder_.path() + "/x");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, -1);
  EXPECT_FALSE(odd->IsSettled());
}

TEST_F(SessionTest, FindsFromEveryLevelAndNotThroughLatest) {
  const std::string session = Put("closed", 7, "[]");
  std::filesystem::create_symlink("run1", folder_.path() + "/latest");
  const std::vector<std::string> expected{session};
  EXPECT_EQ(FindSessionFolders(folder_.path()), expected);
  EXPECT_EQ(FindSessionFolders(folder_.path() + "/run1"), expected);
  EXPECT_EQ(FindSessionFolders(session), expected);
  EXPECT_EQ(FindSessionFolders(folder_.path() + "/latest"), expected);
  EXPECT_TRUE(FindSessionFolders(folder_.path() + "/none").empty());
}

TEST_F(SessionTest, ReturnsAtOnceWhenAllIsWritten) {
  Put("closed", kNoProcess, "[]");
  Put("open", getpid(), R"([{"index":0,"state":"written"}])", "s2");
  EXPECT_EQ(WaitForSessions(Rules(0)).end, WaitEnd::kWritten);
}

TEST_F(SessionTest, WaitsForOpenOnesUntilTheDeadline) {
  Put("open", getpid(), R"([{"index":0,"state":"written"},{"index":1,"state":"recording"}])");
  EXPECT_EQ(WaitForSessions(Rules(0)).end, WaitEnd::kTimeout);
  WaitRules rules = Rules(0);
  rules.leaves_living = true;
  EXPECT_EQ(WaitForSessions(rules).end, WaitEnd::kWritten);
  Put("open", getpid(), "[]");
  EXPECT_EQ(WaitForSessions(Rules(0)).end, WaitEnd::kTimeout);
}

TEST_F(SessionTest, ADeferredCycleIsNotWaitedFor) {
  Put("open", getpid(), R"([{"index":0,"state":"deferred","error":"deferred: why"}])");
  const WaitResult result = WaitForSessions(Rules(0));
  EXPECT_EQ(result.end, WaitEnd::kWritten);
  EXPECT_TRUE(result.late.empty());
  ASSERT_EQ(result.sessions.size(), 1U);
  EXPECT_EQ(result.sessions[0].DeferredCycles(), std::vector<uint64_t>{0});
  EXPECT_EQ(result.sessions[0].cycles[0].error, "deferred: why");
}

// Of a closed session it is tried once: here there is no raw file to write it from.
TEST_F(SessionTest, ADeferredCycleThatCannotBeWrittenIsNoEndlessTry) {
  Put("closed", kNoProcess, R"([{"index":0,"state":"deferred","error":"deferred: why"}])");
  const WaitResult result = WaitForSessions(Rules(20000));
  EXPECT_EQ(result.end, WaitEnd::kWritten);
  EXPECT_TRUE(result.late.empty());
  EXPECT_EQ(result.sessions[0].DeferredCycles().size(), 1U);
}

// A collector closes the session before it lets go of the raw file.
TEST_F(SessionTest, ADeferredCycleIsLeftAloneWhileTheRawFileIsHeld) {
  const std::string session = Put("closed", kNoProcess, R"([{"index":0,"state":"deferred"}])");
  folder_.Write("run1/sessions/s1/raw.steps", "");
  const int fd = open((session + "/raw.steps").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(WaitForSessions(Rules(0)).end, WaitEnd::kTimeout);
  WaitRules rules = Rules(20000);
  int rounds = 0;
  rules.on_round = [&](const auto&) {
    if (++rounds == 2) flock(fd, LOCK_UN);
  };
  EXPECT_EQ(WaitForSessions(rules).end, WaitEnd::kWritten);
  EXPECT_EQ(rounds, 2);
  close(fd);
}

TEST(LateSession, SaysWhichCycles) {
  EXPECT_EQ(
      (LateSession{"/s", {3}}).Text(),
      "cycle 3 needed more than the collector's memory limit (STEPAGENT_COLLECTOR_MEMORY) and "
      "was written afterwards, from raw.steps");
  EXPECT_EQ((LateSession{"/s", {0, 2}}).Text().substr(0, 18), "cycles 0, 2 needed");
}

TEST_F(SessionTest, NothingThereYetIsNoEndWhenAsked) {
  EXPECT_EQ(WaitForSessions(Rules(0)).end, WaitEnd::kWritten);
  WaitRules rules = Rules(0);
  rules.needs_a_session = true;
  EXPECT_EQ(WaitForSessions(rules).end, WaitEnd::kTimeout);
}

TEST_F(SessionTest, SeesTheSessionClose) {
  const std::string session = Put("open", kNoProcess, R"([{"index":0,"state":"writing"}])");
  folder_.Write("run1/sessions/s1/raw.steps", "");
  const int fd = open((session + "/raw.steps").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);  // as a collector holds it
  EXPECT_TRUE(ReadSession(session)->IsHeld());
  WaitRules rules = Rules(20000);
  int rounds = 0;
  rules.on_round = [&](const auto&) {
    if (++rounds == 2) Put("closed", kNoProcess, R"([{"index":0,"state":"written"}])");
  };
  EXPECT_EQ(WaitForSessions(rules).end, WaitEnd::kWritten);
  EXPECT_EQ(rounds, 2);
  close(fd);
  EXPECT_FALSE(ReadSession(session)->IsHeld());
}

TEST_F(SessionTest, CanBeInterrupted) {
  Put("open", getpid(), "[]");
  WaitRules rules = Rules(20000);
  rules.is_interrupted = [] { return true; };
  EXPECT_EQ(WaitForSessions(rules).end, WaitEnd::kInterrupted);
}

TEST_F(SessionTest, AbandonedOnesAreNamedNotWaitedFor) {
  Put("open", kNoProcess,
      R"([{"index":0,"state":"recording"}])");  // and no raw file to finish it from
  const WaitResult result = WaitForSessions(Rules(60000));
  EXPECT_EQ(result.end, WaitEnd::kAbandoned);
  ASSERT_EQ(result.sessions.size(), 1U);
}

}  // namespace
}  // namespace stepagent::launch
