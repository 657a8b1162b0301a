#include "collector/writers/html_choice.h"

#include <bit>

namespace stepagent::writers {

size_t LongestChoice::BucketOf(int64_t length_ns) {
  const auto length = static_cast<uint64_t>(std::max<int64_t>(length_ns, 0));
  if (length < (1U << kFineBits)) return static_cast<size_t>(length);
  const auto exponent = static_cast<uint32_t>(std::bit_width(length)) - 1 - kFineBits;
  const uint64_t fine = (length >> exponent) & ((1U << kFineBits) - 1);
  return static_cast<size_t>((uint64_t{exponent} + 1) << kFineBits | fine);
}

void LongestChoice::Count(int64_t length_ns) {
  ++buckets_[BucketOf(length_ns)];
  ++counted_;
}

void LongestChoice::Decide() {
  uint64_t left = limit_;
  border_ = kBuckets;
  while (border_ > 0 && buckets_[border_ - 1] <= left) left -= buckets_[--border_];
  // The bucket below the border is the first that does not fit whole.
  border_share_ = border_ > 0 ? left : 0;
  border_at_ = 0;
}

bool LongestChoice::Takes(int64_t length_ns) {
  const size_t bucket = BucketOf(length_ns);
  if (bucket >= border_) return true;
  if (bucket + 1 < border_ || border_share_ == 0) return false;
  border_at_ += border_share_;
  if (border_at_ < buckets_[bucket]) return false;
  border_at_ -= buckets_[bucket];
  return true;
}

void Bundler::Add(uint32_t row, model::TimeNs begin_ns, model::TimeNs end_ns) {
  if (row >= open_.size()) return;
  Open& open = open_[row];
  const int64_t bin = (begin_ns - base_ns_) / bin_ns_;
  if (open.bundle.count > 0 && open.bin != bin) {
    emit_(open.bundle);
    open.bundle.count = 0;
  }
  Bundle& b = open.bundle;
  end_ns = std::max(begin_ns, end_ns);
  if (b.count == 0) {
    open.bin = bin;
    b = {row, begin_ns, end_ns, 1, end_ns - begin_ns};
    return;
  }
  ++b.count;
  b.covered_ns += std::max<int64_t>(0, end_ns - std::max(begin_ns, b.end_ns));
  b.end_ns = std::max(b.end_ns, end_ns);
}

void Bundler::Finish() {
  for (Open& open : open_) {
    if (open.bundle.count > 0) emit_(open.bundle);
    open.bundle.count = 0;
  }
}

}  // namespace stepagent::writers
