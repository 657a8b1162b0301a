#include "agent/unwind/frame_chain.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <ucontext.h>

#include <thread>
#include <vector>

#include "agent/unwind/unwinder.h"

namespace stepagent::unwind {
namespace {

using Frames = std::vector<uintptr_t>;
using Result = FrameChain::Result;

struct Both {
  Result result = Result::kUnknown;
  Frames chain, library;
};

constexpr uint32_t kMost = 400;

// Both walks, from this function's caller on: where this one itself was is not the same place.
[[gnu::noinline]] Both WalkBoth(bool may_learn) {
  Both both;
  Frames frames(kMost);
  uint32_t count = 0;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  both.result = FrameChain::Walk(here, frames.data(), kMost, &count);
  if (both.result == Result::kUnknown && may_learn) {
    FrameChain::Learn();
    both.result = FrameChain::Walk(here, frames.data(), kMost, &count);
  }
  if (both.result == Result::kWhole) both.chain.assign(frames.begin(), frames.begin() + count);
  count = Unwinder::Walk(frames.data(), kMost);
  const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint32_t first = 0;
  while (first < count && frames[first] != caller) ++first;
  both.library.assign(frames.begin() + first, frames.begin() + count);
  return both;
}

[[gnu::noinline]] Both Deep(int depth) {
  Both both = depth == 0 ? WalkBoth(/*may_learn=*/true) : Deep(depth - 1);
  EXPECT_FALSE(both.library.empty());
  return both;
}

// The frame pointer holds something else here, and no function above is hurt by it.
[[gnu::noinline, gnu::optimize("omit-frame-pointer")]] Both ThroughAFunctionWithout(int depth) {
  Both both = Deep(depth);
  asm volatile("" : : : "rbx", "r12", "r13", "r14", "r15", "memory");
  return both;
}

class FrameChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "frame chains are walked on x86-64 only";
#endif
    ASSERT_EQ(Unwinder::Load(), "");
  }
};

void ExpectSame(const Both& both) {
  ASSERT_EQ(both.result, Result::kWhole);
  EXPECT_EQ(both.chain, both.library);
}

// gtest's library keeps no frame pointers, so that a whole chain begins in a thread of our own.
template <typename F>
void InThread(F&& body) {
  std::thread thread(body);
  thread.join();
}
struct PlainThread {
  int depth;
  Both both;
};
void* PlainBody(void* argument) {
  auto* thread = static_cast<PlainThread*>(argument);
  thread->both = Deep(thread->depth);
  return nullptr;
}
Both FromPlainThread(int depth) {
  PlainThread argument{depth, {}};
  pthread_t thread;
  EXPECT_EQ(pthread_create(&thread, nullptr, PlainBody, &argument), 0);
  pthread_join(thread, nullptr);
  return argument.both;
}

TEST_F(FrameChainTest, IsWhatLibunwindSays) {
  for (const int depth : {0, 1, 5, 20, 60, 300}) {
    SCOPED_TRACE(depth);
    const Both both = FromPlainThread(depth);
    ExpectSame(both);
    EXPECT_GT(both.chain.size(), static_cast<size_t>(depth));
  }
}

TEST_F(FrameChainTest, StopsAtAFunctionThatKeepsNone) {
  // Called through gtest's library and through a function built without.
  const Both both = ThroughAFunctionWithout(3);
  EXPECT_EQ(both.result, Result::kNotKept);
  EXPECT_GT(both.library.size(), 4U);
}

TEST_F(FrameChainTest, KnowsNothingAfterForget) {
  ExpectSame(FromPlainThread(5));
  FrameChain::Forget();
  InThread([] {
    const Both both = WalkBoth(/*may_learn=*/false);
    EXPECT_EQ(both.result, Result::kUnknown);
  });
  ExpectSame(FromPlainThread(5));  // learned anew
}

ucontext_t g_here, g_there;
Both g_in_coroutine;
void CoroutineBody() { g_in_coroutine = Deep(4); }

// A stack that is not the thread's: whatever answer there is, it is libunwind's.
TEST_F(FrameChainTest, OnAForeignStack) {
  static char stack[262144];
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(getcontext(&g_there), 0);
    g_there.uc_stack.ss_sp = stack;
    g_there.uc_stack.ss_size = sizeof stack;
    g_there.uc_link = &g_here;
    makecontext(&g_there, CoroutineBody, 0);
    ASSERT_EQ(swapcontext(&g_here, &g_there), 0);
    EXPECT_FALSE(g_in_coroutine.library.empty());
    if (g_in_coroutine.result == Result::kWhole) {
      EXPECT_EQ(g_in_coroutine.chain, g_in_coroutine.library);
    }
  }
}

TEST_F(FrameChainTest, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 30; ++i) ExpectSame(FromPlainThread(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace stepagent::unwind
