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
};

Json Summary(const Rank& r, uint64_t cycle = 0) {
  Json each = Json::array();
  int64_t at = r.begins_late_ms * kMs;
  for (size_t i = 0; i < r.walls_ms.size(); ++i, at += 100 * kMs) {
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
            {"host", r.host}}},
          {"cycle", {{"index", cycle}}},
          {"window", {{"base_unix_ns", 1000}}},
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
  const Json compared = Compared({{1, {12, 12}}, {0, {10, 10}}});
  ASSERT_EQ(compared.at("ranks").size(), 2U);
  const Json& row = compared.at("ranks").at(0);
  EXPECT_EQ(row.at("rank"), 0);
  EXPECT_EQ(row.at("step_median_ns"), 10 * kMs);
  EXPECT_EQ(row.at("step_spread_ns"), kMs);
  EXPECT_EQ(row.at("launches"), 10);
  EXPECT_EQ(row.at("busy_ns"), 3);
  EXPECT_EQ(compared.at("slowest").at("rank"), 1);
  EXPECT_EQ(compared.at("slowest").at("steps"), 2);
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
  const Json compared = Compared({{0, {10, 10}}, {1, {13, 13, 13}}, {2, {10, 10, 10}}});
  EXPECT_EQ(compared.at("steps").size(), 3U);
  EXPECT_EQ(compared.at("slowest").at("steps"), 2);
  const std::string text = RanksText(compared, 8);
  EXPECT_NE(text.find("slowest: rank 1 in 2 of 2 steps that all ranks have whole"),
            std::string::npos)
      << text;
  EXPECT_EQ(compared.at("readings").at(0).at("evidence").at("text"),
            "slowest by own work in 2 of 2 steps that the ranks compared have whole");
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

TEST(Ranks, WithoutAWholeStepNothingIsSaidOfRanks) {
  const Json compared =
      Compared({{0, {10, 11}}, Rank{.rank = 1, .walls_ms = {11, 10}, .is_cut = true}});
  const std::string text = RanksText(compared, 8);
  EXPECT_EQ(text.find("alike"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing can be said of who is slower"), std::string::npos);
}

TEST(Ranks, AlikeRanksGiveNoReading) {
  EXPECT_TRUE(Ids(Compared({{0, {10, 11}}, {1, {11, 10}}, {2, {10, 10}}})).empty());
  const Json compared = Compared({{0, {10, 11}}, {1, {11, 10}}});
  EXPECT_NE(RanksText(compared, 8).find("No rank stands out"), std::string::npos);
}

TEST(Ranks, ASlowRankIsNamedWithoutCollectives) {
  const Json compared = Compared({{0, {10, 10}}, {1, {13, 13}}, {2, {10, 10}}});
  EXPECT_EQ(Ids(compared), std::vector<std::string>{"straggler"});
  EXPECT_EQ(compared.at("readings").at(0).at("rank"), 1);
  EXPECT_NE(RanksText(compared, 8).find("30.0 % more"), std::string::npos);
}

// All walls are equal because everybody waits for rank 2: only own work tells.
TEST(Ranks, WaitingIsNotOwnWork) {
  const Json compared =
      Compared({{0, {13, 13}, 3}, {1, {13, 13}, 3}, {2, {13, 13}, 0}, {3, {13, 13}, 3}});
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

TEST(Ranks, LateBeginsOnOneHostOnly) {
  EXPECT_EQ(Ids(Compared({{0, {10, 10}}, {1, {10, 10}, 0, 4}})),
            std::vector<std::string>{"late_begin"});
  const Json two_hosts = Compared({{0, {10, 10}}, {1, {10, 10}, 0, 4, "other"}});
  EXPECT_TRUE(Ids(two_hosts).empty());
  EXPECT_NE(RanksText(two_hosts, 8).find("hosts: h (rank 0); other (rank 1). Their clocks are not"),
            std::string::npos);
  EXPECT_TRUE(two_hosts.at("clock_offset_ns").is_null());
}

// The tracer's own start makes a step long: its rank is not the slowest for that.
TEST(Ranks, AStepWithTheTracersStartNamesNobody) {
  std::vector<Json> summaries{Summary({0, {10, 10}}), Summary({1, {12, 12}}),
                              Summary({2, {50, 10}})};
  const auto compare = [&] {
    const Json* pointers[] = {&summaries[0], &summaries[1], &summaries[2]};
    return CompareRanks(pointers).front();
  };
  EXPECT_EQ(compare().at("steps").at(0).at("slowest_rank"), 2);
  summaries[2]["steps"]["each"][0]["contains_tracer_start"] = true;
  Json first = compare().at("steps").at(0);
  EXPECT_EQ(first.at("slowest_rank"), 1);
  EXPECT_EQ(first.at("tracer_started"), 1);
  const std::string text = RanksText(compare(), 8);
  EXPECT_NE(text.find(" tracer start\n"), std::string::npos) << text;
  summaries[1]["steps"]["each"][0]["partial"] = true;
  first = compare().at("steps").at(0);
  EXPECT_TRUE(first.at("slowest_rank").is_null());
  EXPECT_TRUE(first.at("slowest_wall_ns").is_null());
  EXPECT_EQ(compare().at("steps").at(1).at("tracer_started"), 0);
}

// A rank twice (two jobs on one machine, a wrong variable) must not mark both as the slowest.
TEST(Ranks, TwoProcessesOfOneRankAreToldApartByPid) {
  const Json compared =
      Compared({{0, {10, 10}, 0, 0, "h", "", 7}, {0, {30, 30}, 0, 0, "h", "", 8}, {1, {10, 10}}});
  EXPECT_EQ(compared.at("slowest").at("pid"), 8);
  EXPECT_EQ(compared.at("slowest").at("name"), "pid 8");
  EXPECT_EQ(compared.at("steps").at(0).at("slowest_pid"), 8);
  const std::string text = RanksText(compared, 8);
  EXPECT_NE(text.find("slowest: pid 8 in 2 of 2 steps"), std::string::npos) << text;
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
      Compared({{-1, {10, 10}, 0, 0, "h", "", 7}, {-1, {30, 30}, 0, 0, "h", "", 8}});
  EXPECT_TRUE(compared.at("slowest").at("rank").is_null());
  EXPECT_EQ(RanksText(compared, 8).find("-1"), std::string::npos);
  EXPECT_EQ(compared.at("readings").at(0).at("pid"), 8);
}

TEST(Ranks, RunsAreComparedEachOnItsOwn) {
  const Json compared = AllCompared({{0, {10, 10}, 0, 0, "h", "a"},
                                     {1, {12, 12}, 0, 0, "h", "a"},
                                     {0, {90, 90}, 0, 0, "h", "b"},
                                     {1, {80, 80}, 0, 0, "h", "b"},
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
