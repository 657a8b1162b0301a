#include "agent/core/ring_registry.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "agent/core/phase_words.h"

namespace stepagent::core {
namespace {

void AppendMark(uint64_t value) {
  Append(RecordKind::kMark, CallClass::kOther,
         [value](Record* record) { record->begin_ticks = value; });
}

// Takes everything; returns records per ring index.
std::map<uint32_t, uint64_t> DrainAll() {
  std::map<uint32_t, uint64_t> taken;
  RingRegistry::ForEach([&taken](ThreadRing* ring) {
    for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
      taken[ring->index] += span.count;
      ring->ring.Consume(span.count);
    }
  });
  return taken;
}

class RingRegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MapPhaseWords());
    DrainAll();
    RingRegistry::Reclaim();
  }
};

TEST(SpscRing, DropsTheNewestWhenFullAndCounts) {
  auto memory = std::make_unique<int[]>(8);
  SpscRing<int> ring;
  ring.Init(memory.get(), 8);
  for (int i = 0; i < 11; ++i) {
    int* slot = ring.Reserve();
    if (i >= 8) {
      EXPECT_EQ(slot, nullptr);
      continue;
    }
    *slot = i;
    ring.Publish();
  }
  EXPECT_EQ(ring.dropped(), 3U);
  EXPECT_EQ(ring.produced(), 11U);
  auto span = ring.Peek();
  ASSERT_EQ(span.count, 8U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(span.items[i], i);
  ring.Consume(5);
  for (int i = 0; i < 5; ++i) {
    *ring.Reserve() = 100 + i;
    ring.Publish();
  }
  EXPECT_EQ(ring.Peek().count, 3U);  // up to the edge
  ring.Consume(3);
  EXPECT_EQ(ring.Peek().count, 5U);
  EXPECT_EQ(ring.Peek().items[4], 104);
}

TEST(SpscRing, GoesOnInLargerMemoryWithoutALossAndInOrder) {
  auto small = std::make_unique<int[]>(8), large = std::make_unique<int[]>(32);
  SpscRing<int> ring;
  ring.Init(small.get(), 8);
  int next = 0, seen = 0;
  const auto push = [&] {
    int* slot = ring.TryReserve();
    if (slot == nullptr) return false;
    *slot = next++;
    ring.Publish();
    return true;
  };
  const auto take = [&] {
    const auto span = ring.Peek();
    for (uint32_t i = 0; i < span.count; ++i) EXPECT_EQ(span.items[i], seen++);
    ring.Consume(span.count);
    return span.count;
  };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(push());
  EXPECT_EQ(take(), 5U);
  while (push()) {
  }
  EXPECT_EQ(next, 13);  // full, its items on both sides of the edge
  ring.Grow(large.get(), 32);
  EXPECT_TRUE(ring.has_grown());
  while (push()) {
  }
  EXPECT_EQ(ring.waiting(), 32U);
  EXPECT_EQ(ring.dropped(), 0U);
  for (int round = 0; round < 4 && seen < next; ++round) (void)take();
  EXPECT_EQ(seen, next);  // within the rounds of a drain
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(push());
    EXPECT_EQ(take(), 1U);
  }
  ring.Reset();
  EXPECT_FALSE(ring.has_grown());
}

// In children, since the key is made once a process; one thread making it would cost the other's
// first record in some of a hundred.
TEST_F(RingRegistryTest, ThreadsThatBeginTogetherBothHaveARing) {
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!MapPhaseWords()) _exit(100);
      RingRegistry::Prepare();
      std::atomic<int> ready{0}, without{0};
      const auto begin = [&] {
        ready.fetch_add(1);
        while (ready.load() < 2) {
        }
        if (RingRegistry::Local() == nullptr) without.fetch_add(1);
      };
      std::thread other(begin);
      begin();
      other.join();
      _exit(without.load());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << "child " << i;
  }
}

TEST_F(RingRegistryTest, AFullRingGrowsOnceAndIsGivenBack) {
  const RingRegistry::Totals before = RingRegistry::totals();
  const size_t bytes = RingRegistry::bytes();
  constexpr uint32_t kMade = 3 * kRingSlots;
  std::thread([] {
    for (uint32_t i = 0; i < kMade; ++i) AppendMark(i);
  }).join();
  EXPECT_EQ(RingRegistry::totals().dropped_nvtx, before.dropped_nvtx);
  EXPECT_EQ(RingRegistry::bytes(), bytes + (kRingSlots + kGrownRingSlots) * sizeof(Record));
  uint64_t taken = 0;
  for (const auto& [index, count] : DrainAll()) taken += count;
  EXPECT_EQ(taken, kMade);
  RingRegistry::Reclaim();
  EXPECT_EQ(RingRegistry::bytes(), bytes);
}

