#include "timeline.h"

#include <algorithm>
#include <numeric>

namespace stepagent::replay {
namespace {

// For each annotation: whether it lies whole inside the one around it.
std::vector<bool> FindNesting(const Recording& recording, const std::vector<uint32_t>& order) {
  const std::vector<Annotation>& annotations = recording.annotations;
  std::vector<bool> nests(annotations.size(), true);
  std::vector<std::vector<int64_t>> open(recording.threads.size());
  for (const uint32_t index : order) {
    const Annotation& range = annotations[index];
    std::vector<int64_t>& ends = open[range.thread];
    while (!ends.empty() && ends.back() <= range.begin_ns) ends.pop_back();
    nests[index] = ends.empty() || range.end_ns <= ends.back();
    if (nests[index]) ends.push_back(range.end_ns);
  }
  return nests;
}

}  // namespace

std::vector<Action> MakeTimeline(const Recording& recording, bool with_ranges) {
  const std::vector<Annotation>& annotations = recording.annotations;
  std::vector<uint32_t> order(with_ranges ? annotations.size() : 0);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&annotations](uint32_t a, uint32_t b) {
    const Annotation &left = annotations[a], &right = annotations[b];
    if (left.begin_ns != right.begin_ns) return left.begin_ns < right.begin_ns;
    return left.end_ns > right.end_ns;
  });
  const std::vector<bool> nests = FindNesting(recording, order);
  std::vector<Action> actions;
  actions.reserve(recording.calls.size() + 2 * order.size());
  for (const uint32_t index : order) {
    const Annotation& range = annotations[index];
    actions.push_back({range.begin_ns, range.thread, index,
                       nests[index] ? ActionType::kPush : ActionType::kRangeStart});
    actions.push_back({range.end_ns, range.thread, index,
                       nests[index] ? ActionType::kPop : ActionType::kRangeEnd});
  }
  for (uint32_t i = 0; i < recording.calls.size(); i++) {
    actions.push_back(
        {recording.calls[i].begin_ns, recording.calls[i].thread, i, ActionType::kCall});
  }
  std::stable_sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    const auto rank = [](ActionType type) {
      if (type == ActionType::kCall) return 2;
      return type == ActionType::kPush || type == ActionType::kRangeStart ? 1 : 0;
    };
    if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
    return rank(a.type) < rank(b.type);
  });
  return actions;
}

}  // namespace stepagent::replay
