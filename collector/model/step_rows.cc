#include "collector/model/step_rows.h"

#include <algorithm>

namespace stepagent::model {

uint64_t StepRowStore::Random() {  // xorshift64
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

void StepRowStore::MakeRoom(size_t wanted) {
  while (!rows_.empty() && rows_.size() + wanted > kMostStepRows) {
    StepDuration& row = rows_[Random() % rows_.size()];
    indexes_.erase(row.index);
    row = rows_.back();
    rows_.pop_back();
  }
}

void StepRowStore::Take(const v1::AllSteps& rows) {
  count_ = std::max(count_, rows.count());
  std::vector<StepDuration> fresh;
  const int n = std::min(rows.index_size(), rows.duration_ns_size());
  for (int i = 0; i < n && fresh.size() < kMostStepRows; ++i) {
    const auto collecting =
        i < rows.collecting_size() ? static_cast<uint8_t>(rows.collecting(i)) : uint8_t{0};
    if (!indexes_.insert(rows.index(i)).second) continue;
    fresh.push_back({rows.index(i), rows.duration_ns(i), collecting});
  }
  MakeRoom(fresh.size());
  rows_.insert(rows_.end(), fresh.begin(), fresh.end());
}

void StepRowStore::Learn(uint64_t index, uint64_t dur_ns) {
  if (known_.size() < kMostStepRows) known_[index] = dur_ns;
}

AllSteps StepRowStore::All() const {
  AllSteps all{.count = count_, .each = rows_};
  for (StepDuration& row : all.each) {
    const auto known = known_.find(row.index);
    if (known != known_.end()) row.dur_ns = known->second;
  }
  std::sort(all.each.begin(), all.each.end(),
            [](const StepDuration& a, const StepDuration& b) { return a.index < b.index; });
  return all;
}

bool StepRowStore::has_gap() const {
  return rows_.size() < std::min<uint64_t>(count_, kMostStepRows);
}

}  // namespace stepagent::model
