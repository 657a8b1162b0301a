// Step durations that come piece by piece.
#include "collector/model/step_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stepagent::model {
namespace {

v1::AllSteps Rows(uint64_t count, uint64_t first, uint64_t last) {
  v1::AllSteps message;
  message.set_count(count);
  for (uint64_t index = first; index < last; ++index) {
    message.add_index(index);
    message.add_duration_ns(10 * index);
    message.add_collecting(1);
  }
  return message;
}

TEST(StepRows, PiecesMakeTheWhole) {
  StepRowStore store;
  store.Take(Rows(2, 0, 2));
  store.Take(Rows(5, 2, 5));
  store.Take(Rows(5, 0, 5));  // an earlier agent's report holds all of them
  const AllSteps all = store.All();
  EXPECT_EQ(all.count, 5U);
  ASSERT_EQ(all.each.size(), 5U);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(all.each[i].dur_ns, 10 * i);
  EXPECT_FALSE(store.has_gap());
}

TEST(StepRows, ALostPieceIsToldAndTheRestKept) {
  StepRowStore store;
  store.Take(Rows(2, 0, 2));
  store.Take(Rows(7, 5, 7));
  EXPECT_TRUE(store.has_gap());
  EXPECT_EQ(store.All().each.size(), 4U);
}

TEST(StepRows, PastTheMostOldOnesGiveWayEvenly) {
  StepRowStore one, two;
  for (StepRowStore* store : {&one, &two}) {
    store->Take(Rows(kMostStepRows, 0, kMostStepRows));
    for (uint64_t at = kMostStepRows; at < 2 * kMostStepRows; at += 100) {
      // Half of the steps are kept by the agent at this point.
      store->Take(Rows(at + 100, at, at + 50));
    }
  }
  const AllSteps all = one.All();
  EXPECT_EQ(all.each.size(), kMostStepRows);
  EXPECT_FALSE(one.has_gap());
  const auto early = std::count_if(all.each.begin(), all.each.end(), [](const StepDuration& row) {
    return row.index < kMostStepRows / 2;
  });
  const auto late = std::count_if(all.each.begin(), all.each.end(), [](const StepDuration& row) {
    return row.index >= kMostStepRows / 2 && row.index < kMostStepRows;
  });
  EXPECT_NEAR(static_cast<double>(early), static_cast<double>(late), 300);
  // The same file gives the same rows.
  for (size_t i = 0; i < all.each.size(); ++i) {
    ASSERT_EQ(all.each[i].index, two.All().each[i].index) << i;
    if (i == 100) break;
  }
}

TEST(StepRows, UnevenColumnsAndTooManyRows) {
  StepRowStore store;
  v1::AllSteps rows = Rows(20'000, 0, 20'000);
  rows.add_index(30'000);  // without its duration
  store.Take(rows);
  EXPECT_EQ(store.All().each.size(), kMostStepRows);
}

TEST(StepRows, AStepWithBeginAndEndHasOneDuration) {
  StepRowStore store;
  store.Learn(1, 12);
  store.Learn(9, 1);  // no row of it: it stays out
  store.Take(Rows(3, 0, 3));
  const AllSteps all = store.All();
  ASSERT_EQ(all.each.size(), 3U);
  EXPECT_EQ(all.each[0].dur_ns, 0U);
  EXPECT_EQ(all.each[1].dur_ns, 12U);
  EXPECT_EQ(all.each[2].dur_ns, 20U);
}

}  // namespace
}  // namespace stepagent::model
