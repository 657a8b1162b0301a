#include "collector/launch/seen_ranks.h"

#include <unistd.h>

#include <algorithm>

#include "collector/launch/process_tree.h"

namespace stepagent::launch {
namespace {

// Ranks live for minutes; each look reads all of /proc.
constexpr int kLongestPauseMs = 10'000;

std::set<int64_t> Told(const std::set<int64_t>& seen) { return {seen.lower_bound(0), seen.end()}; }

}  // namespace

int SeenRanks::Look() {
  for (const TreeProcess& process : ProcessesBelow(getpid()))
    if (!process.stepagent.empty() && process.told_rank >= 0) ranks_.insert(process.told_rank);
  pause_ms_ = std::min(pause_ms_ * 2, kLongestPauseMs);
  return pause_ms_;
}

std::string RankList(const std::set<int64_t>& ranks) {
  std::string text;
  for (auto from = ranks.begin(); from != ranks.end();) {
    auto to = from;
    for (auto next = std::next(to); next != ranks.end() && *next == *to + 1; ++next) to = next;
    text += (text.empty() ? "" : ", ") + std::to_string(*from);
    if (to != from) text += (*to == *from + 1 ? ", " : "-") + std::to_string(*to);
    from = std::next(to);
  }
  return text;
}

std::string WhyLeftOut(const proto::Settings& settings, const std::set<int64_t>& seen) {
  if (!settings.ranks) return "";
  const std::vector<uint32_t>& chosen = *settings.ranks;
  const std::set<int64_t> told = Told(seen);
  const bool is_any_chosen = std::any_of(
      chosen.begin(), chosen.end(), [&](uint32_t rank) { return told.contains(int64_t{rank}); });
  if (told.empty() || is_any_chosen) return "";
  return "--ranks " + proto::SettingsText(settings).at("ranks") +
         " leaves out every process that was seen (" + (told.size() == 1 ? "rank " : "ranks ") +
         RankList(told) + ")";
}

std::string LeftOutCure(const std::set<int64_t>& seen) {
  std::string list = RankList(Told(seen));
  std::erase(list, ' ');  // as --ranks takes it
  return "--ranks " + list + ", or leave --ranks (STEPAGENT_RANKS) out";
}

}  // namespace stepagent::launch
