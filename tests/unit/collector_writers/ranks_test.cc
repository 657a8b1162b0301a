// Ranks side by side: figures, and readings that separate own work from waiting.
#include <algorithm>

#include "collector/analysis/rank_report.h"
#include "gtest/gtest.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
constexpr int64_t kMs = 1'000'000;

struct Rank {
  int64_t rank;
  std::vector<int64_t> walls_ms;
  int64_t exposed_ms = 0;
  int64_t begins_late_ms = 0;
  std::string host = "h";
  std::string run = "";
  int64_t pid = 1;
  int64_t armed_at = 0;  // the process's steps before its arming
  bool is_cut = false;   // no step of it is whole
  int64_t starts_at_ms = 0;
  std::string step_source = "nvtx:step";
  int64_t between_ms = 100;  // from begin to begin
  std::optional<int64_t> wall_offset_ms = std::nullopt;
};

Json Summary(const Rank& r, uint64_t cycle = 0) {
  Json each = Json::array();
  int64_t at = r.begins_late_ms * kMs;
  for (size_t i = 0; i < r.walls_ms.size(); ++i, at += r.between_ms * kMs) {
    each.push_back({{"index", 3 + i},
                    {"process_index", 3 + i + static_cast<size_t>(r.armed_at)},
                    {"begin_ns", at},
                    {"wall_ns", r.walls_ms[i] * kMs},
                    {"exposed_collective_ns", r.exposed_ms * kMs},
                    {"launches", 5},
                    {"complete", !r.is_cut},
                    {"contains_tracer_start", false}});
  }
  return {{"session",
           {{"id", "s" + std::to_string(r.rank) + "_" + std::to_string(r.pid) + r.run},
            {"run", r.run},
            {"rank", r.rank < 0 ? Json(nullptr) : Json(r.rank)},
            {"pid", r.pid},
            {"exe", "t"},
            {"step_source", r.step_source},
            {"host", r.host}}},
          {"cycle", {{"index", cycle}}},
          {"window", {{"base_unix_ns", 1000 + r.starts_at_ms * kMs}, {"end_ns", at}}},
          {"clock",
           {{"wall_offset_ns", r.wall_offset_ms ? Json(*r.wall_offset_ms * kMs) : Json(nullptr)},
            {"wall_error_ns", r.wall_offset_ms ? Json(50) : Json(nullptr)}}},
          {"steps",
           {{"count", r.walls_ms.size()},
            {"counted", r.walls_ms.size()},
            {"median_ns", r.walls_ms[0] * kMs},
            {"min_ns", r.walls_ms[0] * kMs},
            {"max_ns", (r.walls_ms[0] + 1) * kMs},
            {"each", each}}},
          {"devices", Json::array({{{"busy_ns", 3},
                                    {"idle_ns", 4},
                                    {"collective_ns", 2},
                                    {"exposed_collective_ns", 1}}})}};
}

Json AllCompared(const std::vector<Rank>& ranks) {
  std::vector<Json> summaries;
  std::vector<const Json*> pointers;
  for (const Rank& rank : ranks) summaries.push_back(Summary(rank));
  for (const Json& summary : summaries) pointers.push_back(&summary);
  return CompareRanks(pointers);
}

Json Compared(const std::vector<Rank>& ranks) {
  const Json out = AllCompared(ranks);
  return out.empty() ? Json(nullptr) : out.front();
}

std::vector<std::string> Ids(const Json& compared) {
  std::vector<std::string> ids;
  for (const Json& reading : compared.at("readings")) ids.push_back(reading.at("id"));
  return ids;
}

TEST(Ranks, OneSessionIsNoComparison) { EXPECT_TRUE(Compared({{0, {10, 10}}}).is_null()); }

