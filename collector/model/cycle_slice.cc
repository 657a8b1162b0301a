#include "collector/model/cycle_slice.h"

#include <limits>

namespace stepagent::model {

void StepSpans::Join(const StepSpans& other) {
  calls.Join(other.calls);
  kernels.Join(other.kernels);
  copies.Join(other.copies);
  sets.Join(other.sets);
  graph_launches.Join(other.graph_launches);
  syncs.Join(other.syncs);
  ranges.Join(other.ranges);
  marks.Join(other.marks);
  memories.Join(other.memories);
  overheads.Join(other.overheads);
}

Cycle& StepSlicer::Next(size_t last, const StepSpans& spans) {
  const size_t count = whole_.steps.size();
  first_ = std::min(last_, count);
  last_ = std::min(last, count);
  begin_ns_ = first_ == 0 ? std::numeric_limits<TimeNs>::min() : whole_.steps[first_].begin_ns;
  end_ns_ = last_ == count ? std::numeric_limits<TimeNs>::max() : whole_.steps[last_].begin_ns;
  CopyWhatIsSmall();
  part_.window_begin_ns = std::max(begin_ns_, whole_.window_begin_ns);
  part_.window_end_ns = std::min(end_ns_, whole_.window_end_ns);
  part_.steps.assign(whole_.steps.begin() + static_cast<ptrdiff_t>(first_),
                     whole_.steps.begin() + static_cast<ptrdiff_t>(last_));
  TakeCalls(spans.calls);
  TakeWork(whole_.kernels, spans.kernels, &part_.kernels);
  TakeWork(whole_.copies, spans.copies, &part_.copies);
  TakeWork(whole_.sets, spans.sets, &part_.sets);
  TakeWork(whole_.graph_launches, spans.graph_launches, &part_.graph_launches);
  TakeWork(whole_.syncs, spans.syncs, &part_.syncs);
  TakeRanges(spans.ranges);
  TakeInstants(whole_.marks, spans.marks, &part_.marks);
  TakeInstants(whole_.memories, spans.memories, &part_.memories);
  part_.overheads.clear();
  for (size_t i = spans.overheads.first; i < spans.overheads.last; ++i) {
    const Overhead& overhead = whole_.overheads[i];
    if (IsHere(places_.At(overhead.begin_ns))) part_.overheads.push_back(overhead);
  }
  return part_;
}

int32_t StepSlicer::NewStep(int32_t step) const {
  if (step < 0 || !IsHere(static_cast<size_t>(step))) return kNoStep;
  return step - static_cast<int32_t>(first_);
}

// All but the lists that TakeX fill. Not by copying the whole: that would double the memory.
void StepSlicer::CopyWhatIsSmall() {
  part_.session = whole_.session;
  part_.is_from_trace = whole_.is_from_trace;
  part_.tells_end = whole_.tells_end, part_.tells_step_flags = whole_.tells_step_flags;
  part_.index = whole_.index;
  part_.complete = whole_.complete;
  part_.ended = whole_.ended;
  part_.reason = whole_.reason;
  part_.killed_by_signal = whole_.killed_by_signal;
  part_.exit_status = whole_.exit_status;
  part_.strings = whole_.strings;
  part_.threads = whole_.threads;
  part_.lanes = whole_.lanes;
  part_.shapes = whole_.shapes;
  part_.stacks = whole_.stacks;
  part_.devices = whole_.devices;
  part_.gpu = whole_.gpu;
  part_.kinds = whole_.kinds;
  part_.balance = whole_.balance;
  part_.joins = whole_.joins;
  part_.outside_steps = whole_.outside_steps;
  part_.all_steps = whole_.all_steps;
  part_.cost = whole_.cost;
  part_.top_ranges = whole_.top_ranges;
  part_.overlapping_steps = whole_.overlapping_steps;
  part_.device_residual_ns = whole_.device_residual_ns;
  part_.wall_offset_ns = whole_.wall_offset_ns;
  part_.wall_error_ns = whole_.wall_error_ns;
  part_.notes = whole_.notes;
}

void StepSlicer::TakeCalls(Span span) {
  calls_ = span;
  new_call_.assign(span.last - span.first, kNoIndex);
  part_.calls.clear();
  part_.calls.reserve(span.last - span.first);
  for (size_t i = span.first; i < span.last; ++i) {
    const Call& call = whole_.calls[i];
    if (!IsHere(places_.Of(call.step, call.begin_ns))) continue;
    new_call_[i - span.first] = static_cast<int32_t>(part_.calls.size());
    part_.calls.push_back(call);
    part_.calls.back().step = NewStep(call.step);
  }
}

template <typename T>
void StepSlicer::TakeWork(const std::vector<T>& all, Span span, std::vector<T>* taken) {
  taken->clear();
  taken->reserve(span.last - span.first);
  for (size_t i = span.first; i < span.last; ++i) {
    const T& item = all[i];
    if (!IsHere(places_.OfWork(item))) continue;
    taken->push_back(item);
    T& mine = taken->back();
    mine.step = NewStep(item.step);
    if (!places_.HasCall(item)) continue;
    const auto call = static_cast<size_t>(item.call);
    const bool is_here = call >= calls_.first && call < calls_.last;
    mine.call = is_here ? new_call_[call - calls_.first] : kNoIndex;
  }
}

template <typename T>
void StepSlicer::TakeInstants(const std::vector<T>& all, Span span, std::vector<T>* taken) {
  taken->clear();
  for (size_t i = span.first; i < span.last; ++i) {
    if (!IsHere(places_.At(all[i].at_ns))) continue;
    taken->push_back(all[i]);
    taken->back().step = NewStep(all[i].step);
  }
}

void StepSlicer::TakeRange(const Range& range) {
  Range cut = range;
  cut.step = NewStep(range.step);
  if (range.begin_ns < begin_ns_) {
    cut.begin_ns = begin_ns_;
    cut.cut_at_begin = true;
    cut.is_step_range = false;
    cut.step = part_.steps.empty() ? kNoStep : 0;
  }
  if (range.end_ns > end_ns_) {
    cut.end_ns = end_ns_;
    cut.cut_at_end = true;
  }
  part_.ranges.push_back(cut);
}

void StepSlicer::TakeRanges(Span span) {
  part_.ranges.clear();
  for (const uint32_t index : open_) TakeRange(whole_.ranges[index]);
  for (uint32_t i = span.first; i < span.last; ++i) {
    const Range& range = whole_.ranges[i];
    if (!IsHere(places_.At(range.begin_ns))) continue;
    TakeRange(range);
    if (range.end_ns > end_ns_) open_.push_back(i);
  }
  std::erase_if(open_, [this](uint32_t i) { return whole_.ranges[i].end_ns <= end_ns_; });
  // Cutting makes begins equal that were in order: the longer one comes first again.
  std::stable_sort(part_.ranges.begin(), part_.ranges.end(), [](const Range& a, const Range& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.depth < b.depth;
  });
}

}  // namespace stepagent::model
