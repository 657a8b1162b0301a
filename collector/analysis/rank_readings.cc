#include "collector/analysis/rank_readings.h"

#include <algorithm>
#include <array>
#include <set>

#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

enum RankThreshold : size_t { kLonger, kMostSteps, kWorthALook, kSteps, kRankThresholds };

constexpr std::array<Threshold, kRankThresholds> kTable = {{
    {"rank_longer_share", 0.10, "of own work more than the others; ranks differ by a few per cent"},
    {"rank_most_steps_share", 0.60, "of the steps it is last in; once in a while is a hiccup"},
    {"rank_wait_share", 0.05, "of the step waiting, or late; less is not worth a look"},
    {"rank_steps", 3, "whole in all; of one or two steps chance alone makes some rank the slowest"},
}};

struct Common {
  std::vector<uint64_t> steps;                  // whole in every rank
  std::vector<std::vector<int64_t>> own, wait;  // by rank, then by step
  std::vector<std::vector<int64_t>> late;       // after the first to begin; empty: not known
  int64_t wall_median = 0;
};

Common Gather(const std::vector<RankSteps>& ranks, bool is_one_host) {
  Common out;
  std::vector<int64_t> walls;
  for (const auto& [index, first] : ranks.front().steps) {
    // Named again: clang before 16 does not capture a structured binding.
    const bool is_common =
        std::all_of(ranks.begin(), ranks.end(), [step = index](const auto& rank) {
          const auto it = rank.steps.find(step);
          return it != rank.steps.end() && it->second.is_whole;
        });
    if (is_common) out.steps.push_back(index);
  }
  out.own.resize(ranks.size());
  out.wait.resize(ranks.size());
  out.late.resize(ranks.size());
  for (const uint64_t index : out.steps) {
    std::optional<int64_t> earliest;
    bool has_all = is_one_host;
    for (const RankSteps& rank : ranks) {
      const auto& begin = rank.steps.at(index).begin_unix_ns;
      has_all &= begin.has_value();
      if (begin && (!earliest || *begin < *earliest)) earliest = begin;
    }
    for (size_t r = 0; r < ranks.size(); ++r) {
      const RankStep& step = ranks[r].steps.at(index);
      out.own[r].push_back(step.OwnNs());
      out.wait[r].push_back(step.exposed_ns);
      if (has_all) out.late[r].push_back(*step.begin_unix_ns - *earliest);
      walls.push_back(step.wall_ns);
    }
  }
  out.wall_median = Median(walls).value_or(0);
  return out;
}

int64_t MedianOf(const std::vector<int64_t>& values) { return Median(values).value_or(0); }

int64_t MedianOfOthers(const std::vector<std::vector<int64_t>>& by_rank, size_t except) {
  std::vector<int64_t> medians;
  for (size_t r = 0; r < by_rank.size(); ++r) {
    if (r != except) medians.push_back(MedianOf(by_rank[r]));
  }
  return MedianOf(medians);
}

std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = char(text[0] - 'a' + 'A');
  return text;
}

// In how many steps this rank has the largest value of all.
size_t TimesLargest(const std::vector<std::vector<int64_t>>& by_rank, size_t rank) {
  size_t times = 0;
  for (size_t s = 0; s < by_rank[rank].size(); ++s) {
    const bool is_largest = std::all_of(by_rank.begin(), by_rank.end(), [&](const auto& other) {
      return other[s] <= by_rank[rank][s];
    });
    times += is_largest ? 1 : 0;
  }
  return times;
}

// "Ranks 0-2, 4"; by name where a rank is not one process's alone.
std::string RankList(const std::vector<const RankSteps*>& waiting) {
  std::vector<int64_t> ranks;
  std::string names;
  bool is_by_rank = true;
  for (const RankSteps* one : waiting) {
    ranks.push_back(one->rank);
    names += (names.empty() ? "" : ", ") + one->name;
    is_by_rank &= one->name.starts_with("rank ");
  }
  if (!is_by_rank) return Capital(names);
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
    if (j > i) text += (j == i + 1 ? ", " : "-") + std::to_string(ranks[j]);
    i = j + 1;
  }
  return "Ranks " + text;
}

Json NumbersOf(const std::vector<const RankSteps*>& some) {
  Json numbers = Json::array();
  for (const RankSteps* one : some) numbers.push_back(one->rank < 0 ? Json() : Json(one->rank));
  return numbers;
}

Json Reading(const char* id, const RankSteps* who, std::string observation, Json evidence,
             const char* hypothesis, std::string next_check) {
  return {{"id", id},
          {"rank", who == nullptr || who->rank < 0 ? Json(nullptr) : Json(who->rank)},
          {"pid", who == nullptr || who->pid < 0 ? Json(nullptr) : Json(who->pid)},
          {"observation", std::move(observation)},
          {"evidence", std::move(evidence)},
          {"hypothesis", hypothesis},
          {"next_check", std::move(next_check)}};
}

