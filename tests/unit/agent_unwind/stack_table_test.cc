#include "agent/unwind/stack_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace stepagent::unwind {
namespace {

using Frames = std::vector<uintptr_t>;

Frames StackOf(uint64_t seed, uint32_t count) {
  Frames frames;
  for (uint32_t i = 0; i < count; ++i) {
    frames.push_back(0x400000 + (seed * 31 + i) * 2654435761 % 100000);
  }
  return frames;
}

uint32_t Put(StackTable* table, const Frames& frames, bool truncated = false) {
  return table->Intern(frames.data(), static_cast<uint32_t>(frames.size()), truncated);
}

Frames Read(const StackTable& table, uint32_t id) {
  const StackTable::View view = table.Get(id);
  return Frames(view.frames, view.frames + view.count);
}

TEST(StackTable, EqualStacksHaveOneId) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  std::set<uint32_t> ids;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Frames frames = StackOf(seed, 1 + seed % StackTable::kMaxFrames);
    const uint32_t id = Put(&table, frames);
    EXPECT_GT(id, StackTable::kNotTaken);
    EXPECT_EQ(Put(&table, frames), id);
    EXPECT_EQ(Read(table, id), frames);
    EXPECT_FALSE(table.Get(id).truncated);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 500U);
  EXPECT_EQ(table.overflowed(), 0U);
}

TEST(StackTable, PrefixTruncatedAndOrderAreStacksOfTheirOwn) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  const std::set<uint32_t> ids = {Put(&table, {1, 2, 3}),    Put(&table, {1, 2}),
                                  Put(&table, {2, 1}),       Put(&table, {3, 2, 1}),
                                  Put(&table, {1, 2}, true), Put(&table, {0, 1, 2})};
  EXPECT_EQ(ids.size(), 6U);
  const uint32_t cut = Put(&table, {1, 2}, true);
  EXPECT_TRUE(table.Get(cut).truncated);
  EXPECT_EQ(Read(table, cut), (Frames{1, 2}));
}

TEST(StackTable, NoFramesIsNotTaken) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  EXPECT_EQ(Put(&table, {}), StackTable::kNotTaken);
}

TEST(StackTable, FullOfWordsGivesTheOverflowId) {
  StackTable table;
  ASSERT_TRUE(table.Map(/*words=*/64, /*slots=*/256));
  std::vector<uint32_t> ids;
  for (uint64_t seed = 0; seed < 20; ++seed) ids.push_back(Put(&table, StackOf(seed, 9)));
  // 3 ids are taken; 61 words hold six stacks of ten words.
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(ids[i] == StackTable::kOverflow, i >= 6) << i;
  EXPECT_EQ(table.overflowed(), 14U);
  // What is in the table is found as before.
  for (uint64_t seed = 0; seed < 6; ++seed) EXPECT_EQ(Put(&table, StackOf(seed, 9)), ids[seed]);
  EXPECT_EQ(table.overflowed(), 14U);
}

TEST(StackTable, FullOfSlotsGivesTheOverflowId) {
  StackTable table;
  ASSERT_TRUE(table.Map(/*words=*/4096, /*slots=*/16));
  std::set<uint32_t> ids;
  for (uint64_t seed = 0; seed < 100; ++seed) ids.insert(Put(&table, StackOf(seed, 3)));
  EXPECT_EQ(ids.size(), 17U);  // 16 and the overflow id
  EXPECT_EQ(ids.count(StackTable::kOverflow), 1U);
  EXPECT_EQ(table.overflowed(), 84U);
}

TEST(StackTable, WithoutMemoryEverythingOverflows) {
  StackTable table;
  EXPECT_EQ(Put(&table, {1, 2}), StackTable::kOverflow);
  EXPECT_EQ(table.Get(3).count, 0U);
  EXPECT_EQ(table.bytes(), 0U);
}

TEST(StackTable, AnEpochSeparatesEqualAddresses) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  const uint32_t before = Put(&table, {1, 2, 3});
  table.NewEpoch();
  const uint32_t after = Put(&table, {1, 2, 3});
  EXPECT_NE(before, after);
  EXPECT_EQ(Put(&table, {1, 2, 3}), after);
  EXPECT_EQ(Read(table, before), Read(table, after));
}

TEST(StackTable, UnknownIdsAreNoStacks) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  const uint32_t id = Put(&table, {1, 2, 3});
  for (const uint32_t wrong : {0U, 1U, 2U, id + 4, StackTable::kWords, UINT32_MAX}) {
    EXPECT_EQ(table.Get(wrong).count, 0U) << wrong;
  }
}

// Threads that put the same stacks at once agree on their ids.
TEST(StackTable, ThreadsAgree) {
  auto table = std::make_unique<StackTable>();
  ASSERT_TRUE(table->Map());
  constexpr int kThreads = 4;
  constexpr uint64_t kStacks = 2000;
  std::vector<std::vector<uint32_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t seed = 0; seed < kStacks; ++seed) {
        ids[static_cast<size_t>(t)].push_back(Put(table.get(), StackOf(seed, 20)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(ids[static_cast<size_t>(t)], ids[0]);
  for (uint64_t seed = 0; seed < kStacks; ++seed) {
    EXPECT_EQ(Read(*table, ids[0][seed]), StackOf(seed, 20));
  }
}

}  // namespace
}  // namespace stepagent::unwind
