// Ordering and loss of the ring and its registry, with threads that come and go. Run under TSan.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"

namespace stepagent::core {
namespace {

TEST(RingStress, KeepsOrderAndCountsEveryLoss) {
  constexpr uint32_t kSlots = 64;
  constexpr uint64_t kItems = 300'000;
  auto memory = std::make_unique<uint64_t[]>(kSlots);
  SpscRing<uint64_t> ring;
  ring.Init(memory.get(), kSlots);
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t i = 1; i <= kItems; ++i) {
      uint64_t* slot = ring.Reserve();
      if (slot == nullptr) continue;
      *slot = i;
      ring.Publish();
    }
    done.store(true, std::memory_order_release);
  });
  uint64_t taken = 0, last = 0;
  const auto take = [&] {
    const auto span = ring.Peek();
    for (uint32_t i = 0; i < span.count; ++i) {
      ASSERT_GT(span.items[i], last);
      last = span.items[i];
    }
    taken += span.count;
    ring.Consume(span.count);
  };
  while (!done.load(std::memory_order_acquire)) take();
  take();
  take();
  producer.join();
  EXPECT_EQ(taken + ring.dropped(), kItems);
  EXPECT_EQ(ring.produced(), kItems);
}

TEST(RingStress, GrowsUnderADrainer) {
  constexpr uint32_t kSlots = 16, kGrownSlots = 256;
  constexpr uint64_t kItems = 100'000;
  for (int round = 0; round < 20; ++round) {
    auto small = std::make_unique<uint64_t[]>(kSlots);
    auto large = std::make_unique<uint64_t[]>(kGrownSlots);
    SpscRing<uint64_t> ring;
    ring.Init(small.get(), kSlots);
    std::atomic<bool> done{false};
    std::thread producer([&] {
      for (uint64_t i = 1; i <= kItems; ++i) {
        uint64_t* slot = ring.TryReserve();
        if (slot == nullptr && !ring.has_grown()) {
          ring.Grow(large.get(), kGrownSlots);
          slot = ring.TryReserve();
        }
        if (slot == nullptr) {
          ring.CountDropped();
          continue;
        }
        *slot = i;
        ring.Publish();
      }
      done.store(true, std::memory_order_release);
    });
    uint64_t taken = 0, last = 0;
    const auto take = [&] {
      const auto span = ring.Peek();
      for (uint32_t i = 0; i < span.count; ++i) {
        ASSERT_GT(span.items[i], last);
        last = span.items[i];
      }
      taken += span.count;
      ring.Consume(span.count);
    };
    while (!done.load(std::memory_order_acquire)) take();
    for (int rest = 0; rest < 4; ++rest) take();
    producer.join();
    EXPECT_EQ(taken + ring.dropped(), kItems);
  }
}

TEST(RingStress, ThreadsComeAndGoUnderADrainer) {
  ASSERT_TRUE(MapPhaseWords());
  constexpr int kMakers = 4, kThreadsEach = 150;
  constexpr uint64_t kRecords = 300;
  RingRegistry::ForEach([](ThreadRing* ring) {  // what other tests left
    while (ring->ring.Peek().count != 0) ring->ring.Consume(ring->ring.Peek().count);
  });
  const RingRegistry::Totals before = RingRegistry::totals();
  std::atomic<bool> done{false};
  uint64_t taken = 0;
  std::thread drainer([&] {
    std::map<uint32_t, uint64_t> last;  // by ring: the records of one thread come in order
    bool more = true;
    while (more) {
      more = !done.load(std::memory_order_acquire);
      RingRegistry::ForEach([&](ThreadRing* ring) {
        const auto span = ring->ring.Peek();
        for (uint32_t i = 0; i < span.count; ++i) {
          ASSERT_EQ(span.items[i].begin_ticks, ++last[ring->index]);
        }
        taken += span.count;
        ring->ring.Consume(span.count);
      });
      RingRegistry::Reclaim();
      (void)RingRegistry::totals();
    }
  });
  std::vector<std::thread> makers;
  for (int m = 0; m < kMakers; ++m) {
    makers.emplace_back([] {
      for (int t = 0; t < kThreadsEach; ++t) {
        std::thread([] {
          for (uint64_t i = 1; i <= kRecords; ++i) {
            Append(RecordKind::kMark, CallClass::kOther, [i](Record* r) { r->begin_ticks = i; });
          }
        }).join();
      }
    });
  }
  for (std::thread& maker : makers) maker.join();
  done.store(true, std::memory_order_release);
  drainer.join();
  const RingRegistry::Totals after = RingRegistry::totals();
  EXPECT_EQ(after.produced_nvtx - before.produced_nvtx, kMakers * kThreadsEach * kRecords);
  EXPECT_EQ(taken + after.dropped_nvtx - before.dropped_nvtx, kMakers * kThreadsEach * kRecords);
}

TEST(NameStress, OneIdPerTextHoweverManyIntern) {
  ASSERT_TRUE(NameTable::Init());
  constexpr int kThreads = 4, kNames = 3000;
  std::vector<std::vector<NameId>> ids(kThreads, std::vector<NameId>(kNames));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ids, t] {
      for (int i = 0; i < kNames; ++i) {
        const int n = (i + t * 31) % kNames;
        ids[t][n] = NameTable::Intern("stress_" + std::to_string(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int n = 0; n < kNames; ++n) {
    for (int t = 1; t < kThreads; ++t) ASSERT_EQ(ids[t][n], ids[0][n]);
    ASSERT_EQ(NameTable::Text(ids[0][n]), "stress_" + std::to_string(n));
  }
}

}  // namespace
}  // namespace stepagent::core
