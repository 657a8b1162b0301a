#pragma once
// Walks the rows of a time line in order and gives each item a lane on which nothing overlaps
// partly.
//
// Purpose: viewers nest intervals of one row and drop, or mis-nest, what overlaps partly. Items
// come merged from several sorted sources; what does not fit on a row's lane 0 goes to lane 1, 2, …
// The walk is repeatable: a first one finds the lanes (for the metadata), a second one writes.
//
// Invariants: (1) items of a walk are ordered by begin, longer first, then by rank of their source;
// (2) on a lane two intervals are nested, disjoint or equal; (3) exclusive items (device work)
// never share time on a lane; (4) a movable item (start/end range, step, annotation) never
// displaces a fixed one. Thread rule: one object, one thread; sources must outlive it. Failure
// rule: none. Memory: the open intervals of each row, and the movable items.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::writers {

struct RowItem {
  model::TimeNs begin_ns = 0, end_ns = 0;
  uint32_t row = 0;    // dense
  uint32_t index = 0;  // of the item within its source
  uint8_t source = 0;  // rank: lower is outer when two intervals are equal
  bool is_exclusive = false;
  bool is_movable = false;
};

class ItemSource {
 public:
  virtual ~ItemSource() = default;
  virtual bool Next(RowItem* item) = 0;  // false: no more
  virtual void Rewind() = 0;
};

// Items of a vector in the walk's order. `fill(const T&, RowItem*)` returns false for what is not
// drawn. A vector that is not in order yet is read through a sorted index.
template <typename T, typename Fill>
class VectorSource final : public ItemSource {
 public:
  VectorSource(const std::vector<T>& items, uint8_t source, Fill fill)
      : items_(items), source_(source), fill_(std::move(fill)) {
    if (std::is_sorted(items.begin(), items.end(), Before)) return;
    order_.resize(items.size());
    std::iota(order_.begin(), order_.end(), 0U);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return Before(items[a], items[b]); });
  }
  bool Next(RowItem* item) override {
    while (next_ < items_.size()) {
      const uint32_t index = order_.empty() ? static_cast<uint32_t>(next_) : order_[next_];
      ++next_;
      const T& t = items_[index];
      *item = RowItem{t.begin_ns, t.end_ns, 0, index, source_};
      if (fill_(t, item)) return true;
    }
    return false;
  }
  void Rewind() override { next_ = 0; }

 private:
  static bool Before(const T& a, const T& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  }
  const std::vector<T>& items_;
  const uint8_t source_;
  Fill fill_;
  std::vector<uint32_t> order_;
  size_t next_ = 0;
};

class RowWalk {
 public:
  // `visit(item, lane)`
  using Visit = std::function<void(const RowItem&, uint32_t)>;

  template <typename T, typename Fill>
  void Add(const std::vector<T>& items, uint8_t source, Fill fill) {
    has_movable_ |= !items.empty();
    AddFixed(items, source, std::move(fill));
  }
  // Of which no item is movable: where there are no others, Prepare has nothing to weigh.
  template <typename T, typename Fill>
  void AddFixed(const std::vector<T>& items, uint8_t source, Fill fill) {
    sources_.push_back(std::make_unique<VectorSource<T, Fill>>(items, source, std::move(fill)));
  }
  // Decides which movable items may stay on lane 0. Once, after the last Add.
  void Prepare();
  // All movable items of `source` leave lane 0 if one of them has to (steps stay together).
  void MoveTogether(uint8_t source) { together_ = source; }
  void Walk(const Visit& visit);

 private:
  struct Lane {
    std::vector<model::TimeNs> open_ends;  // outer first
    model::TimeNs work_end_ns = 0;
    bool has_work = false;
  };
  struct Candidate {
    model::TimeNs end_ns;
    size_t movable;  // index into stays_
  };
  struct Row {
    std::vector<Lane> lanes;
    std::vector<Candidate> candidates;
  };
  template <typename Use>
  void Merge(Use use);
  Row& RowOf(const RowItem& item);
  static bool Fits(Lane& lane, const RowItem& item);
  static void Put(Lane& lane, const RowItem& item);
  uint32_t Place(const RowItem& item, uint32_t first_lane);
  void Judge(const RowItem& item);

  std::vector<std::unique_ptr<ItemSource>> sources_;
  std::vector<Row> rows_;
  std::vector<bool> stays_;  // one per movable item, in walk order
  std::vector<uint8_t> movable_source_;
  int together_ = -1;
  bool has_movable_ = false;
};

}  // namespace stepagent::writers
