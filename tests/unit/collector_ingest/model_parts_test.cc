// The small parts of the model: clocks, ranges, sequences, joins.
#include <algorithm>
#include <functional>
#include <random>

#include "gtest/gtest.h"

#include "collector/model/batch_head.h"
#include "collector/model/clock_map.h"
#include "collector/model/join_index.h"
#include "collector/model/range_matcher.h"
#include "collector/model/record_lists.h"
#include "collector/model/sequence_tracker.h"
#include "collector/model/store.h"
#include "tests/support/batch_factory.h"

namespace stepagent::model {
namespace {

constexpr int64_t kBase = 1'700'000'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

TEST(ClockMap, WithoutSamplesTheSessionsBaseIsAllThereIs) {
  ClockMap clock(kBase);
  clock.Prepare(0);
  EXPECT_EQ(clock.ToHost(kBase + 5), 5);
  EXPECT_FALSE(clock.ResidualNs().has_value());
}

TEST(ClockMap, SlewIsFollowedPiecewise) {
  ClockMap clock(kBase);
  // 100 ppm fast in the first second, 100 ppm slow in the second.
  clock.Add(0, kBase, 20);
  clock.Add(kSecond, kBase + kSecond + 100'000, 20);
  clock.Add(2 * kSecond, kBase + 2 * kSecond, 20);
  clock.Prepare(0);
  EXPECT_EQ(clock.ToHost(kBase + (kSecond + 100'000) / 2), kSecond / 2);
  EXPECT_EQ(clock.ToHost(kBase + kSecond + 100'000), kSecond);
  EXPECT_NEAR(static_cast<double>(clock.ToHost(kBase + kSecond + kSecond / 2 + 50'000)),
              1.5 * kSecond, 2);
  EXPECT_EQ(clock.StepNs(), 0);
}

TEST(ClockMap, ResidualHoldsBracketAndCurvature) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 100);
  clock.Add(kSecond, kBase + kSecond + 300, 100);
  clock.Add(2 * kSecond, kBase + 2 * kSecond, 100);
  clock.Prepare(0);
  EXPECT_EQ(clock.ResidualNs(), 350U);
}

TEST(ClockMap, ASampleTakenAcrossAnInterruptIsLeftOut) {
  ClockMap clock(kBase);
  for (int i = 0; i < 4; ++i) clock.Add(i * kSecond, kBase + i * kSecond, 20);
  clock.Add(kSecond / 2, kBase + kSecond / 2 + 400'000, 500'000);
  clock.Prepare(0);
  EXPECT_EQ(clock.ToHost(kBase + kSecond / 2), kSecond / 2);
  EXPECT_LT(*clock.ResidualNs(), 100U);
}

TEST(ClockMap, StepBackIsBridgedByNeitherSide) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 20);
  clock.Add(kSecond, kBase + kSecond, 20);
  clock.Add(2 * kSecond, kBase + 2 * kSecond - 60 * kSecond, 20);
  clock.Add(3 * kSecond, kBase + 3 * kSecond - 60 * kSecond, 20);
  clock.Prepare(0);
  EXPECT_EQ(clock.ToHost(kBase + kSecond / 2), kSecond / 2);
  EXPECT_EQ(clock.ToHost(kBase + 5 * kSecond / 2 - 60 * kSecond), 5 * kSecond / 2);
  EXPECT_EQ(clock.StepNs(), -60 * kSecond);
}

// Stamps between the two samples around a step may be from before or after: the residual says so.
TEST(ClockMap, ResidualHoldsAStepOfAnySize) {
  for (const int64_t step : {100'000, -100'000, 1'000'000, -5'000'000, 20'000'000}) {
    ClockMap clock(kBase);
    constexpr int64_t kEvery = kSecond / 10;
    for (int64_t i = 0; i < 6; ++i) {
      clock.Add(i * kEvery, kBase + i * kEvery + (i >= 3 ? step : 0), 20);
    }
    clock.Prepare(0);
    ASSERT_TRUE(clock.ResidualNs().has_value());
    EXPECT_GE(*clock.ResidualNs(), static_cast<uint64_t>(std::abs(step)) - 1000) << step;
    // The step came right after the third sample; what is stamped then is as far off as that says.
    const int64_t at = 2 * kEvery + 1000;
    const int64_t off = clock.ToHost(kBase + at + step) - at;
    EXPECT_LE(std::abs(off), static_cast<int64_t>(*clock.ResidualNs())) << step;
  }
}

TEST(ClockMap, ASlewIsNoStep) {
  ClockMap clock(kBase);
  for (int64_t i = 0; i < 6; ++i) clock.Add(i * kSecond, kBase + i * kSecond + i * 490'000, 20);
  clock.Prepare(0);
  EXPECT_LT(*clock.ResidualNs(), 1000U);
}

// A suspend: the wall clock is ahead afterwards, and that is no step of it.
TEST(ClockMap, SleepOfTheMachineIsNotAStep) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 20, 1000);
  clock.Add(kSecond, kBase + kSecond, 20, 1000);
  clock.Add(2 * kSecond, kBase + 2 * kSecond + 7 * kSecond, 20, 8000);
  clock.Add(3 * kSecond, kBase + 3 * kSecond + 7 * kSecond, 20, 8000);
  clock.Prepare(0);
  EXPECT_EQ(clock.ToHost(kBase + kSecond / 2), kSecond / 2);
  EXPECT_EQ(clock.ToHost(kBase + 5 * kSecond / 2 + 7 * kSecond), 5 * kSecond / 2);
  EXPECT_EQ(clock.StepNs(), 0);
  EXPECT_EQ(clock.SuspendedMs(), 7000U);
  EXPECT_LT(*clock.ResidualNs(), 100U);
  clock.Prepare(2 * kSecond + 1);  // a later cycle has nothing to do with it
  EXPECT_EQ(clock.SuspendedMs(), 0U);
}

TEST(ClockMap, AStepBesideASleepIsStillAStep) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 20, 0);
  clock.Add(kSecond, kBase + kSecond + 7 * kSecond - 3 * kSecond, 20, 7000);
  clock.Prepare(0);
  EXPECT_EQ(clock.StepNs(), -3 * kSecond);
  EXPECT_EQ(clock.SuspendedMs(), 7000U);
}

// A processor's counter that goes on in a suspend: host and wall clock stay together.
TEST(ClockMap, ACounterThatGoesOnInASleepNeedsNothing) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 20, 0);
  clock.Add(8 * kSecond, kBase + 8 * kSecond, 20, 7000);
  clock.Prepare(0);
  EXPECT_EQ(clock.StepNs(), 0);
  EXPECT_EQ(clock.SuspendedMs(), 7000U);
  EXPECT_EQ(clock.ToHost(kBase + 4 * kSecond), 4 * kSecond);
}

TEST(ClockMap, HostileTimesAsleepAreSurvived) {
  ClockMap clock(kBase);
  clock.Add(0, kBase, 20, UINT64_MAX);
  clock.Add(kSecond, kBase + 9 * kSecond, 20, 0);
  clock.Add(2 * kSecond, kBase + 2 * kSecond, 20, UINT64_MAX - 1);
  clock.Prepare(0);
  EXPECT_GT(clock.SuspendedMs(), 0U);
}

TEST(SequenceTracker, GapsRepeatsAndLateComers) {
  SequenceTracker t;
  EXPECT_TRUE(t.Accept(0));
  EXPECT_FALSE(t.Accept(0));
  EXPECT_TRUE(t.Accept(5));
  EXPECT_EQ(t.missing(), 4U);
  EXPECT_TRUE(t.Accept(3));
  EXPECT_FALSE(t.Accept(3));
  EXPECT_EQ(t.missing(), 3U);
  t.Expect(7);
  EXPECT_EQ(t.missing(), 5U);
}

TEST(JoinIndex, NewestBeforeTheWork) {
  JoinIndex index;
  index.Add(7, 10 * kSecond, 1);
  index.Add(7, 20 * kSecond, 2);
  index.Add(8, 20 * kSecond, JoinIndex::kOutside);
  index.Add(0, 20 * kSecond, 3);
  index.Finish();
  EXPECT_EQ(index.Find(7, 15 * kSecond), 1);
  EXPECT_EQ(index.Find(7, 25 * kSecond), 2);
  EXPECT_EQ(index.Find(7, std::nullopt), 2);
  EXPECT_EQ(index.Find(7, kSecond), 1);  // before any launch: the clocks are off, the id is not
  EXPECT_EQ(index.Find(8, 25 * kSecond), JoinIndex::kOutside);
  EXPECT_EQ(index.Find(9, 25 * kSecond), JoinIndex::kNone);
  EXPECT_EQ(index.Find(0, 25 * kSecond), JoinIndex::kNone);
}

// What one cycle launched is outside the next one's window, for one cycle.
TEST(JoinIndex, TheNextCycleKnowsThisOnesLaunches) {
  JoinIndex first({{5, Launch::kEarlier, kSecond}});
  first.Add(7, 10 * kSecond, 0);
  first.Add(8, 11 * kSecond, JoinIndex::kOutside);
  first.Add(9, 12 * kSecond, JoinIndex::kLater);
  first.Finish();
  EXPECT_EQ(first.Find(5, 2 * kSecond), JoinIndex::kOutside);
  JoinIndex second(first.Take());
  second.Finish();
  EXPECT_EQ(second.Find(7, 13 * kSecond), JoinIndex::kOutside);
  EXPECT_EQ(second.Find(8, 13 * kSecond), JoinIndex::kOutside);
  EXPECT_EQ(second.Find(5, 13 * kSecond), JoinIndex::kNone);
  EXPECT_EQ(second.Find(9, 13 * kSecond), JoinIndex::kNone);
  EXPECT_TRUE(JoinIndex(second.Take()).Take().empty());
}

TEST(JoinIndex, SaysWhetherAnIdIsHereTwice) {
  JoinIndex index;
  index.Add(7, 1, 0);
  index.Add(7, 2, JoinIndex::kOutside);
  index.Add(8, 3, 1);
  index.Finish();
  EXPECT_FALSE(index.HasTwoHere());
  index.Add(7, 4, 2);
  index.Finish();
  EXPECT_TRUE(index.HasTwoHere());
  index.ForgetHere();
  EXPECT_FALSE(index.HasTwoHere());
  EXPECT_EQ(index.Find(7, std::nullopt), JoinIndex::kOutside);
  EXPECT_EQ(index.Find(8, std::nullopt), JoinIndex::kNone);
}

class Ranges : public testing::Test {
 protected:
  static Range At(TimeNs t, StringId name, uint32_t thread = 1, StringId domain = 0) {
    Range r;
    r.begin_ns = t;
    r.name = name;
    r.domain = domain;
    r.thread = thread;
    return r;
  }
  std::vector<Range> closed_;
  RangeMatcher matcher_{&closed_};
};

TEST_F(Ranges, StacksArePerThreadAndDomain) {
  matcher_.Push(At(1, 10), 0);
  matcher_.Push(At(2, 20, 1, 9), 0);  // another domain
  matcher_.Push(At(3, 30, 2), 0);     // another thread
  matcher_.Push(At(4, 11), 1);
  matcher_.Pop(1, 0, 1, 5);
  matcher_.Pop(1, 0, 0, 6);
  matcher_.Pop(2, 0, 0, 7);
  matcher_.Pop(1, 9, 0, 8);
  ASSERT_EQ(closed_.size(), 4U);
  EXPECT_EQ(closed_[0].name, 11U);
  EXPECT_EQ(closed_[1].name, 10U);
  EXPECT_EQ(closed_[2].name, 30U);
  EXPECT_EQ(closed_[3].end_ns, 8);
  EXPECT_EQ(matcher_.unmatched_ends(), 0U);
}

TEST_F(Ranges, PopWithoutPushIsCounted) {
  matcher_.Pop(1, 0, 0, 5);
  matcher_.Push(At(6, 10), 2);  // pushed under two that we never saw
  matcher_.Pop(1, 0, 2, 7);
  matcher_.Pop(1, 0, 1, 8);
  EXPECT_EQ(closed_.size(), 1U);
  EXPECT_EQ(matcher_.unmatched_ends(), 2U);
}

TEST_F(Ranges, LostPopsAreHealedByDepth) {
  matcher_.Push(At(1, 10), 0);
  matcher_.Push(At(2, 11), 1);
  matcher_.Push(At(9, 12), 0);  // both must have been over by now
  matcher_.Pop(1, 0, 0, 12);
  ASSERT_EQ(closed_.size(), 3U);
  EXPECT_EQ(closed_[0].end_ns, 9);
  EXPECT_EQ(closed_[1].end_ns, 9);
  EXPECT_EQ(closed_[2].end_ns, 12);
}

TEST_F(Ranges, StartAndEndAreProcessWideInAnyOrder) {
  matcher_.Start(At(1, 10), 100);
  matcher_.End(100, 2, 5);
  matcher_.End(200, 2, 9);  // the other thread's ring was drained first
  matcher_.Start(At(7, 20), 200);
  matcher_.End(100, 2, 11);  // twice
  matcher_.End(300, 2, 11);  // made up
  ASSERT_EQ(closed_.size(), 2U);
  EXPECT_EQ(closed_[0].end_thread, 2U);
  EXPECT_EQ(closed_[1].end_ns, 9);
  EXPECT_EQ(matcher_.unmatched_ends(), 2U);
  EXPECT_TRUE(matcher_.Open().empty());
}

TEST(Dictionary, UnknownIdsBecomePlaceholdersAndStreamsStaySmall) {
  Dictionary d;
  d.DeclareString(5, "known");
  EXPECT_EQ(d.strings()[d.String(5)], "known");
  EXPECT_EQ(d.strings()[d.String(6)], "(lost name 6)");
  EXPECT_EQ(d.strings()[d.String(1)], "(name table full)");
  EXPECT_EQ(d.String(0), 0U);
  d.DeclareString(7, "_Z3fooi");
  const uint32_t shape = d.ShapeIndex(Shape{.name = d.String(7)});
  EXPECT_EQ(d.strings()[d.shapes()[shape].demangled], "foo(int)");
  EXPECT_EQ(d.ShapeIndex(Shape{.name = d.String(7)}), shape);
  const uint32_t small = d.LaneIndex(Lane{.context = 1, .stream = 7});
  const uint32_t wide = d.LaneIndex(Lane{.context = 1, .stream = uint64_t{1} << 40});
  const uint32_t wide2 = d.LaneIndex(Lane{.context = 2, .stream = uint64_t{1} << 40});
  EXPECT_EQ(d.lanes()[small].stream_index, 7U);
  EXPECT_NE(d.lanes()[wide].stream_index, d.lanes()[wide2].stream_index);
  EXPECT_LT(d.lanes()[wide].stream_index, uint32_t{1} << 31);
}

TEST(RecordLists, SortByBeginIsStableWhateverTheRuns) {
  struct Item {
    int64_t begin_ns = 0, end_ns = 0;
    int number = 0;
    bool operator==(const Item&) const = default;
  };
  std::mt19937 random(7);
  for (const int runs : {0, 1, 2, 3, 7, 64}) {
    std::vector<Item> items;
    for (int run = 0; run < runs; ++run) {
      int64_t at = static_cast<int64_t>(random() % 50);
      for (uint32_t i = 0; i < 1 + random() % 40; ++i) {
        at += static_cast<int64_t>(random() % 3);  // equal begins, in one run and across runs
        items.push_back(
            {at, at + static_cast<int64_t>(random() % 3), static_cast<int>(items.size())});
      }
    }
    std::vector<Item> expected = items;
    std::stable_sort(expected.begin(), expected.end(), [](const Item& a, const Item& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    SortByBegin(&items);
    EXPECT_EQ(items, expected) << runs;
  }
}

TEST(RecordLists, SplitKeepsOrderAndMemory) {
  std::vector<int> from{1, 2, 3, 4, 5, 6}, to;
  const int* memory = from.data();
  Split(&from, &to, [](int& item) {
    return item % 3 == 0 ? Belongs::kLater : item == 1 ? Belongs::kNowhere : Belongs::kHere;
  });
  EXPECT_EQ(to, (std::vector<int>{2, 4, 5}));
  EXPECT_EQ(to.data(), memory);
  EXPECT_EQ(from, (std::vector<int>{3, 6}));
}

TEST(JoinIndex, FindsFromAnyPlaceOnward) {
  JoinIndex index;
  for (uint32_t id = 2; id <= 2000; id += 2) index.Add(id, id, static_cast<int32_t>(id));
  index.Finish();
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const auto id = static_cast<uint32_t>(1 + random() % 2002);
    const bool is_there = id % 2 == 0 && id <= 2000;
    EXPECT_EQ(index.Find(id, std::nullopt), is_there ? static_cast<int32_t>(id) : JoinIndex::kNone);
  }
}

TEST(BatchHead, HasWhatSteersAndCountsTheRest) {
  test::BatchFactory agent;
  agent.WholeCycle(0, 1, 2, 1000, 100, 3);
  const v1::Batch batch = agent.Take(5000);
  const std::string payload = batch.SerializeAsString();
  BatchHead head;
  ASSERT_TRUE(ReadBatchHead(payload, &head));
  EXPECT_EQ(head.fields.identity().session(), batch.identity().session());
  EXPECT_EQ(head.fields.sequence(), batch.sequence());
  EXPECT_EQ(head.fields.steps().SerializeAsString(), batch.steps().SerializeAsString());
  EXPECT_EQ(head.fields.cycle_events_size(), batch.cycle_events_size());
  EXPECT_EQ(head.fields.losses().SerializeAsString(), batch.losses().SerializeAsString());
  EXPECT_FALSE(head.fields.has_calls());
  EXPECT_FALSE(head.fields.has_kernels());
  EXPECT_EQ(head.calls, batch.calls().count());
  EXPECT_EQ(head.kernels, batch.kernels().count());
  EXPECT_TRUE(head.has_work);
  for (size_t bytes = 0; bytes < payload.size(); ++bytes) {  // cut anywhere: refused or short
    (void)ReadBatchHead(std::string_view(payload).substr(0, bytes), &head);
  }
  EXPECT_FALSE(ReadBatchHead("\x07\x07", &head));
}

// What waits undecoded was looked at when it came: nothing damaged is found when it is decoded.
TEST(BatchHead, RefusesWhatLibprotobufRefuses) {
  test::BatchFactory agent;
  agent.WholeCycle(0, 1, 2, 1000, 100, 3);
  v1::Batch batch = agent.Take(5000);
  batch.mutable_calls()->add_duration_ns(UINT64_MAX);  // ten bytes, the longest there are
  const std::string good = batch.SerializeAsString();
  std::mt19937 random(11);
  BatchHead head;
  size_t refused = 0, taken = 0, odd = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (uint32_t i = 0; i <= random() % 12; ++i) {
      const size_t at = random() % bytes.size();
      bytes[at] = static_cast<char>(random() % 2 == 0 ? random() : 0x80 | random());
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const bool is_readable = v1::Batch().ParseFromString(bytes);
    const bool is_taken = ReadBatchHead(bytes, &head);
    EXPECT_TRUE(is_readable || !is_taken) << round;
    ++(is_taken ? taken : is_readable ? odd : refused);
  }
  EXPECT_LT(odd, 20U);  // groups and reserved numbers, which no writer makes
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(taken, 1000U);
}

TEST(BatchHead, AColumnWhoseNumbersDoNotEndIsRefused) {
  for (const size_t before : {0, 1, 2, 3, 5}) {
    for (const size_t length : {9, 10, 11, 40}) {
      const std::string column =
          std::string(before, '\1') + std::string(length, '\x80') + std::string(3, '\1');
      // Calls.duration_ns (field 8) in Batch.calls (field 8).
      std::string section = "\x42" + std::string(1, static_cast<char>(column.size())) + column;
      const std::string bytes =
          "\x42" + std::string(1, static_cast<char>(section.size())) + section;
      BatchHead head;
      EXPECT_EQ(ReadBatchHead(bytes, &head), length < 10) << before << ' ' << length;
      EXPECT_EQ(v1::Batch().ParseFromString(bytes), length < 10) << before << ' ' << length;
    }
  }
}

TEST(BatchHead, FieldsOfANewerAgentArePassed) {
  v1::Batch batch;
  batch.mutable_calls()->set_count(1);
  batch.mutable_calls()->add_name(1);
  const std::string text(40, '\xff');  // no column of numbers
  batch.GetReflection()->MutableUnknownFields(&batch)->AddLengthDelimited(900, text);
  auto* calls = batch.mutable_calls();
  calls->GetReflection()->MutableUnknownFields(calls)->AddLengthDelimited(90, text);
  calls->GetReflection()->MutableUnknownFields(calls)->AddFixed64(91, 7);
  BatchHead head;
  ASSERT_TRUE(ReadBatchHead(batch.SerializeAsString(), &head));
  EXPECT_EQ(head.calls, 1U);
}

TEST(BatchHead, ACountIsBelievedNoFurtherThanItsBytes) {
  v1::Batch batch;
  batch.mutable_calls()->set_count(1'000'000);
  batch.mutable_calls()->add_name(1);
  BatchHead head;
  ASSERT_TRUE(ReadBatchHead(batch.SerializeAsString(), &head));
  EXPECT_LT(head.calls, 10U);
}

}  // namespace
}  // namespace stepagent::model