TEST_F(RingRegistryTest, GivesAThreadItsOwnRingAndCountsByKind) {
  const RingRegistry::Totals before = RingRegistry::totals();
  std::thread([] {
    AppendMark(1);
    Append(RecordKind::kCall, CallClass::kLaunch, [](Record*) {});
    Append(RecordKind::kCall, CallClass::kMemcpy, [](Record*) {});
    Append(RecordKind::kCall, CallClass::kSync, [](Record*) {});
    Append(RecordKind::kCall, CallClass::kAlloc, [](Record*) {});
  }).join();
  const RingRegistry::Totals after = RingRegistry::totals();
  EXPECT_EQ(after.produced_nvtx - before.produced_nvtx, 1U);
  EXPECT_EQ(after.produced_launch - before.produced_launch, 2U);
  EXPECT_EQ(after.produced_sync - before.produced_sync, 1U);
  EXPECT_EQ(after.produced_memory - before.produced_memory, 1U);
  EXPECT_EQ(DrainAll().size(), 1U);
  RingRegistry::Reclaim();
  EXPECT_EQ(RingRegistry::totals().produced_nvtx, after.produced_nvtx);  // never goes back
}

TEST_F(RingRegistryTest, ReclaimsOnlyEmptyRingsOfDeadThreads) {
  const size_t bytes = RingRegistry::bytes();
  std::thread([] { AppendMark(1); }).join();
  EXPECT_EQ(RingRegistry::bytes(), bytes + kRingSlots * sizeof(Record));
  RingRegistry::Reclaim();
  EXPECT_GT(RingRegistry::bytes(), bytes);  // its record has not been taken
  DrainAll();
  RingRegistry::Reclaim();
  EXPECT_EQ(RingRegistry::bytes(), bytes);
}

TEST_F(RingRegistryTest, FullRingDropsAndBalances) {
  RingRegistry::SetGrownBytes(0);
  const RingRegistry::Totals before = RingRegistry::totals();
  std::thread([] {
    for (uint32_t i = 0; i < kRingSlots + 100; ++i) AppendMark(i);
  }).join();
  const RingRegistry::Totals after = RingRegistry::totals();
  EXPECT_EQ(after.produced_nvtx - before.produced_nvtx, kRingSlots + 100U);
  EXPECT_EQ(after.dropped_nvtx - before.dropped_nvtx, 100U);
  uint64_t taken = 0;
  for (const auto& [index, count] : DrainAll()) taken += count;
  EXPECT_EQ(taken, kRingSlots);
  RingRegistry::SetGrownBytes(kDefaultGrownBytes);
}

TEST_F(RingRegistryTest, FiveThousandThreadsStayInBounds) {
  const RingRegistry::Totals before = RingRegistry::totals();
  std::set<uint32_t> indices;
  constexpr int kBatches = 500, kThreads = 10;
  for (int batch = 0; batch < kBatches; ++batch) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back([] { AppendMark(7); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& [index, count] : DrainAll()) {
      EXPECT_TRUE(indices.insert(index).second) << "a wire index came twice";
      EXPECT_EQ(count, 1U);
    }
    RingRegistry::Reclaim();
    EXPECT_LE(RingRegistry::bytes(), 2 * kThreads * kRingSlots * sizeof(Record));
  }
  EXPECT_EQ(RingRegistry::totals().produced_nvtx - before.produced_nvtx,
            uint64_t{kBatches} * kThreads);
}

TEST_F(RingRegistryTest, BeyondTheCapRecordsAreCounted) {
  const RingRegistry::NoRing before = RingRegistry::no_ring();
  constexpr int kFits = kMaxRingBytes / (kRingSlots * sizeof(Record));
  constexpr int kThreads = kFits + 20;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&barrier] {
      AppendMark(1);
      pthread_barrier_wait(&barrier);  // all alive at once
    });
  }
  for (std::thread& thread : threads) thread.join();
  const RingRegistry::NoRing after = RingRegistry::no_ring();
  EXPECT_GE(after.nvtx - before.nvtx, 20U);
  EXPECT_LE(after.nvtx - before.nvtx, 25U);  // this test's own thread has a ring too
  EXPECT_LE(RingRegistry::bytes(), kMaxRingBytes);
  DrainAll();
  RingRegistry::Reclaim();
}

pthread_key_t late_key;
void LateDestructor(void*) { AppendMark(99); }

TEST_F(RingRegistryTest, DestructorsOfOtherKeysMayAppend) {
  pthread_key_create(&late_key, LateDestructor);  // after ours: its destructor may run after ours
  std::thread([] {
    pthread_setspecific(late_key, &late_key);
    AppendMark(1);
  }).join();
  const auto taken = DrainAll();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken.begin()->second, 2U);
  const size_t bytes = RingRegistry::bytes();
  RingRegistry::Reclaim();
  EXPECT_LT(RingRegistry::bytes(), bytes);
  pthread_key_delete(late_key);
}

TEST_F(RingRegistryTest, AForkedChildRecordsNothingUntilItRevives) {
  AppendMark(1);
  DrainAll();
  const pid_t child = fork();
  if (child == 0) {
    bool good = RingRegistry::Local() != nullptr;  // the parent's: inert words keep us from it
    RingRegistry::ForgetAll();
    good = good && RingRegistry::Local() == nullptr;  // still inert
    good = good && MapPhaseWords();
    AppendMark(5);
    ThreadRing* mine = RingRegistry::Local();
    good = good && mine != nullptr && mine->index == 0 && RingRegistry::totals().produced_nvtx == 1;
    good = good && mine->ring.Peek().count == 1 && mine->ring.Peek().items[0].begin_ticks == 5;
    std::thread([mine, &good] {
      AppendMark(6);
      good = good && RingRegistry::Local() != mine;
    }).join();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepagent::core
