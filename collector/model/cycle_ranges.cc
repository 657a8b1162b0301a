// The NVTX half of CycleAssembly, and the counts per step.
#include <algorithm>
#include <cstdlib>

#include "collector/model/cycle_assembly.h"
#include "collector/model/record_lists.h"

namespace stepagent::model {
namespace {

// The step gate stamps a step right beside its range. Arming may lie between the two, and the
// thread may lose its processor there; no other range of the thread can, so the nearest one is the
// step's.
constexpr TimeNs kEarlySlackNs = 1'000'000, kLateSlackNs = 200'000'000;

// The text between "nvtx:" and an unescaped '@', unescaped. Empty for other sources.
std::string StepRangeName(const std::string& source) {
  constexpr std::string_view kPrefix = "nvtx:";
  std::string name;
  if (source.rfind(kPrefix, 0) != 0) return name;
  for (size_t i = kPrefix.size(); i < source.size() && source[i] != '@'; ++i) {
    if (source[i] == '\\' && i + 1 < source.size()) ++i;
    name += source[i];
  }
  return name;
}

}  // namespace

void CycleAssembly::PlaceRange(const Range& range, bool is_open) {
  const TimeNs begin = cycle_.window_begin_ns, end = cycle_.window_end_ns;
  const bool ends_after = is_open || range.end_ns > end;
  const bool is_instant_inside = range.begin_ns == range.end_ns && InWindow(range.begin_ns);
  const bool overlaps = range.begin_ns < end && (ends_after || range.end_ns > begin);
  if (!overlaps && !is_instant_inside) {
    if (!is_open) ++OutOfWindow(Activity::kNvtx);
    return;
  }
  Range placed = range;
  placed.cut_at_begin = range.begin_ns < begin;
  placed.cut_at_end = ends_after;
  placed.begin_ns = std::max(range.begin_ns, begin);
  placed.end_ns = ends_after ? end : range.end_ns;
  placed.step = StepAt(placed.begin_ns);
  if (is_open && !placed.cut_at_begin) ++unclosed_ranges_;
  ++Written(Activity::kNvtx);
  cycle_.ranges.push_back(placed);
}

void CycleAssembly::PlaceRanges() {
  MarkStepRanges();
  Extract(&store_.ranges, [&](Range& range) {
    if (IsLater(range.begin_ns) && range.begin_ns >= cycle_.window_end_ns) return false;
    PlaceRange(range, false);
    // Still running when the later cycle began: it is that cycle's too.
    return !(in_.later_from && range.end_ns > *in_.later_from);
  });
  for (const Range& range : in_.open_ranges->Open()) PlaceRange(range, true);
  std::stable_sort(cycle_.ranges.begin(), cycle_.ranges.end(), [](const Range& a, const Range& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.depth < b.depth;
  });
}

// The step's own range takes the step's stamps, so that a range ending a few ns after its step is
// not taken for one that was cut.
void CycleAssembly::MarkStepRanges() {
  const std::string name = StepRangeName(in_.step_source);
  const bool is_nvtx = in_.step_source.rfind("nvtx", 0) == 0;
  if (!is_nvtx || cycle_.steps.empty()) return;
  std::vector<Range*> best(cycle_.steps.size(), nullptr);
  for (Range& range : store_.ranges) {
    if (!name.empty() && in_.dictionary->strings()[range.name] != name) continue;
    auto at = std::lower_bound(cycle_.steps.begin(), cycle_.steps.end(), range.begin_ns,
                               [](const Step& s, TimeNs t) { return s.begin_ns < t; });
    // Of the step that began before it, unless it is right at the next one's begin.
    const bool earlier_is_nearer =
        at == cycle_.steps.end() ||
        (at != cycle_.steps.begin() &&
         (at->begin_ns - range.begin_ns > kEarlySlackNs ||
          range.begin_ns - (at - 1)->begin_ns < at->begin_ns - range.begin_ns));
    if (earlier_is_nearer) --at;
    const auto distance = [&at](const Range& r) { return std::llabs(r.begin_ns - at->begin_ns); };
    const bool is_before = range.begin_ns < at->begin_ns;
    if (is_before && range.end_ns <= at->begin_ns) continue;  // the last one of the step before
    if (range.thread != at->thread || distance(range) > (is_before ? kEarlySlackNs : kLateSlackNs))
      continue;
    Range*& chosen = best[static_cast<size_t>(at - cycle_.steps.begin())];
    const bool is_nearer = chosen == nullptr || distance(range) < distance(*chosen) ||
                           (distance(range) == distance(*chosen) && range.depth < chosen->depth);
    if (is_nearer) chosen = &range;
  }
  for (size_t i = 0; i < best.size(); ++i) {
    if (best[i] == nullptr) continue;
    best[i]->is_step_range = true;
    best[i]->begin_ns = cycle_.steps[i].begin_ns;
    const bool ends_with_step =
        std::llabs(best[i]->end_ns - cycle_.steps[i].end_ns) <= kEarlySlackNs;
    if (ends_with_step) best[i]->end_ns = cycle_.steps[i].end_ns;
  }
}

void CycleAssembly::PlaceMarks() {
  Extract(&store_.marks, [&](Mark& mark) {
    if (InWindow(mark.at_ns)) {
      mark.step = StepAt(mark.at_ns);
      ++Written(Activity::kNvtx);
      cycle_.marks.push_back(mark);
    } else if (IsLater(mark.at_ns)) {
      return false;
    } else {
      ++OutOfWindow(Activity::kNvtx);
    }
    return true;
  });
  std::stable_sort(cycle_.marks.begin(), cycle_.marks.end(),
                   [](const Mark& a, const Mark& b) { return a.at_ns < b.at_ns; });
}

void CycleAssembly::CountSteps() {
  struct Tally {
    uint64_t kernels = 0, copies = 0, sets = 0;
  };
  std::vector<Tally> tally(cycle_.steps.size() + 1);  // the last is "no step"
  const auto of = [&](int32_t step) -> Tally& {
    return step == kNoStep ? tally.back() : tally[static_cast<size_t>(step)];
  };
  for (const Kernel& kernel : cycle_.kernels) of(kernel.step).kernels += kernel.placed ? 1 : 0;
  for (const Copy& copy : cycle_.copies) of(copy.step).copies += copy.placed ? 1 : 0;
  for (const Set& set : cycle_.sets) of(set.step).sets += set.placed ? 1 : 0;
  const auto fill = [](const Tally& t, uint64_t launches, auto* out) {
    out->launches = launches;
    out->kernels = t.kernels;
    out->copies = t.copies;
    out->sets = t.sets;
  };
  for (size_t i = 0; i < cycle_.steps.size(); ++i)
    fill(tally[i], step_launches_[i + 1], &cycle_.steps[i]);
  fill(tally.back(), step_launches_[0], &cycle_.outside_steps);
  MarkUntimedSteps(cycle_.kernels, &Step::kernels);
  MarkUntimedSteps(cycle_.copies, &Step::copies);
  MarkUntimedSteps(cycle_.sets, &Step::sets);
}

// Work of theirs ran, and nobody knows when: such steps are not whole, and where none of a kind has
// its times, "0" would be a count that nobody took.
template <typename Item>
void CycleAssembly::MarkUntimedSteps(const std::vector<Item>& items,
                                     std::optional<uint64_t> Step::*count) {
  for (const Item& item : items) {
    if (item.placed || item.step == kNoStep) continue;
    Step& step = cycle_.steps[static_cast<size_t>(item.step)];
    step.complete = false;
    if (step.*count == 0U) (step.*count).reset();
  }
}

}  // namespace stepagent::model
