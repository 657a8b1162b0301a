#pragma once
// Where a thread of the host was: its innermost range and its innermost call, moment by moment.
//
// Purpose: what the host did while a device had nothing to do. Walked once, from the begin of a
// cycle to its end. Of ranges that are open at once the one that began last is the innermost, of
// those that began together the shortest.
// Thread rule: one object, one thread.
// Failure rule: none; memory is one number for each range and call of the thread.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::analysis {

// Of items in order of their begin, those that are open at a moment that only moves on.
template <typename Item>
class OpenItems {
 public:
  static constexpr model::TimeNs kEnd = std::numeric_limits<model::TimeNs>::max();

  OpenItems(const std::vector<Item>& items, std::vector<uint32_t> order)
      : items_(items), order_(std::move(order)) {}
  // Returns until when innermost() stays what it is; after `at`.
  model::TimeNs MoveTo(model::TimeNs at) {
    std::erase_if(open_, [&](uint32_t i) { return items_[i].end_ns <= at; });
    for (; next_ < order_.size() && items_[order_[next_]].begin_ns <= at; ++next_) {
      if (items_[order_[next_]].end_ns > at) open_.push_back(order_[next_]);
    }
    model::TimeNs until = next_ < order_.size() ? items_[order_[next_]].begin_ns : kEnd;
    for (const uint32_t i : open_) until = std::min(until, items_[i].end_ns);
    return until;
  }
  // An index into the items, or kNoIndex.
  [[nodiscard]] int32_t innermost() const {
    return open_.empty() ? model::kNoIndex : static_cast<int32_t>(open_.back());
  }

 private:
  const std::vector<Item>& items_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
  std::vector<uint32_t> open_;
};

class HostPlace {
 public:
  HostPlace(const model::Cycle& cycle, uint32_t thread);
  // `at` is not before the moment of the last call. Returns until when range() and call() hold.
  model::TimeNs MoveTo(model::TimeNs at) { return std::min(ranges_.MoveTo(at), calls_.MoveTo(at)); }
  [[nodiscard]] int32_t range() const { return ranges_.innermost(); }
  [[nodiscard]] int32_t call() const { return calls_.innermost(); }

 private:
  OpenItems<model::Range> ranges_;
  OpenItems<model::Call> calls_;
};

}  // namespace stepagent::analysis
