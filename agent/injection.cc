// The core's entry points, called by the stub. Shims only: nothing thrown passes them.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "agent/agent.h"
#include "agent/core/phase_words.h"
#include "agent/guard/fork.h"
#include "agent/nvtx/nvtx_entry.h"

namespace {

using stepagent::agent::Agent;

// The one pointer to the agent. Leaked on purpose: threads and callbacks may outlive main.
std::atomic<Agent*> g_agent{nullptr};
std::atomic<uint32_t> g_starting{0};
std::atomic<stepagent_stub*> g_stub{nullptr};

// A thread that finds another one starting waits this long at most: it may hold a lock that the
// other needs, and then must go on without us rather than hang.
constexpr uint64_t kStartWaitNs = 1'000'000'000;

void AtExit() noexcept {
  try {
    Agent* agent = g_agent.load(std::memory_order_acquire);
    if (agent != nullptr && !stepagent::guard::IsForkedChild()) agent->OnExit();
  } catch (...) {
  }
}

void Revive() noexcept;

Agent* StartNow() {
  static bool registered = false;
  if (!registered) {
    registered = true;
    (void)stepagent::guard::RegisterForkHandlers();
    std::atexit([] { AtExit(); });
    at_quick_exit([] { AtExit(); });
    stepagent::nvtx::SetReviveHook([] { Revive(); });
  }
  Agent* agent = Agent::Create(g_stub.load(), environ);
  g_agent.store(agent, std::memory_order_release);
  return agent;
}

// The process's agent, made by whoever comes first.
Agent* Get(stepagent_stub* stub) {
  if (stub != nullptr && stub->size != sizeof(stepagent_stub)) return nullptr;
  if (stub != nullptr) g_stub.store(stub);
  Agent* agent = g_agent.load(std::memory_order_acquire);
  if (agent != nullptr && !stepagent::guard::IsForkedChild()) return agent;
  if (g_starting.exchange(1, std::memory_order_acq_rel) == 0) {
    if (stepagent::guard::IsForkedChild()) {
      stepagent::guard::Revived();
      Agent::ForgetParent();
    }
    agent = StartNow();
    g_starting.store(2, std::memory_order_release);
    stepagent::core::BumpAndWake(&g_starting);
    g_starting.store(0, std::memory_order_release);
    return agent;
  }
  stepagent::core::FutexWait(&g_starting, 1, kStartWaitNs);
  return g_agent.load(std::memory_order_acquire);
}

// A forked child that matches the step range becomes a session of its own.
void Revive() noexcept {
  try {
    if (stepagent::guard::IsForkedChild()) (void)Get(g_stub.load());
  } catch (...) {
  }
}

}  // namespace

#define STEPAGENT_CORE_EXPORT extern "C" __attribute__((visibility("default")))

STEPAGENT_CORE_EXPORT int stepagent_core_cuda(stepagent_stub* stub) noexcept {
  try {
    Agent* agent = Get(stub);
    if (agent != nullptr) agent->OnCuda();
  } catch (...) {
  }
  return 1;
}

STEPAGENT_CORE_EXPORT int stepagent_core_nvtx(stepagent_stub* stub, void* table) noexcept {
  try {
    Agent* agent = Get(stub);
    return agent == nullptr ? 0 : agent->OnNvtx(table);
  } catch (...) {
    return 0;
  }
}

STEPAGENT_CORE_EXPORT void stepagent_core_profiler(stepagent_stub* stub, int start) noexcept {
  try {
    Agent* agent = Get(stub);
    if (agent != nullptr) agent->OnProfiler(start != 0);
  } catch (...) {
  }
}

// Late entry: CUDA and NVTX may be up already, or never come.
STEPAGENT_CORE_EXPORT int stepagent_core_attach(stepagent_stub* stub) noexcept {
  try {
    Agent* agent = Get(stub);
    return agent != nullptr && !agent->IsInert() ? 1 : 0;
  } catch (...) {
    return 0;
  }
}
