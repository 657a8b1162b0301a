#include "agent/core/phase_words.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace stepagent::core {
namespace {

int StatusOf(pid_t child) {
  int status = -1;
  waitpid(child, &status, __WALL);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(PhaseWords, AChildOfForkReadsInert) {
  ASSERT_TRUE(MapPhaseWords());
  g_words->bits.store(kBitRanges | kBitCalls);
  g_words->gate_lock.store(1);
  const pid_t child = fork();
  if (child == 0) {
    const bool inert =
        g_words->alive.load() == 0 && g_words->bits.load() == 0 && g_words->gate_lock.load() == 0;
    const bool revived = MapPhaseWords() && g_words->alive.load() == 1;
    _exit(inert && revived ? 0 : 1);
  }
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_EQ(g_words->alive.load(), 1U);
  EXPECT_EQ(g_words->bits.load(), uint32_t{kBitRanges | kBitCalls});
  g_words->bits.store(0);
  g_words->gate_lock.store(0);
}

TEST(PhaseWords, AChildOfRawCloneReadsInert) {
  ASSERT_TRUE(MapPhaseWords());
  g_words->bits.store(kBitRanges);
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    syscall(SYS_exit, g_words->alive.load() == 0 && g_words->bits.load() == 0 ? 0 : 1);
  }
  EXPECT_EQ(StatusOf(child), 0);
  g_words->bits.store(0);
}

TEST(PhaseWords, WakesAWaiterAndKeepsErrno) {
  ASSERT_TRUE(MapPhaseWords());
  const uint32_t seen = g_words->wake.load();
  std::thread waiter([seen] {
    while (g_words->wake.load() == seen) FutexWait(&g_words->wake, seen, 0);
  });
  errno = 1234;
  BumpAndWake(&g_words->wake);
  EXPECT_EQ(errno, 1234);
  waiter.join();
  errno = 4321;
  FutexWait(&g_words->wake, seen, 1'000'000);  // already different: returns at once
  EXPECT_EQ(errno, 4321);
}

}  // namespace
}  // namespace stepagent::core
