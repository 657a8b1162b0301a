#include "agent/guard/fork.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "agent/guard/loader_gate.h"

namespace stepagent::guard {
namespace {

constexpr uint64_t kPrepareWaitNs = 100'000'000;

std::atomic<bool> g_is_child{false};
// Written and read by the forking thread alone; forks of other threads are serialised by libc.
bool g_holds_gate = false;

void Prepare() { g_holds_gate = LoaderGate::AcquireFor(kPrepareWaitNs); }
void Parent() {
  if (g_holds_gate) LoaderGate::Release();
  g_holds_gate = false;
}
void Child() {
  LoaderGate::Reset();
  g_holds_gate = false;
  g_is_child.store(true, std::memory_order_relaxed);
}

}  // namespace

bool RegisterForkHandlers() noexcept {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return true;
  return pthread_atfork(Prepare, Parent, Child) == 0;
}

bool IsForkedChild() noexcept { return g_is_child.load(std::memory_order_relaxed); }
void Revived() noexcept { g_is_child.store(false, std::memory_order_relaxed); }

}  // namespace stepagent::guard
