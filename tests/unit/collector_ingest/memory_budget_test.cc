// Who lets go when the cycles of all sessions together need too much.
#include "collector/ingest/memory_budget.h"

#include "gtest/gtest.h"

#include "collector/spool/recover.h"
#include "tests/unit/collector_ingest/server_fixture.h"

namespace stepagent::ingest {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Of 64 MiB, 8 are for what waits and 24 for the program.
class MemoryBudgetTest : public testing::Test {
 protected:
  MemoryBudget budget_{64 * kMiB};
  int small_ = 0, large_ = 0;  // sessions, by their address
  int asked_ = 0;
};

TEST_F(MemoryBudgetTest, TheLargestLetsGo) {
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 20 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 12 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 13 * kMiB));
  EXPECT_TRUE(budget_.IsTooMuch(&large_, 20 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 0));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 32 * kMiB));
  EXPECT_TRUE(budget_.IsTooMuch(&small_, 33 * kMiB));
}

TEST_F(MemoryBudgetTest, ASilentSessionIsAskedOnceAndTheOtherGoesOn) {
  budget_.Join(&large_, [this] { ++asked_; });
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 20 * kMiB));
  for (uint64_t open = 13; open < 20; ++open) {
    EXPECT_FALSE(budget_.IsTooMuch(&small_, open * kMiB)) << open;
  }
  EXPECT_EQ(asked_, 1);
  EXPECT_TRUE(budget_.IsTooMuch(&large_, 20 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 0));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 31 * kMiB));
}

TEST_F(MemoryBudgetTest, WhoWasAskedKeepsItsCycleWhenThereIsRoomAgain) {
  budget_.Join(&large_, [this] { ++asked_; });
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 20 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 13 * kMiB));
  EXPECT_EQ(asked_, 1);
  budget_.Forget(&small_);
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 20 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 12 * kMiB));
  EXPECT_TRUE(budget_.IsTooMuch(&large_, 21 * kMiB));
}

TEST_F(MemoryBudgetTest, WhatIsBeingWrittenCountsUntilItIs) {
  EXPECT_FALSE(budget_.IsTooMuch(&large_, 0));
  budget_.SetClosed(&large_, 30 * kMiB);
  EXPECT_TRUE(budget_.IsTooMuch(&small_, 3 * kMiB));
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 0));
  budget_.SetClosed(&large_, 0);
  EXPECT_FALSE(budget_.IsTooMuch(&small_, 3 * kMiB));
}

TEST_F(MemoryBudgetTest, TextsAreReckonedToo) {
  model::CycleBuilder::Progress progress;
  progress.records_held = 1000;
  const uint64_t records = NeedOf(progress);
  progress.texts_held = 1000;
  EXPECT_GT(NeedOf(progress), 10 * records);
  progress.bytes_held = 100 * kMiB;
  EXPECT_EQ(NeedOf(progress), 100 * kMiB);
  model::Cycle cycle;
  const uint64_t none = NeedOf(cycle);
  cycle.strings.resize(1000, std::string(100, 'x'));
  EXPECT_GT(NeedOf(cycle), none + 2'000'000);
}

// Two agents of one collector: one with much in an open cycle says nothing for long.
class Competing : public ServerTest {
 protected:
  void SetUp() override {
    config_.memory = std::make_shared<MemoryBudget>(64 * kMiB);
    Start();
  }
  // Launches with a kernel each, in an open cycle.
  static void Open(BatchFactory* factory, Client* client, uint32_t pairs) {
    ASSERT_TRUE(client->Send(factory->HelloFrame()));
    EXPECT_TRUE(client->Welcome().accepted());
    factory->Event(0, v1::CycleEvent::ACTIVE_BEGIN, 100 * kMs);
    factory->Step(0, 100 * kMs, 9000 * kMs);
    uint32_t correlation = 0;
    while (correlation < pairs) {
      for (uint32_t i = 0; i < 10'000; ++i) {
        const int64_t at = 101 * kMs + int64_t{++correlation} * 10'000;
        factory->Launch(correlation, at);
        factory->Kernel({.begin = at + 2000, .correlation = correlation});
      }
      ASSERT_TRUE(client->Send(factory->TakeFrame(8000 * kMs)));
    }
  }
  static v1::Written End(BatchFactory* factory, Client* client) {
    factory->Event(0, v1::CycleEvent::ACTIVE_END, 9000 * kMs, "schedule");
    factory->Event(0, v1::CycleEvent::CLOSED, 9000 * kMs);
    factory->Report(0);
    EXPECT_TRUE(client->Send(factory->TakeFrame(9001 * kMs)));
    return client->Written();
  }
};

TEST_F(Competing, TheSilentOneLetsGoAndNothingOfEitherIsLost) {
  BatchFactory much("00000000000000a1", 4301), little("00000000000000a2", 4302);
  much.rank = 0, little.rank = 1;
  much.warmup = little.warmup = 0;
  Client first(address_), second(address_);
  Open(&much, &first, 70'000);     // 21 of 32 MiB
  Open(&little, &second, 60'000);  // 18 MiB: with those of the first too much
  EXPECT_EQ(End(&little, &second).error(), "");
  EXPECT_NE(End(&much, &first).error().find("deferred"), std::string::npos);
  EXPECT_TRUE(first.Send(much.GoodbyeFrame()));
  EXPECT_TRUE(second.Send(little.GoodbyeFrame()));
  EXPECT_TRUE(first.IsClosedByPeer());
  EXPECT_TRUE(second.IsClosedByPeer());
  StopAndJoin();
  EXPECT_EQ(status_, 0);
  const std::string sessions = Out() + "/" + much.run + "/sessions/";
  const std::string folder = sessions + "train_rank0_node1_4301_00000000";
  EXPECT_EQ(Manifest(sessions + "train_rank1_node1_4302_00000000")["balance"]["kernel"]["written"],
            60'000);
  EXPECT_FALSE(fs::exists(folder + "/cycle-0000"));
  const spool::RecoverReport report = spool::RecoverAll(Out());
  EXPECT_EQ(report.cycles_written, 1U);
  EXPECT_EQ(report.deferred_written, 1U);
  EXPECT_EQ(Manifest(folder)["balance"]["kernel"]["written"], 70'000);
  EXPECT_EQ(Manifest(folder)["cycle"]["complete"], true);
  EXPECT_EQ(spool::RecoverAll(Out()).cycles_written, 0U);
}

}  // namespace
}  // namespace stepagent::ingest
