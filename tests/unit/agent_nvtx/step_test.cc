// Which ranges are steps.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/unit/agent_nvtx/nvtx_fixture.h"

namespace stepagent::nvtx {
namespace {

using core::RecordKind;

TEST_F(NvtxTest, EveryStringKindMatchesByText) {
  StepOn("stép");
  const nvtxDomainHandle_t other = nvtxDomainCreateA("other");
  const nvtxEventAttributes_t events[] = {Ascii("stép"), Wide(L"stép"),
                                          Registered(nvtxDomainRegisterStringA(nullptr, "stép")),
                                          Registered(nvtxDomainRegisterStringW(other, L"stép"))};
  uint64_t steps = 0;
  const auto expect_step = [&steps] { EXPECT_EQ(StepsCounted(), ++steps); };
  nvtxRangePushA("stép"), expect_step(), nvtxRangePop();
  nvtxRangePushW(L"stép"), expect_step(), nvtxRangePop();
  for (const nvtxEventAttributes_t& event : events) {
    nvtxRangePushEx(&event), expect_step(), nvtxRangePop();
    nvtxDomainRangePushEx(nullptr, &event), expect_step(), nvtxDomainRangePop(nullptr);
    const nvtxRangeId_t id = nvtxRangeStartEx(&event);
    expect_step(), nvtxRangeEnd(id);
  }
  nvtxRangeEnd(nvtxRangeStartA("stép")), expect_step();
  nvtxRangeEnd(nvtxRangeStartW(L"stép")), expect_step();
}

TEST_F(NvtxTest, OnlyTheWholeNameMatches) {
  StepOn("step");
  for (const char* name : {"steps", "ste", "", "Step", "xstep", " step"}) {
    nvtxRangePushA(name);
    nvtxRangePop();
  }
  nvtxRangePushW(L"steps"), nvtxRangePop();
  nvtxRangePushW(L"ste"), nvtxRangePop();
  nvtxRangePushA(nullptr), nvtxRangePop();
  nvtxRangePushW(nullptr), nvtxRangePop();
  nvtxMarkA("step");
  EXPECT_EQ(StepsCounted(), 0U);
}

TEST_F(NvtxTest, OnlyTheConfiguredDomainAdvances) {
  const nvtxDomainHandle_t mine = nvtxDomainCreateA("mine"), other = nvtxDomainCreateA("other");
  const nvtxDomainHandle_t empty = nvtxDomainCreateA("");
  const nvtxEventAttributes_t event = Ascii("step");
  const auto push_everywhere = [&] {
    for (nvtxDomainHandle_t domain : {mine, other, empty, nvtxDomainHandle_t{nullptr}}) {
      nvtxDomainRangePushEx(domain, &event);
      nvtxDomainRangePop(domain);
    }
  };
  StepOn("step", "mine");
  push_everywhere();
  EXPECT_EQ(StepsCounted(), 1U);
  StepOn("step");  // the default domain, which an empty name is not
  push_everywhere();
  EXPECT_EQ(StepsCounted(), 2U);
  StepOn("step", "", /*any=*/true);
  push_everywhere();
  EXPECT_EQ(StepsCounted(), 6U);
}

TEST_F(NvtxTest, GlobMatchesEveryKind) {
  SetStepMatch({Match::kGlob, "ProfilerStep#*"});
  nvtxRangePushA("ProfilerStep#1"), nvtxRangePop();
  nvtxRangePushW(L"ProfilerStep#2"), nvtxRangePop();
  const auto event = Registered(nvtxDomainRegisterStringA(nullptr, "ProfilerStep#3"));
  for (int i = 0; i < 3; ++i) nvtxRangePushEx(&event), nvtxRangePop();  // memo
  nvtxRangePushA("Profiler"), nvtxRangePop();
  EXPECT_EQ(StepsCounted(), 5U);
  SetStepMatch({Match::kGlob, "*2"});  // memos of the other pattern do not count
  nvtxRangePushEx(&event), nvtxRangePop();
  RecordAll();
  nvtxRangePushA("x2"), nvtxRangePop();
  nvtxRangePushA("x2"), nvtxRangePop();
  EXPECT_EQ(StepsCounted(), 7U);
}

TEST_F(NvtxTest, NestedSameNameCountsOnce) {
  StepOn("step");
  nvtxRangePushA("step");
  nvtxRangePushA("micro");
  nvtxRangePushA("step");
  nvtxRangePop();
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  nvtxRangePop();
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  nvtxRangePop();
  EXPECT_FALSE(core::Gate().snapshot().step_open);
  EXPECT_EQ(StepsCounted(), 1U);
  EXPECT_EQ(core::Gate().snapshot().overlapping, 0U);
}

TEST_F(NvtxTest, AMatchOnAnotherThreadIsAnOrdinaryRange) {
  StepOn("step");
  ArmActive(1);
  nvtxRangePushA("step");
  std::thread([] {
    nvtxRangePushA("step");
    nvtxRangePop();
  }).join();
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  nvtxRangePop();
  EXPECT_EQ(StepsCounted(), 1U);
  EXPECT_EQ(core::Gate().snapshot().overlapping, 1U);
  EXPECT_EQ(Take().size(), 4U);
}

TEST_F(NvtxTest, ThePopOfItsOwnDepthEndsTheStep) {
  StepOn("step");
  nvtxRangePushA("outer");
  nvtxRangePushA("step");
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("bystander");
  nvtxDomainRangePushEx(domain, nullptr);
  nvtxDomainRangePushEx(domain, nullptr);
  nvtxDomainRangePop(domain);  // depth 1 of another domain
  nvtxDomainRangePop(domain);
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  nvtxRangePop();
  EXPECT_FALSE(core::Gate().snapshot().step_open);
  nvtxRangePop();
}

TEST_F(NvtxTest, AStrayPopEndsTheStepEarlyOnceAndIsReported) {
  StepOn("step");
  ArmActive(1, 0);
  for (int i = 0; i < 2; ++i) {
    nvtxRangePushA("step");
    EXPECT_EQ(nvtxRangePop(), 0);   // stray: the step's range is what it ends
    EXPECT_EQ(nvtxRangePop(), -1);  // the application's own
  }
  EXPECT_EQ(StepsCounted(), 2U);
  EXPECT_EQ(counters().unmatched_ends, 2U);
  std::thread([] { EXPECT_EQ(nvtxRangePop(), -1); }).join();  // B pops what A pushed: nothing
}

TEST_F(NvtxTest, AStepByIdEndsWithItsId) {
  StepOn("step");
  const nvtxRangeId_t other = nvtxRangeStartA("other");
  const nvtxRangeId_t step = nvtxRangeStartA("step");
  const nvtxRangeId_t twin = nvtxRangeStartA("step");
  nvtxRangeEnd(other);
  nvtxRangeEnd(twin);
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  std::thread([step] { nvtxRangeEnd(step); }).join();
  EXPECT_FALSE(core::Gate().snapshot().step_open);
  EXPECT_EQ(StepsCounted(), 1U);
}

TEST_F(NvtxTest, TheStepsOwnRangeLiesInItsWindow) {
  StepOn("step");
  ArmActive(2);
  for (int i = 0; i < 3; ++i) {
    nvtxRangePushA("step");
    nvtxRangePushA("inner");
    nvtxRangePop();
    nvtxRangePop();
  }
  std::vector<core::GateEvent> events;
  core::Gate().TakeEvents([&events](const core::GateEvent& e) { events.push_back(e); });
  ASSERT_EQ(events.size(), 7U);
  const uint64_t begin = events[1].ticks, end = events.back().ticks;
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 8U);
  for (const Seen& record : seen) {
    EXPECT_GE(record.ticks, begin);
    EXPECT_LT(record.ticks, end);
  }
  EXPECT_EQ(seen[0].text, "step");
  EXPECT_GE(seen[0].ticks, events[2].ticks);
  EXPECT_LT(seen[3].ticks, events[3].ticks);  // its pop before the step's end
}

TEST_F(NvtxTest, AThreadThatEndsInItsStepEndsTheStep) {
  StepOn("step");
  std::thread([] { nvtxRangePushA("step"); }).join();
  EXPECT_FALSE(core::Gate().snapshot().step_open);
  nvtxRangePushA("step");
  EXPECT_EQ(StepsCounted(), 2U);
  nvtxRangePop();
}

TEST_F(NvtxTest, InterleavedNamesAdvanceOnlyTheConfiguredOne) {
  StepOn("train_step");
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int i = 0; i < 4; ++i) nvtxRangePushA("train_step"), nvtxRangePop();
    for (int i = 0; i < 2; ++i) nvtxRangePushA("val_step"), nvtxRangePop();
  }
  EXPECT_EQ(StepsCounted(), 12U);
}

