#include "agent/guard/loader_gate.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace stepagent::guard {
namespace {

constexpr int kSpins = 200;
constexpr long kNapNs = 50'000;

// The owner's thread id, 0 when open.
constinit std::atomic<uint32_t> g_owner{0};

uint32_t Self() noexcept { return static_cast<uint32_t>(syscall(SYS_gettid)); }

uint64_t NowNs() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

bool Try(uint32_t self) noexcept {
  uint32_t open = 0;
  // acquire pairs with the release in Release.
  return g_owner.compare_exchange_strong(open, self, std::memory_order_acquire,
                                         std::memory_order_relaxed);
}

}  // namespace

bool LoaderGate::AcquireFor(uint64_t ns) noexcept {
  const uint32_t self = Self();
  // A library that forks inside its own constructor, while we load it: its child must not wait for
  // the thread that it is.
  if (g_owner.load(std::memory_order_relaxed) == self) return false;
  for (int i = 0; i < kSpins; ++i) {
    if (Try(self)) return true;
  }
  const uint64_t begin = NowNs();
  while (!Try(self)) {
    if (NowNs() - begin >= ns) return false;
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
  }
  return true;
}

void LoaderGate::Release() noexcept {
  uint32_t self = Self();
  // After Reset in a child there is nothing of ours to open.
  g_owner.compare_exchange_strong(self, 0, std::memory_order_release, std::memory_order_relaxed);
}

void LoaderGate::Reset() noexcept { g_owner.store(0, std::memory_order_relaxed); }

}  // namespace stepagent::guard
