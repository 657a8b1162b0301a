#include "collector/model/cycle_slice.h"

#include <algorithm>
#include <limits>

namespace stepagent::model {
namespace {

class Slicer {
 public:
  Slicer(const Cycle& whole, size_t first, size_t last)
      : whole_(whole),
        first_(std::min(first, whole.steps.size())),
        last_(std::min(last, whole.steps.size())),
        begin_ns_(first_ == 0 ? std::numeric_limits<TimeNs>::min() : whole.steps[first_].begin_ns),
        end_ns_(last_ == whole.steps.size() ? std::numeric_limits<TimeNs>::max()
                                            : whole.steps[last_].begin_ns),
        new_call_(whole.calls.size(), kNoIndex) {}

  Cycle Slice() {
    CopyWhatIsSmall();
    out_.window_begin_ns = std::max(begin_ns_, whole_.window_begin_ns);
    out_.window_end_ns = std::min(end_ns_, whole_.window_end_ns);
    out_.steps.assign(whole_.steps.begin() + static_cast<ptrdiff_t>(first_),
                      whole_.steps.begin() + static_cast<ptrdiff_t>(last_));
    TakeCalls();
    TakeWork(whole_.kernels, &out_.kernels);
    TakeWork(whole_.copies, &out_.copies);
    TakeWork(whole_.sets, &out_.sets);
    TakeWork(whole_.graph_launches, &out_.graph_launches);
    TakeWork(whole_.syncs, &out_.syncs);
    TakeRanges();
    TakeInstants(whole_.marks, &out_.marks);
    TakeInstants(whole_.memories, &out_.memories);
    for (const Overhead& overhead : whole_.overheads) {
      if (IsHere(overhead.begin_ns)) out_.overheads.push_back(overhead);
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool IsHere(TimeNs at) const { return at >= begin_ns_ && at < end_ns_; }
  [[nodiscard]] bool HasStep(int32_t step) const {
    return step >= 0 && static_cast<size_t>(step) >= first_ && static_cast<size_t>(step) < last_;
  }
  [[nodiscard]] int32_t NewStep(int32_t step) const {
    return HasStep(step) ? step - static_cast<int32_t>(first_) : kNoStep;
  }
  [[nodiscard]] bool Belongs(int32_t step, TimeNs at) const {
    return step == kNoStep ? IsHere(at) : HasStep(step);
  }

  // All but the lists that TakeX fill. Not by copying the whole: that would double the memory.
  void CopyWhatIsSmall() {
    out_.session = whole_.session;
    out_.index = whole_.index;
    out_.complete = whole_.complete;
    out_.ended = whole_.ended;
    out_.reason = whole_.reason;
    out_.strings = whole_.strings;
    out_.threads = whole_.threads;
    out_.lanes = whole_.lanes;
    out_.shapes = whole_.shapes;
    out_.stacks = whole_.stacks;
    out_.devices = whole_.devices;
    out_.gpu = whole_.gpu;
    out_.kinds = whole_.kinds;
    out_.balance = whole_.balance;
    out_.joins = whole_.joins;
    out_.outside_steps = whole_.outside_steps;
    out_.all_steps = whole_.all_steps;
    out_.cost = whole_.cost;
    out_.top_ranges = whole_.top_ranges;
    out_.overlapping_steps = whole_.overlapping_steps;
    out_.device_residual_ns = whole_.device_residual_ns;
    out_.notes = whole_.notes;
  }

  // Room for the share of these steps: growing by doubling moved every record once more, a tenth of
  // the time to write a million kernels.
  template <typename T>
  void Reserve(const std::vector<T>& all, std::vector<T>* taken) const {
    const size_t steps = std::max<size_t>(whole_.steps.size(), 1);
    const size_t share = all.size() / steps * (last_ - first_);
    taken->reserve(std::min(all.size(), share + share / 16 + 16));
  }

  void TakeCalls() {
    Reserve(whole_.calls, &out_.calls);
    for (size_t i = 0; i < whole_.calls.size(); ++i) {
      const Call& call = whole_.calls[i];
      if (!Belongs(call.step, call.begin_ns)) continue;
      new_call_[i] = static_cast<int32_t>(out_.calls.size());
      out_.calls.push_back(call);
      out_.calls.back().step = NewStep(call.step);
    }
  }

  // Where its call is, so that the two ends of an arrow are in one file.
  template <typename T>
  void TakeWork(const std::vector<T>& all, std::vector<T>* taken) {
    Reserve(all, taken);
    for (const T& item : all) {
      const bool has_call = item.call >= 0 && static_cast<size_t>(item.call) < whole_.calls.size();
      const int32_t call = has_call ? new_call_[static_cast<size_t>(item.call)] : kNoIndex;
      if (has_call ? call == kNoIndex : !Belongs(item.step, item.begin_ns)) continue;
      taken->push_back(item);
      taken->back().call = call;
      taken->back().step = NewStep(item.step);
    }
  }

  template <typename T>
  void TakeInstants(const std::vector<T>& all, std::vector<T>* taken) {
    for (const T& item : all) {
      if (!IsHere(item.at_ns)) continue;
      taken->push_back(item);
      taken->back().step = NewStep(item.step);
    }
  }

  void TakeRanges() {
    for (const Range& range : whole_.ranges) {
      const bool overlaps = range.begin_ns < end_ns_ && range.end_ns > begin_ns_;
      if (!overlaps && !(range.begin_ns == range.end_ns && IsHere(range.begin_ns))) continue;
      Range cut = range;
      cut.step = NewStep(range.step);
      if (range.begin_ns < begin_ns_) {
        cut.begin_ns = begin_ns_;
        cut.cut_at_begin = true;
        cut.is_step_range = false;
        cut.step = out_.steps.empty() ? kNoStep : 0;
      }
      if (range.end_ns > end_ns_) {
        cut.end_ns = end_ns_;
        cut.cut_at_end = true;
      }
      out_.ranges.push_back(cut);
    }
    // Cutting makes begins equal that were in order: the longer one comes first again.
    std::stable_sort(out_.ranges.begin(), out_.ranges.end(), [](const Range& a, const Range& b) {
      if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
      return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.depth < b.depth;
    });
  }

  const Cycle& whole_;
  const size_t first_, last_;
  const TimeNs begin_ns_, end_ns_;
  std::vector<int32_t> new_call_;
  Cycle out_;
};

}  // namespace

Cycle SliceSteps(const Cycle& cycle, size_t first, size_t last) {
  return Slicer(cycle, first, last).Slice();
}

}  // namespace stepagent::model
