#include "collector/model/join_index.h"

#include <algorithm>

namespace stepagent::model {
namespace {

// How far device stamps may run ahead of the host's clock. Reuse of an id within a millisecond
// would take four billion calls in that time.
constexpr TimeNs kClockSlackNs = 1'000'000;

}  // namespace

void JoinIndex::Add(uint32_t correlation, TimeNs begin_ns, int32_t where) {
  if (correlation != 0) entries_.push_back({correlation, where, begin_ns});
}

void JoinIndex::Finish() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.correlation != b.correlation ? a.correlation < b.correlation : a.begin_ns < b.begin_ns;
  });
}

int32_t JoinIndex::Find(uint32_t correlation, std::optional<TimeNs> device_begin_ns) const {
  const auto first =
      std::lower_bound(entries_.begin(), entries_.end(), correlation,
                       [](const Entry& e, uint32_t id) { return e.correlation < id; });
  if (first == entries_.end() || first->correlation != correlation) return kNone;
  auto best = first;
  for (auto it = first; it != entries_.end() && it->correlation == correlation; ++it) {
    if (device_begin_ns && it->begin_ns > *device_begin_ns + kClockSlackNs) break;
    best = it;
  }
  return best->where;
}

}  // namespace stepagent::model
