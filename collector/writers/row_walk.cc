#include "collector/writers/row_walk.h"

namespace stepagent::writers {
namespace {

bool Earlier(const RowItem& a, const RowItem& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
  return a.source < b.source;
}

}  // namespace

template <typename Use>
void RowWalk::Merge(Use use) {
  struct Head {
    RowItem item;
    ItemSource* source;
  };
  std::vector<Head> heads;
  for (const auto& source : sources_) {
    source->Rewind();
    Head head{{}, source.get()};
    if (source->Next(&head.item)) heads.push_back(head);
  }
  while (!heads.empty()) {
    size_t first = 0;  // at most six sources: a scan is cheaper than a heap
    for (size_t i = 1; i < heads.size(); ++i) {
      if (Earlier(heads[i].item, heads[first].item)) first = i;
    }
    use(heads[first].item);
    if (!heads[first].source->Next(&heads[first].item)) {
      heads.erase(heads.begin() + static_cast<ptrdiff_t>(first));
    }
  }
}

RowWalk::Row& RowWalk::RowOf(const RowItem& item) {
  if (item.row >= rows_.size()) rows_.resize(item.row + 1);
  return rows_[item.row];
}

bool RowWalk::Fits(Lane& lane, const RowItem& item) {
  while (!lane.open_ends.empty() && lane.open_ends.back() <= item.begin_ns) {
    lane.open_ends.pop_back();
  }
  if (item.is_exclusive && lane.has_work && lane.work_end_ns > item.begin_ns) return false;
  return lane.open_ends.empty() || item.end_ns <= lane.open_ends.back();
}

void RowWalk::Put(Lane& lane, const RowItem& item) {
  lane.open_ends.push_back(item.end_ns);
  if (!item.is_exclusive) return;
  lane.work_end_ns = item.end_ns;
  lane.has_work = true;
}

uint32_t RowWalk::Place(const RowItem& item, uint32_t first_lane) {
  Row& row = RowOf(item);
  for (uint32_t lane = first_lane;; ++lane) {
    if (lane >= row.lanes.size()) row.lanes.resize(lane + 1);
    if (!Fits(row.lanes[lane], item)) continue;
    Put(row.lanes[lane], item);
    return lane;
  }
}

// Fixed items are placed among themselves; a movable one is weighed against every fixed item of
// lane 0 that begins before it ends. Two intervals clash if each has an end strictly inside the
// other.
void RowWalk::Judge(const RowItem& item) {
  Row& row = RowOf(item);
  if (row.lanes.empty()) row.lanes.resize(1);
  if (item.is_movable) {
    const bool fits = Fits(row.lanes[0], item);
    stays_.push_back(fits);
    movable_source_.push_back(item.source);
    if (fits) row.candidates.push_back({item.end_ns, stays_.size() - 1});
    return;
  }
  if (!Fits(row.lanes[0], item)) return;
  Put(row.lanes[0], item);
  std::erase_if(row.candidates, [&](const Candidate& c) {
    if (c.end_ns <= item.begin_ns) return true;
    if (item.end_ns <= c.end_ns) return false;
    stays_[c.movable] = false;
    return true;
  });
}

void RowWalk::Prepare() {
  if (!has_movable_) return;
  rows_.clear();
  Merge([this](const RowItem& item) { Judge(item); });
  bool moves = false;
  for (size_t i = 0; i < stays_.size(); ++i) moves |= movable_source_[i] == together_ && !stays_[i];
  for (size_t i = 0; moves && i < stays_.size(); ++i) {
    if (movable_source_[i] == together_) stays_[i] = false;
  }
}

void RowWalk::Walk(const Visit& visit) {
  rows_.clear();
  size_t movable = 0;
  Merge([&](const RowItem& item) {
    const uint32_t first_lane = item.is_movable && !stays_[movable++] ? 1 : 0;
    visit(item, Place(item, first_lane));
  });
}

}  // namespace stepagent::writers
