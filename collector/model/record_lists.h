#pragma once
// Small operations on lists of records.
//
// Purpose: the canonical order, and taking items out of a list in place.
// Thread rule: pure. Failure rule: cannot fail.
#include <algorithm>
#include <utility>
#include <vector>

namespace stepagent::model {

// By begin, longer first.
template <typename T>
void SortByBegin(std::vector<T>* items) {
  std::stable_sort(items->begin(), items->end(), [](const T& a, const T& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
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

}  // namespace stepagent::model
