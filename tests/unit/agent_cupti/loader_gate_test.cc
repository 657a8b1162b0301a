#include "agent/guard/loader_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace stepagent::guard {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(LoaderGate, OneAtATime) {
  std::atomic<int> inside{0};
  std::atomic<int> worst{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        LoaderGate::Scope gate(10'000 * kMs);
        ASSERT_TRUE(static_cast<bool>(gate));
        const int now = inside.fetch_add(1) + 1;
        if (now > worst.load()) worst.store(now);
        inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worst.load(), 1);
}

TEST(LoaderGate, GivesUpInTime) {
  ASSERT_TRUE(LoaderGate::AcquireFor(0));
  std::thread([] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(LoaderGate::AcquireFor(100 * kMs));
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(took, std::chrono::milliseconds(100));
    LoaderGate::Release();  // not the owner: nothing happens
    EXPECT_FALSE(LoaderGate::AcquireFor(0));
  }).join();
  LoaderGate::Release();
  EXPECT_TRUE(LoaderGate::AcquireFor(0));
  LoaderGate::Release();
}

TEST(LoaderGate, TheOwnerIsNotMadeToWaitForItself) {
  LoaderGate::Scope gate(kMs);
  ASSERT_TRUE(static_cast<bool>(gate));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(LoaderGate::AcquireFor(10'000 * kMs));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(LoaderGate, AChildStartsWithItOpen) {
  LoaderGate::Scope gate(kMs);
  ASSERT_TRUE(static_cast<bool>(gate));
  const pid_t child = fork();
  if (child == 0) {
    LoaderGate::Reset();
    LoaderGate::Release();
    _exit(LoaderGate::AcquireFor(0) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stepagent::guard
