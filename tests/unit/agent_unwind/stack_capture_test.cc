#include "agent/unwind/stack_capture.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include "agent/unwind/stack_resolver.h"
#include "agent/unwind/unwinder.h"

namespace stepagent::unwind {
namespace {

// Leading frames of the module that walks are left out, and the test's own are in it too. So stacks
// are taken from a function that libc calls, and what is looked at begins there.
class StackCaptureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(core::NameTable::Init());
    ASSERT_EQ(StackCapture::Prepare(), "");
  }
};

std::vector<uintptr_t> Walked() {
  std::vector<uintptr_t> frames(256);
  frames.resize(Unwinder::Walk(frames.data(), 256));
  return frames;
}

[[gnu::noinline]] std::vector<uintptr_t> WalkedFrom(int depth) {
  if (depth == 0) return Walked();
  std::vector<uintptr_t> frames = WalkedFrom(depth - 1);
  EXPECT_FALSE(frames.empty());
  return frames;
}

TEST_F(StackCaptureTest, WalksAsDeepAsTheCallsAre) {
  const size_t base = WalkedFrom(0).size();
  EXPECT_GT(base, 3U);
  EXPECT_EQ(WalkedFrom(10).size(), base + 10);
  EXPECT_EQ(WalkedFrom(60).size(), base + 60);
  const std::vector<uintptr_t> deep = WalkedFrom(1000);
  EXPECT_EQ(deep.size(), 256U);  // no more than asked for
}

thread_local uint32_t g_taken_from_libc = 0;
int TakeAndCompare(const void*, const void*) {
  g_taken_from_libc = StackCapture::Take();
  return 0;
}

// qsort is in libc, so its frame and those above are not the module's that walks.
[[gnu::noinline]] uint32_t TakeThroughLibc() {
  int numbers[2] = {2, 1};
  g_taken_from_libc = 0;
  qsort(numbers, 2, sizeof numbers[0], TakeAndCompare);
  return g_taken_from_libc;
}

TEST_F(StackCaptureTest, OwnFramesAreLeftOut) {
  const uint32_t id = TakeThroughLibc();
  const StackTable::View view = StackCapture::table().Get(id);
  ASSERT_GT(view.count, 1U);
  ModuleMap modules;
  modules.Refresh();
  const Module* first = modules.Find(view.frames[0] - 1);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(core::NameTable::Text(first->path).find("libc"), std::string_view::npos)
      << core::NameTable::Text(first->path);
}

TEST_F(StackCaptureTest, OnePlaceIsOneStack) {
  std::set<uint32_t> ids;
  for (int i = 0; i < 100; ++i) ids.insert(TakeThroughLibc());
  EXPECT_EQ(ids.size(), 1U);
  ids.insert(TakeThroughLibc());
  EXPECT_EQ(ids.size(), 2U);
}

[[gnu::noinline]] uint32_t TakeDeep(int depth) {
  if (depth == 0) return TakeThroughLibc();
  const uint32_t id = TakeDeep(depth - 1);
  EXPECT_NE(id, 0U);
  return id;
}

TEST_F(StackCaptureTest, DeepStacksAreCutAndSaySo) {
  const StackTable::View deep = StackCapture::table().Get(TakeDeep(500));
  EXPECT_EQ(deep.count, StackTable::kMaxFrames);
  EXPECT_TRUE(deep.truncated);
  const StackTable::View flat = StackCapture::table().Get(TakeDeep(0));
  EXPECT_LT(flat.count, StackTable::kMaxFrames);
  EXPECT_FALSE(flat.truncated);
}

std::atomic<uint64_t> g_handler_taken{0}, g_handler_refused{0};
void OnAlarm(int) {
  const uint32_t id = StackCapture::Take();
  (id == StackTable::kNotTaken ? g_handler_refused : g_handler_taken)
      .fetch_add(1, std::memory_order_relaxed);
}

// A handler that launches may come at any instruction of a walk. New places all the time, so that
// libunwind's table changes while the handler comes.
TEST_F(StackCaptureTest, AHandlerInsideAWalkIsRefused) {
  struct sigaction action {
  }, before{};
  action.sa_handler = OnAlarm;
  sigaction(SIGALRM, &action, &before);
  const uint64_t refused_before = StackCapture::not_taken();
  itimerval every{{0, 200}, {0, 200}}, never{};
  setitimer(ITIMER_REAL, &every, nullptr);
  uint64_t taken = 0;
  for (int i = 0; i < 20'000'000 && g_handler_refused.load() < 20; ++i) {
    const uint32_t id = TakeDeep(i % 40);
    taken += id > StackTable::kNotTaken;
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(taken, 0U);
  EXPECT_GE(g_handler_refused.load(), 20U);
  EXPECT_GE(StackCapture::not_taken(), refused_before + 20);
}

TEST_F(StackCaptureTest, ManyThreadsComeAndGo) {
  std::atomic<int> good{0};
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          good += StackCapture::table().Get(TakeDeep(i)).count > 1 ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(good.load(), 20 * 8 * 20);
}

void* TakeOnSmallStack(void* id) {
  *static_cast<uint32_t*>(id) = TakeDeep(3);
  return nullptr;
}

TEST_F(StackCaptureTest, FitsTheSmallestStackOfAThread) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 32768), 0);
  pthread_t thread;
  uint32_t id = 0;
  ASSERT_EQ(pthread_create(&thread, &attributes, TakeOnSmallStack, &id), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_GT(StackCapture::table().Get(id).count, 3U);
}

}  // namespace
}  // namespace stepagent::unwind
