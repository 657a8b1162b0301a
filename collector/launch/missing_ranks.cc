#include "collector/launch/missing_ranks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "collector/launch/seen_ranks.h"
#include "proto/settings.h"

namespace stepagent::launch {
namespace {

// More ranks than any job of today has; a number beyond it is no number of ranks.
constexpr int64_t kMostRanks = 65536;

std::string Named(const std::set<int64_t>& ranks, const char* what_one, const char* what_many) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + RankList(ranks) +
         (ranks.size() == 1 ? what_one : what_many);
}

// Those that --ranks let record; nullopt: all.
std::optional<std::set<int64_t>> Chosen(const std::vector<SessionEntry>& sessions) {
  for (const SessionEntry& session : sessions) {
    proto::Settings settings = proto::DefaultSettings();
    const bool is_text = !session.ranks.empty();
    if (!is_text || proto::ApplySetting("--ranks", session.ranks, &settings)) continue;
    if (settings.ranks) return std::set<int64_t>(settings.ranks->begin(), settings.ranks->end());
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> MissingRanks(const std::vector<SessionEntry>& sessions) {
  int64_t world = 0;
  std::set<int64_t> there, without_cycle, missing;
  for (const SessionEntry& session : sessions) {
    world = std::max(world, session.world_size);
    there.insert(session.rank);
    const bool goes_on = session.state != "closed" && session.IsAlive();
    if (session.cycles.empty() && session.rank >= 0 && !goes_on) without_cycle.insert(session.rank);
  }
  const auto chosen = Chosen(sessions);
  for (int64_t rank = 0; rank < world && world <= kMostRanks; ++rank) {
    if (!there.contains(rank) && (!chosen || chosen->contains(rank))) missing.insert(rank);
  }
  std::set<int64_t> beyond;  // asked for, and there is no such rank
  if (chosen && world > 0 && world <= kMostRanks)
    std::copy_if(chosen->begin(), chosen->end(), std::inserter(beyond, beyond.end()),
                 [&](int64_t rank) { return rank >= world && !there.contains(rank); });
  std::vector<std::string> lines;
  if (!beyond.empty())
    lines.push_back(Named(beyond, " of --ranks is", " of --ranks are") +
                    " none of the run's: it has " + std::to_string(world) +
                    (world == 1 ? " rank" : " ranks"));
  if (!missing.empty())
    lines.push_back(Named(missing,
                          " ended before its warmup: no cycle (unless it ran on another host, or "
                          "as a run of its own)",
                          " ended before their warmup: no cycle (unless they ran on another host, "
                          "or as runs of their own)"));
  if (!without_cycle.empty())
    lines.push_back(Named(without_cycle, " ended before its first active step: no cycle",
                          " ended before their first active step: no cycle"));
  return lines;
}

std::vector<std::string> RanksBeyondWorld(const std::vector<SessionEntry>& sessions) {
  std::map<int64_t, std::set<int64_t>> by_world;
  for (const SessionEntry& session : sessions)
    if (session.world_size >= 0 && session.rank >= session.world_size)
      by_world[session.world_size].insert(session.rank);
  std::vector<std::string> lines;
  for (const auto& [world, ranks] : by_world)
    lines.push_back(Named(ranks, " is", " are") + " not below the number of ranks, " +
                    std::to_string(world) +
                    ": the launcher's variables disagree; taken as they are");
  return lines;
}

}  // namespace stepagent::launch
