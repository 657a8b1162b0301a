#pragma once
// Which step a moment is in.
//
// Purpose: one search for the builder, for the reader of trace files and for traces in parts.
// Thread rule: one owner: it keeps where it found its last answer, since records come about in
// order. Failure rule: no step is an answer. The steps are sorted by their begin when it is asked,
// and outlive it.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::model {

class StepFinder {
 public:
  explicit StepFinder(const std::vector<Step>& steps) : steps_(steps) {}
  // The position of the step that began last by then.
  [[nodiscard]] std::optional<size_t> BegunLast(TimeNs at) const {
    if (IsLast(last_, at)) return last_;
    const auto after = std::upper_bound(steps_.begin(), steps_.end(), at,
                                        [](TimeNs t, const Step& s) { return t < s.begin_ns; });
    if (after == steps_.begin()) return std::nullopt;
    last_ = static_cast<size_t>(after - steps_.begin()) - 1;
    return last_;
  }
  // The step that is open then, or kNoStep.
  [[nodiscard]] int32_t Holding(TimeNs at) const {
    const std::optional<size_t> begun = BegunLast(at);
    return begun && at < steps_[*begun].end_ns ? static_cast<int32_t>(*begun) : kNoStep;
  }

 private:
  [[nodiscard]] bool IsLast(size_t i, TimeNs at) const {
    return i < steps_.size() && at >= steps_[i].begin_ns &&
           (i + 1 == steps_.size() || at < steps_[i + 1].begin_ns);
  }

  const std::vector<Step>& steps_;
  mutable size_t last_ = 0;
};

}  // namespace stepagent::model
