#pragma once
// Unions of time intervals: how long, not how much.
//
// Purpose: two kernels side by side keep the device busy once. Everything that says "busy", "idle"
// or "under" is a union; sums of durations are only ever called totals.
// Thread rule: plain values.
// Failure rule: empty and reversed intervals add nothing.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

struct Interval {
  model::TimeNs begin_ns = 0, end_ns = 0;
};

// Length of a union whose members arrive by begin: no memory but the last end.
class RunningUnion {
 public:
  void Add(model::TimeNs begin, model::TimeNs end) {
    if (end <= begin || (has_any_ && end <= last_end_)) return;
    total_ += end - (has_any_ ? std::max(begin, last_end_) : begin);
    last_end_ = end;
    has_any_ = true;
  }
  [[nodiscard]] int64_t total_ns() const { return total_; }

 private:
  model::TimeNs last_end_ = 0;
  int64_t total_ = 0;
  bool has_any_ = false;
};

// A union kept as disjoint intervals in order. Members arrive by begin.
class IntervalUnion {
 public:
  void Add(model::TimeNs begin, model::TimeNs end) {
    if (end <= begin) return;
    if (!parts_.empty() && begin <= parts_.back().end_ns) {
      parts_.back().end_ns = std::max(parts_.back().end_ns, end);
    } else {
      parts_.push_back({begin, end});
    }
  }
  [[nodiscard]] const std::vector<Interval>& parts() const { return parts_; }
  [[nodiscard]] int64_t TotalNs() const;
  // Part of [begin, end) that is covered.
  [[nodiscard]] int64_t CoveredNs(model::TimeNs begin, model::TimeNs end) const;

 private:
  std::vector<Interval> parts_;
};

[[nodiscard]] IntervalUnion MakeUnion(std::vector<Interval> members);
[[nodiscard]] int64_t IntersectionNs(const IntervalUnion& a, const IntervalUnion& b);
// What of `a` no part of `b` covers.
[[nodiscard]] IntervalUnion Without(const IntervalUnion& a, const IntervalUnion& b);

}  // namespace stepagent::analysis
