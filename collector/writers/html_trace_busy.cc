// The part of a page's time line that says when the devices had work, and when not.
#include <algorithm>
#include <vector>

#include "collector/writers/html_trace.h"

namespace stepagent::writers {
namespace {

using model::TimeNs;

constexpr uint64_t kBusyLimit = 50'000;  // parts a device: gaps shorter than the rest are closed
constexpr size_t kGapLimit = 200;        // a device, in the table

}  // namespace

// Where any work of the process is on each device, exactly while there are few enough gaps.
void HtmlTrace::Busy() {
  Open(",\"busy\":[");
  for (const analysis::DeviceTime& device : work_.devices()) {
    const auto& parts = device.busy.parts();
    LongestChoice gaps(kBusyLimit);
    for (size_t i = 1; i < parts.size(); ++i) gaps.Count(parts[i].begin_ns - parts[i - 1].end_ns);
    gaps.Decide();
    Row();
    text_.Literal("{\"device\":");
    text_.Number(device.ordinal);
    text_.Literal(",\"gaps\":");
    text_.Number(gaps.counted());
    text_.Literal(",\"gaps_drawn\":");
    text_.Number(gaps.taken());
    Open(",\"parts\":[");
    for (size_t i = 0; i < parts.size();) {
      const TimeNs begin = parts[i].begin_ns;
      TimeNs end = parts[i].end_ns;
      while (++i < parts.size() && !gaps.Takes(parts[i].begin_ns - end)) end = parts[i].end_ns;
      Flat(FromLast(begin), end - begin);
    }
    Close();
    Gaps(device);
    text_.Literal("}");
    is_first_ = false;
  }
  Close();
}

// The longest stretches of the window in which no work of the process was on the device.
void HtmlTrace::Gaps(const analysis::DeviceTime& device) {
  std::vector<analysis::Interval> gaps;
  TimeNs from = cycle_.window_begin_ns;
  const auto add = [&](TimeNs begin, TimeNs end) {
    begin = std::max(begin, cycle_.window_begin_ns), end = std::min(end, cycle_.window_end_ns);
    if (end > begin) gaps.push_back({begin, end});
  };
  for (const analysis::Interval& part : device.busy.parts()) {
    add(from, part.begin_ns);
    from = part.end_ns;
  }
  add(from, cycle_.window_end_ns);
  const size_t shown = std::min(gaps.size(), kGapLimit);
  std::partial_sort(gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(shown), gaps.end(),
                    [](const analysis::Interval& a, const analysis::Interval& b) {
                      const int64_t la = a.end_ns - a.begin_ns, lb = b.end_ns - b.begin_ns;
                      return la != lb ? la > lb : a.begin_ns < b.begin_ns;
                    });
  text_.Begin(0);
  text_.Literal(",\"in_window\":");
  text_.Number(gaps.size());
  Open(",\"longest\":[");
  for (size_t i = 0; i < shown; ++i) {
    Flat(FromOrigin(gaps[i].begin_ns), gaps[i].end_ns - gaps[i].begin_ns);
  }
  Close();
}

}  // namespace stepagent::writers