TEST(Ranks, RowsSortedWithSpreadAndSums) {
  const Json compared = Compared({{1, {12, 12, 12}}, {0, {10, 10, 10}}});
  ASSERT_EQ(compared.at("ranks").size(), 2U);
  const Json& row = compared.at("ranks").at(0);
  EXPECT_EQ(row.at("rank"), 0);
  EXPECT_EQ(row.at("step_median_ns"), 10 * kMs);
  EXPECT_EQ(row.at("step_spread_ns"), kMs);
  EXPECT_EQ(row.at("launches"), 15);
  EXPECT_EQ(row.at("busy_ns"), 3);
  EXPECT_EQ(compared.at("slowest").at("rank"), 1);
  EXPECT_EQ(compared.at("slowest").at("steps"), 3);
}

TEST(Ranks, APartOfADevicesTimeIsNoFigure) {
  std::vector<Json> summaries{Summary({0, {10, 10}}), Summary({1, {10, 10}})};
  const auto compare = [&](const char* status, const char* code) {
    summaries[1]["gpu"] = {{"status", status}, {"reason", "it ended"}, {"reason_code", code}};
    const Json* pointers[] = {&summaries[0], &summaries[1]};
    return CompareRanks(pointers).front();
  };
  const Json compared = compare("partial", "not_reported");
  const Json& row = compared.at("ranks").at(1);
  for (const char* key : {"busy_ns", "idle_ns", "collective_ns", "exposed_collective_ns"}) {
    EXPECT_TRUE(row.at(key).is_null()) << key;
    EXPECT_TRUE(compared.at("ranks").at(0).at(key).is_number()) << key;
  }
  EXPECT_EQ(row.at("device_partial"), true);
  EXPECT_EQ(row.at("device_reason"), "it ended");
  EXPECT_EQ(row.at("step_median_ns"), 10 * kMs);
  EXPECT_NE(RankRowsText(compared).find("  partial  partial    partial  partial "),
            std::string::npos)
      << RankRowsText(compared);
  EXPECT_NE(RanksText(compared, 8).find("partial: some device records"), std::string::npos);
  // By the rank's own summary, whatever the reason is.
  summaries[1]["devices"][0]["busy_at_least_ns"] = 3;
  EXPECT_EQ(compare("collected", "").at("ranks").at(1).at("device_partial"), true);
  summaries[1]["devices"][0].erase("busy_at_least_ns");
  // A kind that was never on leaves the others whole; and nothing at all is a dash.
  EXPECT_EQ(compare("partial", "kinds_missing").at("ranks").at(1).at("busy_ns"), 3);
  summaries[1]["devices"] = nullptr;
  EXPECT_EQ(compare("partial", "not_reported").at("ranks").at(1).at("device_partial"), false);
}

TEST(Ranks, WithoutStepsNoRankIsBlamedForHavingNone) {
  std::vector<Json> summaries{Summary({0, {10}}), Summary({1, {10}})};
  for (Json& summary : summaries) summary["steps"]["each"] = Json::array();
  const Json* pointers[] = {&summaries[0], &summaries[1]};
  const std::string text = RankRowsText(CompareRanks(pointers).front());
  EXPECT_NE(text.find("no step was recorded: ranks are compared by steps"), std::string::npos);
  EXPECT_EQ(text.find("not compared"), std::string::npos) << text;
}

TEST(Ranks, StepsHaveTheirSlowestAndSkew) {
  const Json compared = Compared({{0, {10, 20}}, {1, {12, 12}, 0, 3}});
  const Json& first = compared.at("steps").at(0);
  EXPECT_EQ(first.at("index"), 3);
  EXPECT_EQ(first.at("slowest_rank"), 1);
  EXPECT_EQ(first.at("begin_skew_ns"), 3 * kMs);
  EXPECT_EQ(first.at("end_skew_ns"), 5 * kMs);
  EXPECT_EQ(first.at("wall_spread_ns"), 2 * kMs);
  EXPECT_EQ(first.at("median_wall_ns"), 11 * kMs);
  EXPECT_EQ(first.at("last_to_begin"), 1);
  EXPECT_EQ(compared.at("steps").at(1).at("slowest_rank"), 0);
}

