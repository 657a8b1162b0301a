#include "collector/analysis/intervals.h"

namespace stepagent::analysis {

int64_t IntervalUnion::TotalNs() const {
  int64_t total = 0;
  for (const Interval& part : parts_) total += part.end_ns - part.begin_ns;
  return total;
}

int64_t IntervalUnion::CoveredNs(model::TimeNs begin, model::TimeNs end) const {
  auto it = std::partition_point(parts_.begin(), parts_.end(),
                                 [&](const Interval& part) { return part.end_ns <= begin; });
  int64_t total = 0;
  for (; it != parts_.end() && it->begin_ns < end; ++it) {
    total += std::min(it->end_ns, end) - std::max(it->begin_ns, begin);
  }
  return total;
}

IntervalUnion MakeUnion(std::vector<Interval> members) {
  std::sort(members.begin(), members.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  IntervalUnion out;
  for (const Interval& member : members) out.Add(member.begin_ns, member.end_ns);
  return out;
}

IntervalUnion Without(const IntervalUnion& a, const IntervalUnion& b) {
  IntervalUnion out;
  auto cut = b.parts().begin();
  for (const Interval& part : a.parts()) {
    model::TimeNs from = part.begin_ns;
    while (cut != b.parts().end() && cut->end_ns <= from) ++cut;
    for (auto it = cut; it != b.parts().end() && it->begin_ns < part.end_ns; ++it) {
      out.Add(from, it->begin_ns);
      from = it->end_ns;
    }
    out.Add(from, part.end_ns);
  }
  return out;
}

int64_t IntersectionNs(const IntervalUnion& a, const IntervalUnion& b) {
  int64_t total = 0;
  auto i = a.parts().begin(), j = b.parts().begin();
  while (i != a.parts().end() && j != b.parts().end()) {
    const int64_t shared = std::min(i->end_ns, j->end_ns) - std::max(i->begin_ns, j->begin_ns);
    if (shared > 0) total += shared;
    if (i->end_ns < j->end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return total;
}

}  // namespace stepagent::analysis
