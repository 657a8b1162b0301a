#pragma once
// What a page of bounded size draws singly, and what it draws together.
//
// Purpose: the longest items are drawn singly; the short ones are gathered per row and bin of time,
// with their number and the time they cover, so that a row never looks idle where it was not.
// Invariant: Takes() is called for the same lengths in the same order as Count() was.
// Thread rule: one object, one thread. Failure rule: cannot fail. Memory: fixed for the choice, one
// open bundle a row.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::writers {

// Lengths go into buckets 3 % wide. Whole buckets are taken, longest first; of the bucket in which
// the limit falls, items are taken evenly over its sequence.
class LongestChoice {
 public:
  explicit LongestChoice(uint64_t limit) : limit_(limit) {}
  void Count(int64_t length_ns);
  void Decide();
  [[nodiscard]] bool Takes(int64_t length_ns);
  [[nodiscard]] uint64_t counted() const { return counted_; }
  [[nodiscard]] uint64_t taken() const { return std::min(counted_, limit_); }
  [[nodiscard]] bool TakesAll() const { return counted_ <= limit_; }

 private:
  static constexpr uint32_t kFineBits = 5;
  static constexpr size_t kBuckets = 64U << kFineBits;
  static size_t BucketOf(int64_t length_ns);

  const uint64_t limit_;
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t counted_ = 0;
  size_t border_ = 0;                          // buckets above are taken whole
  uint64_t border_share_ = 0, border_at_ = 0;  // how many of the border's bucket
};

struct Bundle {
  uint32_t row = 0;
  model::TimeNs begin_ns = 0, end_ns = 0;
  uint64_t count = 0;
  int64_t covered_ns = 0;  // union of its items
};

class Bundler {
 public:
  using Emit = std::function<void(const Bundle&)>;
  Bundler(size_t rows, model::TimeNs base_ns, int64_t bin_ns, Emit emit)
      : open_(rows),
        base_ns_(base_ns),
        bin_ns_(std::max<int64_t>(bin_ns, 1)),
        emit_(std::move(emit)) {}
  // By begin, within each row.
  void Add(uint32_t row, model::TimeNs begin_ns, model::TimeNs end_ns);
  void Finish();

 private:
  struct Open {
    Bundle bundle;
    int64_t bin = 0;
  };
  std::vector<Open> open_;
  const model::TimeNs base_ns_;
  const int64_t bin_ns_;
  const Emit emit_;
};

}  // namespace stepagent::writers