// The head counts what the readings count: steps that every rank has.
TEST(Ranks, TheHeadCountsTheStepsThatReadingsCount) {
  const Json compared = Compared({{0, {10, 10, 10}}, {1, {13, 13, 13, 13}}, {2, {10, 10, 10, 10}}});
  EXPECT_EQ(compared.at("steps").size(), 4U);
  EXPECT_EQ(compared.at("slowest").at("steps"), 3);
  const std::string text = RanksText(compared, 8);
  EXPECT_NE(text.find("slowest: rank 1 in 3 of 3 steps that all ranks have whole"),
            std::string::npos)
      << text;
  EXPECT_EQ(compared.at("readings").at(0).at("evidence").at("text"),
            "slowest by own work in 3 of 3 steps that the ranks compared have whole");
}

// A rank that ended early or was killed: what the others did is compared all the same.
TEST(Ranks, ARankWithFewWholeStepsBlindsNobody) {
  const Rank slow{2, {13, 13, 13, 13}};
  for (const Rank& early : {Rank{.rank = 3, .walls_ms = {10}},
                            Rank{.rank = 3, .walls_ms = {10, 10, 10, 10}, .is_cut = true}}) {
    const Json compared = Compared({{0, {10, 10, 10, 10}}, {1, {10, 10, 10, 10}}, slow, early});
    EXPECT_EQ(Ids(compared), std::vector<std::string>{"straggler"});
    EXPECT_EQ(compared.at("slowest").at("rank"), 2);
    EXPECT_EQ(compared.at("slowest").at("steps"), 4);
    ASSERT_EQ(compared.at("not_compared").size(), 1U);
    const std::string text = RanksText(compared, 8);
    EXPECT_NE(text.find("not compared, for want of whole steps: rank 3 (" +
                        std::string(early.is_cut ? "0" : "1") + ")"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("slowest: rank 2 in 4 of 4 steps that those compared have whole"),
              std::string::npos);
  }
}

// The last step of a killed rank is as long as nobody knows.
TEST(Ranks, ARankThatIsNotComparedIsNotTheSlowest) {
  const Rank cut{.rank = 3, .walls_ms = {50, 50, 50}, .is_cut = true};
  const Json compared = Compared({{0, {10, 10, 10}}, {1, {13, 13, 13}}, {2, {10, 10, 10}}, cut});
  EXPECT_EQ(compared.at("slowest").at("rank"), 1);
  EXPECT_EQ(compared.at("steps").at(0).at("slowest_rank"), 1);
  EXPECT_EQ(compared.at("steps").at(0).at("ranks"), 4);
}

// The host took its time for them, whatever came of the device's.
TEST(Ranks, ARankWithoutDeviceRecordsHasItsHostTimes) {
  std::vector<Json> summaries{Summary({0, {10, 10, 10}}), Summary({1, {13, 15, 17, 99}})};
  Json& steps = summaries[1]["steps"];
  for (const char* key : {"median_ns", "min_ns", "max_ns"}) steps[key] = nullptr;
  for (Json& row : steps["each"]) row["complete"] = false, row["ended"] = true;
  steps["each"][3]["ended"] = false;  // was open when the process was killed
  const auto row_of = [&] {
    const Json* pointers[] = {&summaries[0], &summaries[1]};
    return CompareRanks(pointers).front().at("ranks").at(1);
  };
  EXPECT_EQ(row_of().at("step_median_ns"), 15 * kMs);
  EXPECT_EQ(row_of().at("step_spread_ns"), 4 * kMs);
  for (Json& row : steps["each"]) row["ended"] = false;
  EXPECT_TRUE(row_of().at("step_median_ns").is_null());
}

TEST(Ranks, WithoutAWholeStepNothingIsSaidOfRanks) {
  const Json compared =
      Compared({{0, {10, 11}}, Rank{.rank = 1, .walls_ms = {11, 10}, .is_cut = true}});
  const std::string text = RanksText(compared, 8);
  EXPECT_EQ(text.find("alike"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing can be said of who is slower"), std::string::npos);
}

TEST(Ranks, AlikeRanksGiveNoReading) {
  EXPECT_TRUE(Ids(Compared({{0, {10, 11}}, {1, {11, 10}}, {2, {10, 10}}})).empty());
  const Json compared = Compared({{0, {10, 11, 10}}, {1, {11, 10, 10}}});
  EXPECT_NE(RanksText(compared, 8).find("No rank stands out"), std::string::npos);
}

TEST(Ranks, ASlowRankIsNamedWithoutCollectives) {
  const Json compared = Compared({{0, {10, 10, 10}}, {1, {13, 13, 13}}, {2, {10, 10, 10}}});
  EXPECT_EQ(Ids(compared), std::vector<std::string>{"straggler"});
  EXPECT_EQ(compared.at("readings").at(0).at("rank"), 1);
  EXPECT_NE(RanksText(compared, 8).find("30.0 % more"), std::string::npos);
}

// All walls are equal because everybody waits for rank 2: only own work tells.
TEST(Ranks, WaitingIsNotOwnWork) {
  const Json compared =
      Compared({{0, {13, 13, 13}, 3}, {1, {13, 13, 13}, 3}, {2, {13, 13, 13}}, {3, {13, 13, 13}, 3}});
  EXPECT_EQ(Ids(compared), (std::vector<std::string>{"straggler", "waiting_for_others"}));
  EXPECT_EQ(compared.at("readings").at(0).at("rank"), 2);
  EXPECT_NE(compared.at("readings").at(1).at("observation").get<std::string>().find("0, 1, 3"),
            std::string::npos);
  EXPECT_EQ(compared.at("slowest").at("rank"), 2);
}

TEST(Ranks, AllInCollectivesAlikeIsTransferRatherThanAStraggler) {
  const Json compared = Compared({{0, {13, 13}, 3}, {1, {13, 13}, 3}});
  EXPECT_EQ(Ids(compared), std::vector<std::string>{"waiting_for_others"});
}

TEST(Ranks, OnceInAWhileIsNoStraggler) {
  EXPECT_TRUE(Ids(Compared({{0, {10, 10, 10, 10}}, {1, {10, 10, 30, 9}}})).empty());
}

// An hour of a clock that is 5 ppm off: what looks like a skew of 18 ms is none.
TEST(Ranks, ClocksThatCameApartAreNoSkew) {
  Rank fast{1, {10, 10, 10}};
  fast.begins_late_ms = 18, fast.wall_offset_ms = -18;
  Rank right{0, {10, 10, 10}};
  right.wall_offset_ms = 0;
  const Json compared = Compared({right, fast});
  EXPECT_EQ(compared.at("steps").at(0).at("begin_skew_ns"), 0);
  EXPECT_EQ(compared.at("clock_offset_ns"), 18 * kMs);
  EXPECT_EQ(compared.at("clock_error_ns"), 100);
  right.wall_offset_ms.reset();  // an agent of before: then nobody's is used
  const Json mixed = Compared({right, fast});
  EXPECT_EQ(mixed.at("steps").at(0).at("begin_skew_ns"), 18 * kMs);
  EXPECT_TRUE(mixed.at("clock_offset_ns").is_null());
}

TEST(Ranks, LateBeginsOnOneHostOnly) {
  // Rank 0 waits for it in each step.
  EXPECT_EQ(Ids(Compared({{0, {14, 14, 14}, 4}, {1, {10, 10, 10}, 0, 4}})),
            (std::vector<std::string>{"waiting_for_others", "late_begin"}));
  Rank falls_behind{1, {10, 10, 10}};
  falls_behind.between_ms = 103;
  EXPECT_EQ(Ids(Compared({{0, {10, 10, 10}}, falls_behind})),
            std::vector<std::string>{"late_begin"});
  // Nobody waits, and the lag does not grow: they were started one after the other.
  EXPECT_TRUE(Ids(Compared({{0, {10, 10, 10}}, {1, {10, 10, 10}, 0, 4}})).empty());
  const Json two_hosts = Compared({{0, {10, 10, 10}}, {1, {10, 10, 10}, 0, 4, "other"}});
  EXPECT_TRUE(Ids(two_hosts).empty());
  EXPECT_NE(RanksText(two_hosts, 8).find("hosts: h (rank 0); other (rank 1). Their clocks are not"),
            std::string::npos);
  EXPECT_TRUE(two_hosts.at("clock_offset_ns").is_null());
}

// The tracer's own start makes a step long, and others wait for its rank: nobody is the slowest.
TEST(Ranks, AStepWithTheTracersStartNamesNobody) {
  std::vector<Json> summaries{Summary({0, {10, 10}}), Summary({1, {12, 12}}),
                              Summary({2, {50, 10}})};
  const auto compare = [&] {
    const Json* pointers[] = {&summaries[0], &summaries[1], &summaries[2]};
    return CompareRanks(pointers).front();
  };
  EXPECT_EQ(compare().at("steps").at(0).at("slowest_rank"), 2);
  for (const char* why : {"contains_tracer_start", "partial"}) {
    summaries[2]["steps"]["each"][0][why] = true;
    const Json first = compare().at("steps").at(0);
    for (const char* key : {"slowest_rank", "slowest_pid", "slowest_name", "slowest_wall_ns"})
      EXPECT_TRUE(first.at(key).is_null()) << why << " " << key;
    EXPECT_EQ(first.at("tracer_started"), 1);
    const std::string text = RanksText(compare(), 8);
    EXPECT_NE(text.find(" tracer start\n"), std::string::npos) << text;
    EXPECT_EQ(compare().at("steps").at(1).at("slowest_rank"), 1);
    EXPECT_EQ(compare().at("steps").at(1).at("tracer_started"), 0);
    summaries[2]["steps"]["each"][0][why] = false;
  }
}

TEST(Ranks, OfOneOrTwoStepsNobodyIsNamed) {
  for (const size_t count : {1, 2, 3}) {
    const auto steps = [count](int64_t ms) { return std::vector<int64_t>(count, ms); };
    const Json compared = Compared({{0, steps(10)}, {1, steps(20), 0, 50}, {2, steps(10)}});
    EXPECT_EQ(compared.at("whole_steps"), count);
    EXPECT_EQ(compared.at("steps_needed"), 3);
    EXPECT_EQ(Ids(compared).empty(), count < 3);
    EXPECT_EQ(compared.at("slowest").is_null(), count < 3);
    const std::string text = RanksText(compared, 8);
    EXPECT_EQ(text.find("  slowest: none is named: ") != std::string::npos, count < 3) << text;
    EXPECT_EQ(text.find("\nToo few steps to say whether") != std::string::npos, count < 3) << text;
    EXPECT_EQ(text.find("  slowest\n") == std::string::npos, count < 3) << text;
  }
  // That ranks wait is seen in two steps; for whom is not.
  const Json waiting = Compared({{0, {20, 20}, 10}, {1, {20, 20}}, {2, {20, 20}, 10}});
  EXPECT_EQ(Ids(waiting), std::vector<std::string>{"waiting_for_others"});
  EXPECT_EQ(waiting.at("readings").at(0).at("evidence").at("text"),
            "too few steps to name a rank that is waited for");
}

// Slices of the clock are as long as the clock makes them.
TEST(Ranks, SlicesOfTheClockAreNotCompared) {
  std::vector<Rank> ranks{{0, {10, 10, 10}}, {1, {20, 20, 20}, 5, 7}, {2, {10, 10, 10}}};
  for (Rank& rank : ranks) rank.step_source = "every:10ms";
  const Json compared = Compared(ranks);
  EXPECT_TRUE(compared.at("slowest").is_null());
  EXPECT_TRUE(compared.at("steps").empty());
  EXPECT_TRUE(compared.at("readings").empty());
  EXPECT_EQ(compared.at("steps_not_compared"), "steps are slices of the clock (every:10ms)");
  EXPECT_EQ(compared.at("ranks").at(1).at("steps"), 3);
  EXPECT_EQ(compared.at("ranks").at(1).at("busy_ns"), 3);
  const std::string text = RanksText(compared, 8);
  EXPECT_NE(text.find("  not compared: steps are slices of the clock (every:10ms)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("whole in two ranks"), std::string::npos) << text;
}

Rank Restarted(int64_t rank, int64_t pid, int64_t starts_at_ms, int64_t wall_ms = 10) {
  return {.rank = rank,
          .walls_ms = {wall_ms, wall_ms, wall_ms},
          .pid = pid,
          .starts_at_ms = starts_at_ms};
}

// An elastic launcher ends all ranks and starts them anew: each lot is compared by itself.
TEST(Ranks, RanksThatWereRestartedAreComparedAmongThemselves) {
  const Json all = AllCompared({Restarted(0, 21, 9000), Restarted(1, 22, 9000, 20),
                                Restarted(0, 11, 0, 20), Restarted(1, 12, 0),
                                Restarted(2, 13, 0)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.at(0).at("ranks").size(), 3U);
  EXPECT_EQ(all.at(0).at("slowest").at("name"), "rank 0");
  EXPECT_EQ(all.at(0).at("ranks").at(0).at("restarted"), false);
  const Json& second = all.at(1);
  EXPECT_EQ((std::pair(second.at("incarnation"), second.at("incarnations"))), std::pair(Json(1), Json(2)));
  ASSERT_EQ(second.at("ranks").size(), 2U);
  EXPECT_EQ(second.at("ranks").at(1).at("name"), "rank 1 (restarted, pid 22)");
  EXPECT_EQ(second.at("slowest").at("name"), "rank 1 (restarted, pid 22)");
  const std::string before = RanksText(all.at(0), 8), after = RanksText(second, 8);
  EXPECT_EQ(before.find("Cycle 0, before a restart (1 of 2)\n"), 0U) << before;
  EXPECT_EQ(after.find("Cycle 0, after a restart (2 of 2)\n"), 0U) << after;
  EXPECT_NE(after.find("other processes than before: rank 0 (restarted, pid 21), rank 1 (restarted, "),
            std::string::npos)
      << after;
  EXPECT_NE(after.find("  pid 22  slowest\n"), std::string::npos) << after;
  EXPECT_NE(after.find("Rank 1 (restarted, pid 22) takes 20"), std::string::npos) << after;
}

// One rank alone came back: its first cycle was at another time than the others'.
TEST(Ranks, OneRankThatWasRestartedIsComparedWithNobody) {
  const Json all = AllCompared(
      {Restarted(0, 11, 0), Restarted(1, 12, 0, 20), Restarted(2, 13, 0), Restarted(1, 22, 9000, 90)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.at(0).at("slowest").at("name"), "rank 1");
  EXPECT_EQ(all.at(1).at("ranks").at(0).at("name"), "rank 1 (restarted, pid 22)");
  EXPECT_TRUE(all.at(1).at("slowest").is_null());
  EXPECT_TRUE(all.at(1).at("steps").at(0).at("slowest_rank").is_null());
  EXPECT_NE(RankRowsText(all.at(1)).find("nothing to compare with: no other rank recorded this"),
            std::string::npos);
}

// A process that lived through it meets both: it stays with the first, and the second is no twin.
TEST(Ranks, ARestartedRankIsNeverComparedWithItsFormerSelf) {
  Rank through = Restarted(5, 15, 0);
  through.walls_ms.assign(200, 10);  // until 20 s
  const Json all = AllCompared({through, Restarted(1, 12, 0), Restarted(1, 22, 9000)});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.at(0).at("ranks").size(), 2U);
  EXPECT_EQ(all.at(1).at("ranks").size(), 1U);
}

// A rank twice (two jobs on one machine, a wrong variable) must not mark both as the slowest.
TEST(Ranks, TwoProcessesOfOneRankAreToldApartByPid) {
  const Json compared =
      Compared({{0, {10, 10, 10}, 0, 0, "h", "", 7}, {0, {30, 30, 30}, 0, 0, "h", "", 8}, {1, {10, 10, 10}}});
  EXPECT_EQ(compared.at("slowest").at("pid"), 8);
  EXPECT_EQ(compared.at("slowest").at("name"), "pid 8");
  EXPECT_EQ(compared.at("steps").at(0).at("slowest_pid"), 8);
  const std::string text = RanksText(compared, 8);
  EXPECT_NE(text.find("slowest: pid 8 in 3 of 3 steps"), std::string::npos) << text;
  EXPECT_EQ(text.find("  pid 7  slowest"), std::string::npos) << text;
  EXPECT_NE(text.find("  pid 8  slowest"), std::string::npos) << text;
  EXPECT_NE(text.find("Pid 8 takes 30"), std::string::npos) << text;
}

// Armed by hand at different steps: the same index is another step.
TEST(Ranks, StepsAreMatchedByTheProcesssOwnCount) {
  const Json compared = Compared({{0, {10, 10}}, {1, {10, 10}, 0, 4, "h", "", 1, /*armed_at=*/50}});
  EXPECT_EQ(compared.at("steps").size(), 4U);
  EXPECT_EQ(compared.at("steps").at(0).at("ranks"), 1);
  EXPECT_TRUE(compared.at("steps").at(0).at("begin_skew_ns").is_null());
  EXPECT_TRUE(Ids(compared).empty());
}

TEST(Ranks, ProcessesWithoutARankAreNamedByPid) {
  const Json compared =
      Compared({{-1, {10, 10, 10}, 0, 0, "h", "", 7}, {-1, {30, 30, 30}, 0, 0, "h", "", 8}});
  EXPECT_TRUE(compared.at("slowest").at("rank").is_null());
  EXPECT_EQ(RanksText(compared, 8).find("-1"), std::string::npos);
  EXPECT_EQ(compared.at("readings").at(0).at("pid"), 8);
}

TEST(Ranks, RunsAreComparedEachOnItsOwn) {
  const Json compared = AllCompared({{0, {10, 10, 10}, 0, 0, "h", "a"},
                                     {1, {12, 12, 12}, 0, 0, "h", "a"},
                                     {0, {90, 90, 90}, 0, 0, "h", "b"},
                                     {1, {80, 80, 80}, 0, 0, "h", "b"},
                                     {0, {70, 70}, 0, 0, "h", "alone"}});
  ASSERT_EQ(compared.size(), 2U);
  EXPECT_EQ(compared.at(0).at("run"), "a");
  EXPECT_EQ(compared.at(0).at("ranks").size(), 2U);
  EXPECT_EQ(compared.at(0).at("slowest").at("rank"), 1);
  EXPECT_EQ(compared.at(1).at("run"), "b");
  EXPECT_EQ(compared.at(1).at("slowest").at("rank"), 0);
  EXPECT_NE(RanksText(compared.at(1), 8).find("Cycle 0 of run b"), std::string::npos);
}

TEST(Ranks, TextFitsAHundredColumns) {
  std::vector<Rank> ranks;
  for (int64_t r = 0; r < 12; ++r) ranks.push_back({r, std::vector<int64_t>(12, 10 + r % 3), 1, r});
  const std::string text = RanksText(Compared(ranks), 8);
  EXPECT_NE(text.find("4 more"), std::string::npos);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    EXPECT_LE(end - at, 102U) << text.substr(at, end - at);  // bytes: an ellipsis has three
    at = end + 1;
  }
}

TEST(Ranks, DocumentsOfAnotherShapeAreLeftOut) {
  const Json odd[] = {Json::object(), Json::parse(R"({"cycle":{"index":0}})"),
                      Json::parse(R"({"cycle":{"index":0},"session":{"id":"x","rank":"one"},
                                      "steps":{"each":[{"index":"a"}]},"devices":3})"),
                      Json(nullptr)};
  std::vector<const Json*> pointers;
  for (const Json& document : odd) pointers.push_back(&document);
  const Json compared = CompareRanks(pointers);
  ASSERT_EQ(compared.size(), 1U);
  EXPECT_FALSE(RanksText(compared.front(), 8).empty());
}

}  // namespace
}  // namespace stepagent::analysis
