#include "collector/model/sequence_tracker.h"

#include <cstddef>
#include <iterator>

namespace stepagent::model {
namespace {

constexpr size_t kMaxGaps = 4096;

}  // namespace

void SequenceTracker::AddGap(uint64_t first, uint64_t end) {
  missing_ += end - first;
  if (gaps_.size() < kMaxGaps) gaps_.emplace(first, end);
}

bool SequenceTracker::Accept(uint64_t sequence) {
  if (sequence >= next_) {
    if (sequence > next_) AddGap(next_, sequence);
    next_ = sequence + 1;
    return true;
  }
  auto gap = gaps_.upper_bound(sequence);
  if (gap == gaps_.begin()) return false;
  --gap;
  const auto [first, end] = *gap;
  if (sequence >= end) return false;
  gaps_.erase(gap);
  if (first < sequence) gaps_.emplace(first, sequence);
  if (sequence + 1 < end) gaps_.emplace(sequence + 1, end);
  --missing_;
  return true;
}

bool SequenceTracker::IsAnyMissing(uint64_t first, uint64_t end) const {
  auto gap = gaps_.lower_bound(end);  // the first that begins behind
  return gap != gaps_.begin() && std::prev(gap)->second > first;
}

void SequenceTracker::Expect(uint64_t last) {
  if (last < next_) return;
  AddGap(next_, last + 1);
  next_ = last + 1;
}

}  // namespace stepagent::model