TEST_F(NvtxTest, TheMatchMayChange) {
  StepOn("one");
  nvtxRangePushA("one"), nvtxRangePop();
  nvtxRangePushA("two"), nvtxRangePop();
  StepOn("two");
  nvtxRangePushA("one"), nvtxRangePop();
  nvtxRangePushA("two"), nvtxRangePop();
  EXPECT_EQ(StepsCounted(), 2U);
  SetStepMatch({});
  EXPECT_EQ(core::g_words->bits.load() & core::kBitStepSource, 0U);
  nvtxRangePushA("two"), nvtxRangePop();
  EXPECT_EQ(StepsCounted(), 2U);
}

// --- fork ---

int revived = 0;
void Revive() {
  ++revived;
  ForgetAll();
  core::RingRegistry::ForgetAll();
  if (!core::MapPhaseWords()) return;
  core::Gate().Configure({});
  SetStepMatch({Match::kExact, "step"});
  (void)core::Gate().Arm({.active = 1, .repeat = 0}, core::HostClock::Ticks());
}

TEST_F(NvtxTest, AForkedChildIsInertUntilItsStepRevivesIt) {
  StepOn("step");
  ArmActive(1, 0);
  nvtxRangePushA("step");  // the parent is in a step, and recording
  SetReviveHook(Revive);
  const pid_t child = fork();
  if (child == 0) {
    revived = 0;
    nvtxMarkA("mark");
    nvtxRangePushA("other");
    nvtxRangePop();
    bool good = revived == 0 && core::RingRegistry::no_ring().nvtx == 0;
    good = good && nvtxRangePop() == 0;  // the parent's step: not ours to end
    good = good && revived == 0;
    nvtxRangePushA("step");
    good = good && revived == 1 && StepsCounted() == 1;
    good = good && nvtxRangePop() == 0;
    nvtxRangePushW(L"step");
    good = good && revived == 1 && StepsCounted() == 2;
    const auto seen = Take();
    good = good && seen.size() == 3 && seen[0].text == "step";
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(core::Gate().snapshot().step_open);
  nvtxRangePop();
}

TEST_F(NvtxTest, AStepNestedInTheParentsStepRevivesToo) {
  StepOn("step");
  nvtxRangePushA("step");
  SetReviveHook(Revive);
  const pid_t child = fork();
  if (child == 0) {
    nvtxRangeId_t id = nvtxRangeStartA("step");
    bool good = revived == 1 && StepsCounted() == 1;
    nvtxRangeEnd(id);
    nvtxRangePushA("step");
    good = good && StepsCounted() == 2 && nvtxRangePop() == 1 && nvtxRangePop() == 0;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  nvtxRangePop();
}

TEST_F(NvtxTest, WithoutAHookAChildStaysInert) {
  StepOn("step");
  ArmActive(1, 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; ++i) {
      if (nvtxRangePushA("step") != 0 || nvtxRangePop() != 0) _exit(1);
    }
    _exit(core::g_words->alive.load() == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepagent::nvtx
