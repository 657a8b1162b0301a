// NVTX calls of every kind on many threads while steps, requests and forks go on. Run under TSan.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/nvtx/nvtx_entry.h"

namespace stepagent::nvtx {
namespace {

using core::Gate;

void AttachOnce() {
  core::HostClock::Start();
  ASSERT_TRUE(core::MapPhaseWords());
  Gate().Configure({.max_cycles = 0});
  static const int attached =
      Attach(reinterpret_cast<void*>(&NVTX_VERSIONED_IDENTIFIER(nvtxGetExportTable)));
  ASSERT_EQ(attached, 1);
  SetStepMatch({StepMatch::Kind::kExact, "step"});
}

// One round of calls; false when a depth was wrong.
bool Calls(int round) {
  char text[32];
  std::snprintf(text, sizeof text, "range %d", round % 100);
  const nvtxDomainHandle_t domain = nvtxDomainCreateA(round % 2 == 0 ? "even" : "odd");
  bool good = nvtxRangePushA(text) == 0 && nvtxDomainRangePushEx(domain, nullptr) == 0;
  good = good && nvtxRangePushA(round % 5 == 0 ? "step" : "other") == 1;
  nvtxMarkA(text);
  const nvtxRangeId_t id = nvtxRangeStartA(text);
  good = good && nvtxRangePop() == 1 && nvtxDomainRangePop(domain) == 0 && nvtxRangePop() == 0;
  nvtxRangeEnd(id);
  return good;
}

TEST(NvtxStress, DepthsStayTrueWhatever) {
  AttachOnce();
  constexpr int kThreads = 4, kRounds = 3000;
  std::atomic<int> running{kThreads};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) wrong.fetch_add(Calls(i) ? 0 : 1);
      running.fetch_sub(1);
    });
  }
  for (uint32_t i = 0; running.load() != 0; ++i) {
    (void)Gate().Arm({.wait = 2, .warmup = 1, .active = 2, .repeat = 1}, core::HostClock::Ticks());
    Gate().TakeEvents([](const core::GateEvent&) {});
    core::RingRegistry::ForEach(
        [](core::ThreadRing* ring) { ring->ring.Consume(ring->ring.Peek().count); });
    core::RingRegistry::Reclaim();
    SetStepMatch({i % 2 == 0 ? StepMatch::Kind::kGlob : StepMatch::Kind::kExact, "step"});
    SeenRange top[4];
    (void)TopRanges(top, 4);
    if (Gate().snapshot().phase == core::Phase::kFinishing) Gate().SetTailPending(false);
    if (i > 5000) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(counters().unmatched_ends, 0U);
  EXPECT_EQ(counters().blocks_exhausted, 0U);
  Gate().Configure({});
}

#if !defined(__SANITIZE_THREAD__)  // TSan cannot follow threads made in a forked child
TEST(NvtxStress, ForksUnderLoadHangNowhere) {
  AttachOnce();
  ASSERT_EQ(Gate().ArmWhole(core::HostClock::Ticks()), core::StepGate::Verdict::kOk);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; !done.load(); ++i) (void)Calls(i);
    });
  }
  constexpr int kForks = 300;
  int good = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool ok = nvtxRangePushA("step") == 0 && nvtxRangePop() == 0;
      ok = ok && nvtxRangePushA(("new" + std::to_string(i)).c_str()) == 0 && nvtxRangePop() == 0;
      _exit(ok && core::g_words->bits.load() == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
    core::RingRegistry::ForEach(
        [](core::ThreadRing* ring) { ring->ring.Consume(ring->ring.Peek().count); });
  }
  EXPECT_EQ(good, kForks);
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  (void)Gate().Stop(core::Ended::kExit, true, core::HostClock::Ticks());
  Gate().Configure({});
}
#endif

}  // namespace
}  // namespace stepagent::nvtx
