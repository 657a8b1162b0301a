#include "collector/model/join_index.h"

#include <algorithm>

#include "collector/model/record_lists.h"

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
  SortRuns(&entries_, [](const Launch& a, const Launch& b) {
    return a.correlation != b.correlation ? a.correlation < b.correlation : a.begin_ns < b.begin_ns;
  });
}

void JoinIndex::ForgetHere() {
  std::erase_if(entries_, [](const Launch& entry) { return entry.where >= 0; });
}

bool JoinIndex::HasTwoHere() const {
  bool has_one = false;  // of the id at hand
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0 && entries_[i].correlation != entries_[i - 1].correlation) has_one = false;
    if (entries_[i].where < 0) continue;
    if (has_one) return true;
    has_one = true;
  }
  return false;
}

int32_t JoinIndex::Find(uint32_t correlation, std::optional<TimeNs> device_begin_ns) const {
  const auto is_before = [](const Launch& e, uint32_t id) { return e.correlation < id; };
  // From the last answer on, in steps that double, to a stretch that holds the id.
  auto from = entries_.begin(), to = entries_.end();
  if (last_ < entries_.size() && is_before(entries_[last_], correlation)) {
    size_t step = 1;
    while (last_ + step < entries_.size() && is_before(entries_[last_ + step], correlation)) {
      step *= 2;
    }
    from += static_cast<std::ptrdiff_t>(last_ + step / 2);
    if (last_ + step < entries_.size()) {
      to = entries_.begin() + static_cast<std::ptrdiff_t>(last_ + step) + 1;
    }
  }
  const auto first = std::lower_bound(from, to, correlation, is_before);
  last_ = static_cast<size_t>(first - entries_.begin());
  if (first == entries_.end() || first->correlation != correlation) return kNone;
  auto best = first;
  for (auto it = first; it != entries_.end() && it->correlation == correlation; ++it) {
    if (device_begin_ns && it->begin_ns > *device_begin_ns + kClockSlackNs) break;
    best = it;
  }
  return best->where == Launch::kEarlier ? kOutside : best->where;
}

std::vector<Launch> JoinIndex::Take() {
  std::erase_if(entries_, [](Launch& launch) {
    if (launch.where == Launch::kEarlier || launch.where == Launch::kLater) return true;
    launch.where = Launch::kEarlier;
    return false;
  });
  return std::exchange(entries_, {});
}

}  // namespace stepagent::model
