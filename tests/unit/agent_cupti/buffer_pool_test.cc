#include "agent/cupti/buffer_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/unit/agent_cupti/fake_iterator.h"

namespace stepagent::cupti {
namespace {

class BufferPoolTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeIterator::Set(kFakeVersions[4]);
    api_ = FakeIterator::Table();
    layouts_.Calibrate(api_);
    pool_ = std::make_unique<BufferPool>();
  }
  void Map(size_t cap = BufferPool::kDefaultCap) {
    ASSERT_TRUE(pool_->Map(cap));
    pool_->Begin(&layouts_);
  }
  struct Buffer {
    uint8_t* data;
    size_t bytes;
  };
  Buffer Request() {
    Buffer buffer{};
    pool_->Request(&buffer.data, &buffer.bytes);
    EXPECT_NE(buffer.data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 8, 0U);
    return buffer;
  }

  ApiTable api_;
  Layouts layouts_;
  std::unique_ptr<BufferPool> pool_;
};

TEST_F(BufferPoolTest, ComesBackInOrderWithItsContent) {
  Map();
  for (uint8_t i = 0; i < 3; ++i) {
    const Buffer buffer = Request();
    buffer.data[0] = i;
    pool_->Complete(buffer.data, 1);
  }
  EXPECT_TRUE(pool_->HasCompleted());
  std::vector<int> seen;
  EXPECT_EQ(pool_->TakeCompleted([&](const BufferPool::Completed& buffer) {
    EXPECT_EQ(buffer.valid_bytes, 1U);
    seen.push_back(buffer.data[0]);
  }),
            3U);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(pool_->HasCompleted());
  EXPECT_EQ(pool_->counts().outstanding, 0U);
}

TEST_F(BufferPoolTest, DoublesWhileBuffersFillAtOnce) {
  Map();
  size_t expected = BufferPool::kSmallest;
  for (int i = 0; i < 10; ++i) {
    const Buffer buffer = Request();
    EXPECT_EQ(buffer.bytes, expected);
    pool_->Complete(buffer.data, buffer.bytes - 100);
    pool_->TakeCompleted([](const BufferPool::Completed&) {});
    expected = std::min(expected * 2, BufferPool::kLargest);
  }
  EXPECT_EQ(Request().bytes, BufferPool::kLargest);
  pool_->Begin(&layouts_);
  EXPECT_EQ(Request().bytes, BufferPool::kSmallest);
}

TEST_F(BufferPoolTest, AFlushedBufferDoesNotGrowTheNext) {
  Map();
  for (int i = 0; i < 4; ++i) {
    const Buffer buffer = Request();
    EXPECT_EQ(buffer.bytes, BufferPool::kSmallest);
    pool_->Complete(buffer.data, buffer.bytes / 2);
  }
}

TEST_F(BufferPoolTest, OverTheCapRecordsAreCountedAndMemoryIsNot) {
  const size_t cap = 4 * BufferPool::kSmallest;
  Map(cap);
  std::vector<Buffer> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(Request());
  EXPECT_EQ(pool_->counts().bytes, cap);
  for (int i = 0; i < 1000; ++i) {
    const Buffer discard = Request();
    ASSERT_EQ(discard.bytes, BufferPool::kDiscardBytes);
    BufferWriter records;
    records.Record(kKindConcurrentKernel, 216).Record(kKindMemcpy, 96).Record(kKindSync, 56);
    std::memcpy(discard.data, records.data(), records.bytes());
    pool_->Complete(discard.data, records.bytes());
  }
  PoolCounts counts = pool_->counts();
  EXPECT_EQ(counts.bytes, cap);
  EXPECT_EQ(counts.refused, 1000U);
  EXPECT_EQ(counts.dropped[kActivityKernel], 1000U);
  EXPECT_EQ(counts.dropped[kActivityMemcpy], 1000U);
  EXPECT_EQ(counts.dropped[kActivitySync], 1000U);
  EXPECT_EQ(counts.uncounted, 0U);
  // The drain catches up: real buffers again.
  for (const Buffer& buffer : taken) pool_->Complete(buffer.data, 0);
  EXPECT_EQ(pool_->TakeCompleted([](const BufferPool::Completed&) {}), 4U);
  EXPECT_EQ(Request().bytes, BufferPool::kSmallest);
}

