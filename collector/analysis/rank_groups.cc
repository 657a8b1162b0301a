#include "collector/analysis/rank_groups.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

struct Life {
  const Json* summary = nullptr;
  int64_t rank = -1;
  // From the start of the process's agent to the end of the cycle, which it lived to see.
  int64_t begin_unix_ns = std::numeric_limits<int64_t>::min();
  int64_t end_unix_ns = std::numeric_limits<int64_t>::max();

  [[nodiscard]] bool Meets(const Life& other) const {
    return begin_unix_ns <= other.end_unix_ns && other.begin_unix_ns <= end_unix_ns;
  }
  // Another process of the same rank, at another time.
  [[nodiscard]] bool IsRestartOf(const Life& other) const {
    return rank >= 0 && rank == other.rank && !Meets(other);
  }
};

Life LifeOf(const Json& summary) {
  Life life;
  life.summary = &summary;
  const auto number = [&summary](const char* object, const char* key, int64_t* value) {
    const auto outer = summary.is_object() ? summary.find(object) : summary.end();
    if (!summary.is_object() || outer == summary.end() || !outer->is_object()) return false;
    const auto inner = outer->find(key);
    if (inner == outer->end() || !inner->is_number()) return false;
    *value = inner->get<int64_t>();
    return true;
  };
  number("session", "rank", &life.rank);
  int64_t base = 0, end = 0;
  if (number("window", "base_unix_ns", &base) && number("window", "end_ns", &end)) {
    life.begin_unix_ns = base;
    life.end_unix_ns = base + std::max<int64_t>(end, 0);
  }
  return life;
}

bool IsRestartOfAny(const Life& life, std::span<const Life> others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Life& other) { return life.IsRestartOf(other); });
}

bool FitsInto(const Life& life, std::span<const Life> group) {
  const bool meets_one =
      std::any_of(group.begin(), group.end(), [&](const Life& other) { return life.Meets(other); });
  return meets_one && !IsRestartOfAny(life, group);
}

}  // namespace

std::vector<RankGroup> GroupByTime(std::span<const Json* const> summaries) {
  std::vector<Life> lives;
  for (const Json* summary : summaries) lives.push_back(LifeOf(*summary));
  std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return a.begin_unix_ns < b.begin_unix_ns;
  });
  const bool has_restart = std::any_of(
      lives.begin(), lives.end(), [&](const Life& life) { return IsRestartOfAny(life, lives); });
  std::vector<std::vector<Life>> groups;
  for (const Life& life : lives) {
    // The latest first: a process that was never restarted meets those of before and of after.
    auto group = std::find_if(groups.rbegin(), groups.rend(), [&](const std::vector<Life>& one) {
      return !has_restart || FitsInto(life, one);
    });
    if (group == groups.rend()) {
      groups.emplace_back();
      group = groups.rbegin();
    }
    group->push_back(life);
  }
  std::vector<RankGroup> out;
  for (const std::vector<Life>& group : groups) {
    RankGroup& made = out.emplace_back();
    for (const Life& life : group) {
      made.summaries.push_back(life.summary);
      made.restarted.push_back(std::any_of(lives.begin(), lives.end(), [&](const Life& other) {
        return life.IsRestartOf(other) && other.begin_unix_ns < life.begin_unix_ns;
      }));
    }
  }
  return out;
}

}  // namespace stepagent::analysis