// A rank whose own work is longer than the others', step after step.
void OwnWork(const std::vector<RankSteps>& ranks, const Common& common, std::set<size_t>* named,
             Json* out) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t own = MedianOf(common.own[r]), others = MedianOfOthers(common.own, r);
    const size_t times = TimesLargest(common.own, r), steps = common.steps.size();
    const bool is_longer = others > 0 && double(own) > double(others) * (1 + kTable[kLonger].value);
    if (!is_longer || double(times) < kTable[kMostSteps].value * double(steps)) continue;
    named->insert(r);
    const int64_t wait = MedianOf(common.wait[r]), others_wait = MedianOfOthers(common.wait, r);
    std::string text = fmt::format(
        "slowest by own work in {} of {} steps that the ranks compared have whole", times, steps);
    if (others_wait > 0) {
      text += fmt::format("; in collectives with no compute beside {} a step, the others {}",
                          Duration(wait), Duration(others_wait));
    }
    out->push_back(Reading(
        "straggler", &ranks[r],
        fmt::format("{} takes {} of own work a step, the others {}: {} more.",
                    Capital(ranks[r].name), Duration(own), Duration(others),
                    Percent(double(own) / double(others) - 1)),
        {{"text", text},
         {"own_ns", own},
         {"others_own_ns", others},
         {"slowest_in_steps", times},
         {"steps", steps}},
        "This rank itself works longer: more or longer input, a slower or shared processor, a "
        "throttled device. Its waiting for others is left out; its own part of a transfer is not "
        "told apart from waiting.",
        fmt::format("stepagent diff of {} and another of this cycle; then exchange the two "
                    "ranks' devices or hosts and see whether it moves along.",
                    ranks[r].name)));
  }
}

// The ranks that wait in collectives, beside one that does not.
void Waiting(const std::vector<RankSteps>& ranks, const Common& common,
             const std::set<size_t>& named, Json* out) {
  std::vector<const RankSteps*> waiting;
  std::vector<int64_t> waits;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int64_t wait = MedianOf(common.wait[r]);
    if (named.contains(r) || double(wait) < kTable[kWorthALook].value * double(common.wall_median))
      continue;
    waiting.push_back(&ranks[r]);
    waits.push_back(wait);
  }
  if (waiting.empty()) return;
  std::string who;
  for (const size_t r : named) who += (who.empty() ? "" : ", ") + ranks[r].name;
  const int64_t median = MedianOf(waits);
  const std::string cause = common.steps.size() < LeastSteps()
                                ? "too few steps to name a rank that is waited for"
                            : who.empty() ? "no rank's own work stands out"
                                          : "own work of " + who + " stands out, and it waits less";
  out->push_back(Reading(
      "waiting_for_others", nullptr,
      fmt::format("{} are {} a step in collectives with no compute beside ({} of the step).",
                  RankList(waiting), Duration(median),
                  Percent(double(median) / double(common.wall_median))),
      {{"text", cause}, {"ranks", NumbersOf(waiting)}, {"exposed_median_ns", median}},
      "Waiting for another rank and transferring data look alike from one side: where a straggler "
      "is named it is mostly waiting, else mostly transfer.",
      who.empty() ? "Measure the collective alone at this size; a wait goes away, a transfer stays."
                  : "Look at " + who + " first; this time shrinks with its own work."));
}

// A lag that stays as it was, among ranks that wait for nobody, is the order in which they started.
bool MattersToOthers(const Common& common, const std::vector<int64_t>& late) {
  const double worth = kTable[kWorthALook].value * double(common.wall_median);
  const bool somebody_waits = std::any_of(
      common.wait.begin(), common.wait.end(),
      [&](const std::vector<int64_t>& waits) { return double(MedianOf(waits)) >= worth; });
  return somebody_waits || double(late.back() - late.front()) >= worth * double(late.size() - 1);
}

// A rank that begins its steps after the others.
void LateBegin(const std::vector<RankSteps>& ranks, const Common& common, Json* out) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (common.late[r].size() != common.steps.size()) return;
    const int64_t late = MedianOf(common.late[r]), others = MedianOfOthers(common.late, r);
    const size_t times = TimesLargest(common.late, r);
    const bool is_last = double(times) >= kTable[kMostSteps].value * double(common.steps.size());
    if (!is_last || double(late - others) < kTable[kWorthALook].value * double(common.wall_median))
      continue;
    if (!MattersToOthers(common, common.late[r])) continue;
    out->push_back(Reading(
        "late_begin", &ranks[r],
        fmt::format("{} begins its steps {} after the first rank, the others {}.",
                    Capital(ranks[r].name), Duration(late), Duration(others)),
        {{"text", fmt::format("last to begin in {} of {} steps", times, common.steps.size())},
         {"late_ns", late},
         {"others_late_ns", others}},
        "What it does between steps takes longer, and the others wait for it or leave it behind.",
        "Compare the ranges between its steps with another rank's; see whether the lag grows from "
        "step to step."));
  }
}

}  // namespace

std::span<const Threshold> RankThresholds() { return kTable; }

uint64_t LeastSteps() { return static_cast<uint64_t>(kTable[kSteps].value); }

Json RankReadings(const std::vector<RankSteps>& ranks, bool is_one_host) {
  Json out = Json::array();
  if (ranks.size() < 2) return out;
  const Common common = Gather(ranks, is_one_host);
  if (common.steps.empty() || common.wall_median <= 0) return out;
  const bool may_name = common.steps.size() >= LeastSteps();
  std::set<size_t> named;
  if (may_name) OwnWork(ranks, common, &named, &out);
  Waiting(ranks, common, named, &out);
  if (may_name) LateBegin(ranks, common, &out);
  return out;
}

}  // namespace stepagent::analysis