TEST_F(BufferPoolTest, WithEverythingOutTheBinStillServes) {
  Map(0);
  std::set<uint8_t*> distinct;
  for (uint32_t i = 0; i < BufferPool::kDiscardSlots; ++i) distinct.insert(Request().data);
  EXPECT_EQ(distinct.size(), BufferPool::kDiscardSlots);
  const Buffer bin = Request();
  EXPECT_EQ(Request().data, bin.data);
  pool_->Complete(bin.data, 4096);
  EXPECT_EQ(pool_->counts().uncounted, 1U);
}

TEST_F(BufferPoolTest, UnknownContentOfADiscardBufferIsSaid) {
  Map(0);
  const Buffer discard = Request();
  const uint32_t kind = 9999;
  std::memcpy(discard.data, &kind, sizeof(kind));
  pool_->Complete(discard.data, 64);
  EXPECT_EQ(pool_->counts().uncounted, 1U);
}

TEST_F(BufferPoolTest, ForeignAndRepeatedBuffersAreLeftAlone) {
  Map();
  std::vector<uint64_t> rival(64);
  pool_->Complete(reinterpret_cast<uint8_t*>(rival.data()), 512);
  pool_->Complete(nullptr, 0);
  const Buffer buffer = Request();
  pool_->Complete(buffer.data + 8, 8);
  pool_->Complete(buffer.data, 8);
  pool_->Complete(buffer.data, 8);
  EXPECT_EQ(pool_->counts().foreign, 4U);
  EXPECT_EQ(pool_->TakeCompleted([](const BufferPool::Completed&) {}), 1U);
}

TEST_F(BufferPoolTest, AValidSizeBeyondTheBufferIsCut) {
  Map();
  const Buffer buffer = Request();
  pool_->Complete(buffer.data, size_t{1} << 40);
  pool_->TakeCompleted(
      [&](const BufferPool::Completed& done) { EXPECT_EQ(done.valid_bytes, buffer.bytes); });
}

TEST_F(BufferPoolTest, TrimGivesMemoryBackAndKeepsSlots) {
  Map();
  std::vector<Buffer> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(Request());
  for (const Buffer& buffer : taken) pool_->Complete(buffer.data, 8);
  pool_->TakeCompleted([](const BufferPool::Completed&) {});
  EXPECT_EQ(pool_->counts().bytes, 5 * BufferPool::kSmallest);
  pool_->Trim();
  EXPECT_EQ(pool_->counts().bytes, 0U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Request().bytes, BufferPool::kSmallest);
}

// Producers as CUPTI 13 is: many threads at once; one consumer. What goes in comes out.
TEST_F(BufferPoolTest, ManyThreads) {
  Map();
  constexpr int kThreads = 8;
  constexpr uint64_t kRounds = 3000;
  std::atomic<bool> done{false};
  std::atomic<uint64_t> sent{0};
  uint64_t received = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRounds; ++i) {
        uint8_t* data;
        size_t bytes;
        pool_->Request(&data, &bytes);
        if (bytes == BufferPool::kDiscardBytes) {
          const uint32_t end = 0;
          std::memcpy(data, &end, sizeof(end));
          pool_->Complete(data, 0);
          continue;
        }
        std::memcpy(data, &i, sizeof(i));
        sent.fetch_add(i, std::memory_order_relaxed);
        pool_->Complete(data, sizeof(i));
      }
    });
  }
  auto take = [&] {
    pool_->TakeCompleted([&](const BufferPool::Completed& buffer) {
      uint64_t value;
      std::memcpy(&value, buffer.data, sizeof(value));
      received += value;
    });
  };
  std::thread consumer([&] {
    while (!done.load(std::memory_order_acquire)) {
      take();
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true, std::memory_order_release);
  consumer.join();
  take();
  EXPECT_EQ(received, sent.load());
  EXPECT_EQ(pool_->counts().foreign, 0U);
  EXPECT_EQ(pool_->counts().outstanding, 0U);
}

}  // namespace
}  // namespace stepagent::cupti
