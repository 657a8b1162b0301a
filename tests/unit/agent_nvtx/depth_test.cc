// Return values: the true zero-based depth, in every phase.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/agent_nvtx/nvtx_fixture.h"

namespace stepagent::nvtx {
namespace {

void CheckDepths() {
  EXPECT_EQ(nvtxRangePop(), -1);  // a pop of nothing changes nothing
  EXPECT_EQ(nvtxRangePushA("a"), 0);
  EXPECT_EQ(nvtxRangePushW(L"b"), 1);
  EXPECT_EQ(nvtxRangePushEx(nullptr), 2);
  EXPECT_EQ(nvtxRangePop(), 2);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePushA("c"), 1);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePop(), 0);
  EXPECT_EQ(nvtxRangePop(), -1);
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("depths");
  EXPECT_EQ(nvtxRangePushA("default"), 0);
  EXPECT_EQ(nvtxDomainRangePushEx(domain, nullptr), 0);
  EXPECT_EQ(nvtxDomainRangePushEx(nullptr, nullptr), 1);  // NULL is the default domain
  EXPECT_EQ(nvtxDomainRangePop(domain), 0);
  EXPECT_EQ(nvtxDomainRangePop(domain), -1);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxDomainRangePop(nullptr), 0);
}

TEST_F(NvtxTest, DepthsInEveryPhase) {
  CheckDepths();  // idle, no step source
  StepOn("step");
  CheckDepths();  // idle
  ASSERT_EQ(core::Gate().Arm({.wait = 1, .warmup = 1, .active = 1, .repeat = 1}, 1),
            core::StepGate::Verdict::kOk);
  CheckDepths();  // waiting, counting names
  for (const core::Phase phase :
       {core::Phase::kWaiting, core::Phase::kWarmup, core::Phase::kActive}) {
    EXPECT_EQ(nvtxRangePushA("step"), 0);
    EXPECT_EQ(core::Gate().snapshot().phase, phase);
    EXPECT_EQ(nvtxRangePushA("inner"), 1);
    EXPECT_EQ(nvtxRangePop(), 1);
    EXPECT_EQ(nvtxRangePop(), 0);
    CheckDepths();
  }
  EXPECT_EQ(core::Gate().snapshot().phase, core::Phase::kFinishing);
  CheckDepths();
  core::Gate().SetTailPending(false);
  EXPECT_EQ(core::Gate().snapshot().phase, core::Phase::kDone);
  CheckDepths();
}

TEST_F(NvtxTest, DepthsGoOnInAForkedChild) {
  EXPECT_EQ(nvtxRangePushA("outer"), 0);
  RecordAll();
  const pid_t child = fork();
  if (child == 0) {
    bool good = nvtxRangePushA("inner") == 1 && nvtxRangePop() == 1 && nvtxRangePop() == 0 &&
                nvtxRangePop() == -1;
    int pushed = -9;
    std::thread([&pushed] { pushed = nvtxRangePushA("t"); }).join();
    good = good && pushed == 0;
    _exit(good && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(nvtxRangePop(), 0);
}

TEST_F(NvtxTest, ManyDomainsOpenAtOnceSpill) {
  constexpr int kDomains = 40;
  nvtxDomainHandle_t domains[kDomains];
  for (int i = 0; i < kDomains; ++i) {
    domains[i] = nvtxDomainCreateA(("spill" + std::to_string(i)).c_str());
  }
  for (int level = 0; level < 3; ++level) {
    for (nvtxDomainHandle_t domain : domains)
      EXPECT_EQ(nvtxDomainRangePushEx(domain, nullptr), level);
  }
  for (int level = 2; level >= 0; --level) {
    for (int i = kDomains - 1; i >= 0; --i) EXPECT_EQ(nvtxDomainRangePop(domains[i]), level);
  }
  for (nvtxDomainHandle_t domain : domains) EXPECT_EQ(nvtxDomainRangePop(domain), -1);
}

TEST_F(NvtxTest, DomainsOneAfterAnotherNeedNoSpill) {
  std::thread([] {
    for (int i = 0; i < 10000; ++i) {
      const nvtxDomainHandle_t domain =
          nvtxDomainCreateA(("serial" + std::to_string(i % 500)).c_str());
      ASSERT_EQ(nvtxDomainRangePushEx(domain, nullptr), 0);
      ASSERT_EQ(nvtxDomainRangePop(domain), 0);
    }
  }).join();
  EXPECT_EQ(counters().blocks_exhausted, 0U);
}

TEST_F(NvtxTest, FiveHundredThreadsEachHaveTheirOwnDepth) {
  constexpr int kThreads = 512;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, kThreads);
  std::vector<std::thread> threads;
  std::vector<int> good(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      bool all = true;
      for (int depth = 0; depth <= t % 7; ++depth) all = all && nvtxRangePushA("deep") == depth;
      pthread_barrier_wait(&barrier);
      for (int depth = t % 7; depth >= 0; --depth) all = all && nvtxRangePop() == depth;
      good[t] = all && nvtxRangePop() == -1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_TRUE(good[t]) << t;
  EXPECT_EQ(counters().unmatched_ends, uint64_t{kThreads});
}

TEST_F(NvtxTest, BlocksOfDeadThreadsComeBackClean) {
  for (int i = 0; i < 20000; ++i) {  // more than there are blocks
    std::thread([] {
      ASSERT_EQ(nvtxRangePushA("left open"), 0);
      ASSERT_EQ(nvtxRangePushA("left open"), 1);
    }).join();
  }
  EXPECT_EQ(counters().blocks_exhausted, 0U);
}

pthread_key_t late_key;
int late_depth = -9;
void LateDestructor(void*) { late_depth = nvtxRangePushA("late"); }

TEST_F(NvtxTest, DestructorsOfOtherKeysStillSeeTheDepth) {
  pthread_key_create(&late_key, LateDestructor);
  std::thread([] {
    pthread_setspecific(late_key, &late_key);
    nvtxRangePushA("first");
  }).join();
  EXPECT_EQ(late_depth, 1);
  pthread_key_delete(late_key);
}

}  // namespace
}  // namespace stepagent::nvtx
