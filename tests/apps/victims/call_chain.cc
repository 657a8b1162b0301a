// call_chain: kernel launches from places that are known by name: what --stacks native must find.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <ucontext.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

namespace {

constexpr char kHelp[] =
    "call_chain [options]: steps (train_step) of one launch each, from known functions\n"
    "  --from WHERE    plain, deep, threads, signal or coroutine, default plain\n"
    "  --steps N       default 6\n"
    "  --depth N       calls below each other with deep, default 200\n"
    "  --threads N     launching at once with threads, default 4\n"
    "  --hold          after the steps, wait for the end of standard input\n";

enum From { kPlain, kDeep, kThreads, kSignal, kCoroutine };
constexpr const char* kFroms[] = {"plain", "deep", "threads", "signal", "coroutine", nullptr};

Device g_device;
CUdeviceptr g_memory;
uint64_t g_depth = 200, g_threads = 4;

}  // namespace

// Each function does something after its call, so that none becomes a jump.
extern "C" {
volatile int chain_calls = 0;

__attribute__((noinline)) void chain_leaf() {
  const CUdeviceptr pointers[4] = {g_memory, g_memory, g_memory, g_memory};
  DeviceLaunch(&g_device, nullptr, kKernelForwardRelu, pointers, 0, 256);
  chain_calls = chain_calls + 1;
}
}

namespace chain {

inline __attribute__((always_inline)) void Inlined(int times) {
  for (int i = 0; i < times; ++i) chain_leaf();
  chain_calls = chain_calls + 1;
}

template <typename Number>
__attribute__((noinline)) void Middle(Number times) {
  Inlined(static_cast<int>(times));
  chain_calls = chain_calls + 1;
}

__attribute__((noinline)) void Outer() {
  Middle<long>(1);
  chain_calls = chain_calls + 1;
}

__attribute__((noinline)) int Recurse(uint64_t depth) {
  if (depth == 0) {
    Outer();
  } else {
    Recurse(depth - 1);
  }
  chain_calls = chain_calls + 1;
  return chain_calls;
}

__attribute__((noinline)) void OnSignal(int) {
  Outer();
  chain_calls = chain_calls + 1;
}

void* ThreadBody(void* barrier) {
  DeviceBind(&g_device);
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(barrier));
  Outer();
  return nullptr;
}

// Stacks of the least size that threads are given in practice.
void InThreads() {
  pthread_barrier_t barrier;
  pthread_attr_t attributes;
  pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(g_threads));
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  std::vector<pthread_t> threads(g_threads);
  for (pthread_t& thread : threads) {
    Require(pthread_create(&thread, &attributes, ThreadBody, &barrier) == 0, "pthread_create");
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_barrier_destroy(&barrier);
}

void CoroutineBody() {
  Outer();
  chain_calls = chain_calls + 1;
}

// A stack that no thread was made with, below nothing.
void InCoroutine() {
  static char stack[65536];
  static ucontext_t here, there;
  Require(getcontext(&there) == 0, "getcontext");
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = sizeof stack;
  there.uc_link = &here;
  makecontext(&there, CoroutineBody, 0);
  Require(swapcontext(&here, &there) == 0, "swapcontext");
}

void Step(int from) {
  switch (from) {
    case kDeep:
      Recurse(g_depth);
      break;
    case kThreads:
      InThreads();
      break;
    case kSignal:
      raise(SIGUSR1);
      break;
    case kCoroutine:
      InCoroutine();
      break;
    default:
      Outer();
  }
}

}  // namespace chain

int main(int argc, char** argv) {
  int from = kPlain;
  uint64_t steps = 6;
  bool holds = false;
  const OptionSpec options[] = {
      {"from", kOptionChoice, &from, 0, 0, kFroms},
      {"steps", kOptionNumber, &steps, 0, 1e8, nullptr},
      {"depth", kOptionNumber, &g_depth, 0, 100000, nullptr},
      {"threads", kOptionNumber, &g_threads, 1, 1000, nullptr},
      {"hold", kOptionFlag, &holds, 0, 0, nullptr},
      {nullptr, kOptionFlag, nullptr, 0, 0, nullptr},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  char reason[160];
  if (!DeviceOpen(&g_device, 0, 0, reason, sizeof reason)) {
    return std::printf("call_chain: %s\n", reason), 77;
  }
  g_memory = DeviceAllocate(&g_device, 4096);
  std::signal(SIGUSR1, chain::OnSignal);
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    chain::Step(from);
    CU(&g_device.driver, cuStreamSynchronize, (nullptr));
    nvtxRangePop();
  }
  while (holds && std::getchar() != EOF) {
  }
  DeviceClose(&g_device);
  std::printf("call_chain: %llu steps, %d calls\n", static_cast<unsigned long long>(steps),
              chain_calls);
  return 0;
}
