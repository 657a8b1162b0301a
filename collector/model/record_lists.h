#pragma once
// Small operations on lists of records.
//
// Purpose: the canonical order, and taking items out of a list in place.
// Thread rule: pure. Failure rule: cannot fail.
//
// Records come as a few long runs that are in order already: a thread's, a stream's. So lists are
// sorted by merging the runs they consist of, which costs one look where there is one run, and
// large items are moved once, by way of their keys.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepagent::model {

// Stable; merges the runs that are there.
template <typename T, typename Less>
void SortRuns(std::vector<T>* items, Less less) {
  std::vector<size_t> ends;  // of runs
  for (size_t i = 1; i <= items->size(); ++i) {
    if (i == items->size() || less((*items)[i], (*items)[i - 1])) ends.push_back(i);
  }
  if (ends.size() < 2) return;
  std::vector<T> merged(items->size());
  while (ends.size() > 1) {
    std::vector<size_t> joined;
    size_t begin = 0;
    for (size_t run = 0; run < ends.size(); run += 2) {
      const auto first = items->begin() + static_cast<std::ptrdiff_t>(begin);
      const auto middle = items->begin() + static_cast<std::ptrdiff_t>(ends[run]);
      const size_t end = run + 1 < ends.size() ? ends[run + 1] : ends[run];
      const auto last = items->begin() + static_cast<std::ptrdiff_t>(end);
      std::merge(first, middle, middle, last, merged.begin() + static_cast<std::ptrdiff_t>(begin),
                 less);
      joined.push_back(end);
      begin = end;
    }
    items->swap(merged);
    ends.swap(joined);
  }
}

// items[i] becomes what items[order[i]] was; `order` is used up.
template <typename T>
void Permute(std::vector<T>* items, std::vector<uint32_t>* order) {
  for (size_t start = 0; start < items->size(); ++start) {
    size_t at = start;
    if ((*order)[at] == at) continue;
    T first = std::move((*items)[start]);
    while ((*order)[at] != start) {
      const size_t from = (*order)[at];
      (*items)[at] = std::move((*items)[from]);
      (*order)[at] = static_cast<uint32_t>(at);
      at = from;
    }
    (*items)[at] = std::move(first);
    (*order)[at] = static_cast<uint32_t>(at);
  }
}

// By begin, longer first.
template <typename T>
void SortByBegin(std::vector<T>* items) {
  const auto precedes = [](const auto& a, const auto& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  };
  if (std::is_sorted(items->begin(), items->end(), precedes)) return;
  struct Key {
    int64_t begin_ns, end_ns;
    uint32_t index;
  };
  std::vector<Key> keys;
  keys.reserve(items->size());
  for (const T& item : *items) {
    keys.push_back({item.begin_ns, item.end_ns, static_cast<uint32_t>(keys.size())});
  }
  SortRuns(&keys, precedes);
  std::vector<uint32_t> order;
  order.reserve(keys.size());
  for (const Key& key : keys) order.push_back(key.index);
  keys = std::vector<Key>();
  Permute(items, &order);
}

// Hands every item to `take`; those it returns false for stay, in order.
template <typename T, typename Take>
void Extract(std::vector<T>* from, Take take) {
  auto kept = from->begin();
  for (auto it = from->begin(); it != from->end(); ++it) {
    if (take(*it)) continue;
    if (kept != it) *kept = std::move(*it);
    ++kept;
  }
  from->erase(kept, from->end());
}

enum class Belongs : uint8_t { kHere, kLater, kNowhere };

// As Extract, for lists that mostly go to one place: what `where` says belongs here becomes `to`,
// with the memory of `from`; `from` keeps what is for later.
template <typename T, typename Where>
void Split(std::vector<T>* from, std::vector<T>* to, Where where) {
  std::vector<T> later;
  auto kept = from->begin();
  for (auto it = from->begin(); it != from->end(); ++it) {
    switch (where(*it)) {
      case Belongs::kHere:
        if (kept != it) *kept = std::move(*it);
        ++kept;
        break;
      case Belongs::kLater:
        later.push_back(std::move(*it));
        break;
      case Belongs::kNowhere:
        break;
    }
  }
  from->erase(kept, from->end());
  *to = std::move(*from);
  *from = std::move(later);
}

}  // namespace stepagent::model
