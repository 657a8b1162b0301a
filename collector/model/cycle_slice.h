#pragma once
// Some steps of a cycle as a cycle of their own.
//
// Purpose: a trace too large for its viewers is written in parts, each of whole steps.
// Thread rule: pure functions of an immutable cycle; a StepSlicer belongs to one thread.
// Failure rule: none; indexes past the end count as the end.
//
// Every call and device item is in exactly one part: that of its step, outside steps that of its
// call's begin. What runs across a border is cut there and marked so: ranges are in each part they
// touch. Counts, balances and notes stay those of the whole cycle.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/model/step_finder.h"

namespace stepagent::model {

// Some neighbours in one list of a cycle, [first, last); empty where last is 0.
struct Span {
  uint32_t first = 0, last = 0;
  // In ascending order.
  void Take(size_t index) {
    if (last == 0) first = static_cast<uint32_t>(index);
    last = static_cast<uint32_t>(index) + 1;
  }
  void Join(const Span& other) {
    if (other.last == 0) return;
    first = last == 0 ? other.first : std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

// Where the records of some steps lie. Records of other steps may lie between them. Of ranges those
// that begin in these steps.
struct StepSpans {
  Span calls, kernels, copies, sets, graph_launches, syncs, ranges, marks, memories, overheads;
  void Join(const StepSpans& other);
};

// The position in Cycle::steps that a record counts for: its own, or that which began last before
// it; 0 before the first.
class StepPlaces {
 public:
  explicit StepPlaces(const Cycle& cycle) : cycle_(cycle), steps_(cycle.steps) {}
  [[nodiscard]] size_t Of(int32_t step, TimeNs at) const {
    if (step >= 0) return std::min(static_cast<size_t>(step), Last());
    return At(at);
  }
  // Where its call is, so that the two ends of an arrow are in one part.
  template <typename T>
  [[nodiscard]] size_t OfWork(const T& item) const {
    if (item.step >= 0) return Of(item.step, 0);
    if (!HasCall(item)) return At(item.begin_ns);
    const Call& call = cycle_.calls[static_cast<size_t>(item.call)];
    return Of(call.step, call.begin_ns);
  }
  [[nodiscard]] size_t At(TimeNs at) const { return steps_.BegunLast(at).value_or(0); }
  template <typename T>
  [[nodiscard]] bool HasCall(const T& item) const {
    return item.call >= 0 && static_cast<size_t>(item.call) < cycle_.calls.size();
  }

 private:
  [[nodiscard]] size_t Last() const { return std::max<size_t>(cycle_.steps.size(), 1) - 1; }
  const Cycle& cycle_;
  const StepFinder steps_;
};

// The steps of a cycle in parts, from its first on.
class StepSlicer {
 public:
  explicit StepSlicer(const Cycle& whole) : whole_(whole), places_(whole) {}
  // Steps [last of the part before, last) by position; `spans` are theirs. The part is valid until
  // the next call, which uses its memory again.
  Cycle& Next(size_t last, const StepSpans& spans);

 private:
  void CopyWhatIsSmall();
  void TakeCalls(Span span);
  template <typename T>
  void TakeWork(const std::vector<T>& all, Span span, std::vector<T>* taken);
  template <typename T>
  void TakeInstants(const std::vector<T>& all, Span span, std::vector<T>* taken);
  void TakeRanges(Span span);
  void TakeRange(const Range& range);
  [[nodiscard]] bool IsHere(size_t place) const { return place >= first_ && place < last_; }
  [[nodiscard]] int32_t NewStep(int32_t step) const;

  const Cycle& whole_;
  const StepPlaces places_;
  size_t first_ = 0, last_ = 0;
  TimeNs begin_ns_ = 0, end_ns_ = 0;
  std::vector<int32_t> new_call_;  // of the part's span of calls
  Span calls_;
  std::vector<uint32_t> open_;  // ranges of earlier parts that end after this one's begin
  Cycle part_;
};

// Each record of the cycle: visit(record, place, span, i), with the position in cycle.steps that it
// counts for, its list as a member of StepSpans and its index there.
template <typename Visit>
void VisitBySteps(const Cycle& cycle, Visit visit) {
  const StepPlaces places(cycle);
  const auto note = [&](const auto& list, Span StepSpans::*span, auto place_of) {
    for (size_t i = 0; i < list.size(); ++i) visit(list[i], place_of(list[i]), span, i);
  };
  const auto of_work = [&](const auto& item) { return places.OfWork(item); };
  const auto of_instant = [&](const auto& item) { return places.At(item.at_ns); };
  const auto of_begin = [&](const auto& item) { return places.At(item.begin_ns); };
  note(cycle.calls, &StepSpans::calls,
       [&](const Call& call) { return places.Of(call.step, call.begin_ns); });
  note(cycle.kernels, &StepSpans::kernels, of_work);
  note(cycle.copies, &StepSpans::copies, of_work);
  note(cycle.sets, &StepSpans::sets, of_work);
  note(cycle.graph_launches, &StepSpans::graph_launches, of_work);
  note(cycle.syncs, &StepSpans::syncs, of_work);
  note(cycle.ranges, &StepSpans::ranges, of_begin);
  note(cycle.marks, &StepSpans::marks, of_instant);
  note(cycle.memories, &StepSpans::memories, of_instant);
  note(cycle.overheads, &StepSpans::overheads, of_begin);
}

// Where the records of each step lie, by position in cycle.steps; one entry where there are none.
// `visit(record, place)` sees each of them on the way: to read a large cycle's memory is most of
// the work, and callers have questions of their own.
template <typename Visit>
[[nodiscard]] std::vector<StepSpans> SpansOfSteps(const Cycle& cycle, Visit visit) {
  std::vector<StepSpans> spans(std::max<size_t>(cycle.steps.size(), 1));
  VisitBySteps(cycle,
               [&](const auto& record, size_t place, Span StepSpans::*span, size_t i) {
                 (spans[place].*span).Take(i);
                 visit(record, place);
               });
  return spans;
}

}  // namespace stepagent::model
