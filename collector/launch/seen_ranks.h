#pragma once
// Which ranks the processes of a run say they are, and what --ranks makes of that.
//
// Purpose: a process that --ranks leaves out tells nobody of itself. Where --ranks is given the
// launcher looks at the processes below it now and then, so that a run of which nothing was
// recorded can be explained.
// Thread rule: main thread only.
// Failure rule: a rank that came and went between two looks is not seen, and not spoken of.
#include <cstdint>
#include <set>
#include <string>

#include "proto/settings.h"

namespace stepagent::launch {

class SeenRanks {
 public:
  // Of the processes below this one that have the library in them. The time until the next look,
  // in milliseconds: soon at first, for programs that are short.
  int Look();
  [[nodiscard]] const std::set<int64_t>& ranks() const { return ranks_; }

 private:
  std::set<int64_t> ranks_;
  int pause_ms_ = 10;
};

// "0-3, 9"
[[nodiscard]] std::string RankList(const std::set<int64_t>& ranks);
// "--ranks 7 leaves out every process that was seen (ranks 0-3)"; "" without --ranks, where one of
// them is chosen, or none was seen. Ranks below zero are processes that were told none.
[[nodiscard]] std::string WhyLeftOut(const proto::Settings& settings,
                                     const std::set<int64_t>& seen);
// What to type then: "--ranks 0-3, or leave --ranks (STEPAGENT_RANKS) out".
[[nodiscard]] std::string LeftOutCure(const std::set<int64_t>& seen);

}  // namespace stepagent::launch
