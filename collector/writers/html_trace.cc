#include "collector/writers/html_trace.h"

#include <algorithm>
#include <limits>

#include "collector/writers/html_text.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

using model::TimeNs;

constexpr uint64_t kMarkLimit = 20'000, kOverheadLimit = 20'000;
constexpr uint64_t kMostBins = 8192;  // four times the pixels of a wide screen

int64_t Length(TimeNs begin, TimeNs end) { return end > begin ? end - begin : 0; }

enum RangeFlag : uint32_t { kStartEnd = 1, kCutAtBegin = 2, kCutAtEnd = 4, kStepRange = 8 };

// Calls `use(begin, end)` for everything that is drawn, in the order in which it is written.
template <typename Use>
void ForEachItem(const model::Cycle& cycle, Use use) {
  const auto device = [&](const auto& items) {
    for (const auto& item : items) {
      if (IsDrawn(cycle, item)) use(item.begin_ns, item.end_ns);
    }
  };
  for (const model::Call& call : cycle.calls) use(call.begin_ns, call.end_ns);
  device(cycle.kernels);
  device(cycle.copies);
  device(cycle.sets);
  device(cycle.graph_launches);
  for (const model::Range& range : cycle.ranges) use(range.begin_ns, range.end_ns);
}

}  // namespace

HtmlTrace::HtmlTrace(const model::Cycle& cycle, OutputFile& file, uint64_t drawn_limit,
                     const std::function<void(uint64_t, uint64_t)>& progress)
    : cycle_(cycle),
      work_(cycle),
      progress_(progress),
      text_(file),
      limit_(drawn_limit),
      choice_(drawn_limit),
      ordinal_of_call_(cycle.calls.size(), -1),
      text_of_(cycle.strings.size(), -1),
      call_name_of_(cycle.strings.size(), -1),
      shape_of_(cycle.shapes.size(), -1) {}

void HtmlTrace::Write() {
  Measure();
  text_.Begin(0);
  text_.Literal("{");
  Head();
  Steps();
  Calls();
  DeviceItems();
  Ranges();
  Instants();
  Overheads();
  Busy();
  Open(",\"bundles\":[");
  RawText(bundles_);
  Close();
  Shapes();
  Texts();
  text_.Begin(0);
  text_.Literal("}");
  text_.Flush();
}

void HtmlTrace::Measure() {
  TimeNs first = std::numeric_limits<TimeNs>::max(), last = std::numeric_limits<TimeNs>::min();
  const auto see = [&](TimeNs begin, TimeNs end) {
    first = std::min(first, begin), last = std::max({last, begin, end});
  };
  if (cycle_.window_end_ns > cycle_.window_begin_ns) {
    see(cycle_.window_begin_ns, cycle_.window_end_ns);
    origin_ns_ = cycle_.window_begin_ns;
  }
  ForEachItem(cycle_, [&](TimeNs begin, TimeNs end) {
    choice_.Count(Length(begin, end));
    see(begin, end);
  });
  for (const model::Mark& mark : cycle_.marks) see(mark.at_ns, mark.at_ns);
  choice_.Decide();
  if (first > last) first = last = cycle_.window_begin_ns;
  if (cycle_.window_end_ns <= cycle_.window_begin_ns) origin_ns_ = first;
  from_ns_ = first, to_ns_ = last;
  const uint64_t rows = std::max<uint64_t>(cycle_.lanes.size() * 2 + cycle_.threads.size() * 2, 1);
  const uint64_t bins = std::clamp<uint64_t>(limit_ / 2 / rows, 16, kMostBins);
  bin_ns_ = (to_ns_ - from_ns_) / static_cast<int64_t>(bins) + 1;
}

void HtmlTrace::Open(const char* key) {
  text_.Begin(0);
  text_.Text(key);
  is_first_ = true;
  last_ns_ = origin_ns_;
}

void HtmlTrace::Row(size_t variable_bytes) {
  text_.Begin(variable_bytes);
  if (!is_first_) text_.Literal(",");
  is_first_ = false;
}

void HtmlTrace::RawText(const std::string& json) {
  text_.Begin(json.size());
  text_.Text(json);
}

int64_t HtmlTrace::FromLast(TimeNs begin_ns) {
  const int64_t difference = begin_ns - last_ns_;
  last_ns_ = begin_ns;
  return difference;
}

void HtmlTrace::Count() {
  if (progress_ && ++done_ % 65536 == 0) progress_(done_, choice_.counted());
}

Bundler HtmlTrace::MakeBundler(BundleKind kind, size_t rows) {
  return Bundler(rows, from_ns_, bin_ns_, [this, kind](const Bundle& b) {
    if (!bundles_.empty()) bundles_ += ',';
    for (const int64_t number : {int64_t{kind}, int64_t{b.row}, FromOrigin(b.begin_ns),
                                 b.end_ns - b.begin_ns, static_cast<int64_t>(b.count)}) {
      bundles_ += std::to_string(number) + ',';
    }
    bundles_ += std::to_string(b.covered_ns);
  });
}

uint32_t HtmlTrace::Extra(std::string text) {
  const auto [it, is_new] = extra_.try_emplace(std::move(text), 0);
  if (is_new) {
    it->second = static_cast<uint32_t>(texts_.size());
    texts_.push_back(ScriptSafe(JsonString(ShortenedName(it->first))));
  }
  return it->second;
}

uint32_t HtmlTrace::Text(model::StringId id) {
  if (id >= text_of_.size()) return Extra("unknown");
  if (text_of_[id] < 0) text_of_[id] = static_cast<int32_t>(Extra(cycle_.strings[id]));
  return static_cast<uint32_t>(text_of_[id]);
}

uint32_t HtmlTrace::CallName(model::StringId id) {
  if (id >= call_name_of_.size()) return Extra("unknown");
  int32_t& known = call_name_of_[id];
  if (known < 0) {
    known = static_cast<int32_t>(Extra(std::string(WithoutVersionSuffix(cycle_.strings[id]))));
  }
  return static_cast<uint32_t>(known);
}

uint32_t HtmlTrace::ShapeRef(uint32_t shape) {
  int32_t& known = shape_of_[shape];
  if (known < 0) {
    known = static_cast<int32_t>(shapes_.size());
    shapes_.push_back(shape);
  }
  return static_cast<uint32_t>(known);
}

void HtmlTrace::Head() {
  RawText("\"origin_ns\":\"" + std::to_string(origin_ns_) + "\",\"extent\":[" +
          std::to_string(FromOrigin(from_ns_)) + "," + std::to_string(FromOrigin(to_ns_)) +
          "],\"window\":[" + std::to_string(FromOrigin(cycle_.window_begin_ns)) + "," +
          std::to_string(FromOrigin(cycle_.window_end_ns)) + "],\"drawn\":" +
          std::to_string(choice_.taken()) + ",\"items\":" + std::to_string(choice_.counted()) +
          ",\"marks_drawn\":" + std::to_string(std::min(kMarkLimit, cycle_.marks.size())) +
          ",\"marks_all\":" + std::to_string(cycle_.marks.size()));
  Open(",\"threads\":[");
  for (const model::Thread& thread : cycle_.threads) {
    const std::string name = ScriptSafe(JsonString(ShortenedName(thread.name)));
    Row(name.size());
    text_.Literal("[");
    text_.Number(thread.tid);
    text_.Literal(",");
    text_.Text(name);
    text_.Literal("]");
  }
  Close();
  Open(",\"lanes\":[");
  for (const model::Lane& lane : cycle_.lanes) {
    Flat(lane.device, lane.context, lane.stream_index);
  }
  Close();
}

void HtmlTrace::Steps() {
  Open(",\"steps\":[");
  for (const model::Step& step : cycle_.steps) {
    const uint32_t flags = (step.complete ? 0U : 1U) | (step.contains_tracer_start ? 2U : 0U) |
                           (step.partial ? 4U : 0U);
    Flat(step.index, FromLast(step.begin_ns), Length(step.begin_ns, step.end_ns), step.thread,
         flags);
  }
  Close();
}

void HtmlTrace::Calls() {
  Bundler short_ones = MakeBundler(kOfCalls, cycle_.threads.size());
  int32_t ordinal = 0;
  Open(",\"calls\":[");
  for (size_t i = 0; i < cycle_.calls.size(); ++i) {
    const model::Call& call = cycle_.calls[i];
    const int64_t length = Length(call.begin_ns, call.end_ns);
    Count();
    if (!choice_.Takes(length)) {
      short_ones.Add(call.thread, call.begin_ns, call.end_ns);
      continue;
    }
    ordinal_of_call_[i] = ordinal++;
    Flat(call.thread, FromLast(call.begin_ns), length, CallName(call.name),
         static_cast<uint32_t>(call.cls), call.step, call.correlation,
         (call.failed ? 1U : 0U) | (call.captured ? 2U : 0U));
  }
  Close();
  short_ones.Finish();
}

template <typename T, typename Ref, typename More>
void HtmlTrace::Work(const char* key, BundleKind kind, const std::vector<T>& items, Ref ref,
                     More more) {
  Bundler short_ones = MakeBundler(kind, cycle_.lanes.size());
  Open(key);
  for (const T& item : items) {
    if (!IsDrawn(cycle_, item)) continue;
    const int64_t length = Length(item.begin_ns, item.end_ns);
    Count();
    if (!choice_.Takes(length)) {
      short_ones.Add(item.lane, item.begin_ns, item.end_ns);
      continue;
    }
    const bool is_known =
        item.call >= 0 && static_cast<size_t>(item.call) < ordinal_of_call_.size();
    // -1: launch not seen; -2: seen, its call is drawn together with others.
    const int32_t drawn = is_known ? ordinal_of_call_[static_cast<size_t>(item.call)] : -1;
    Flat(item.lane, FromLast(item.begin_ns), length, ref(item), is_known && drawn < 0 ? -2 : drawn,
         item.step, more(item));
  }
  Close();
  short_ones.Finish();
}

void HtmlTrace::DeviceItems() {
  size_t next_suspect = 0;
  const auto& suspects = work_.set_aside();
  Work(
      ",\"kernels\":[", kOfWork, cycle_.kernels,
      [&](const model::Kernel& k) {
        return k.shape < cycle_.shapes.size() ? static_cast<int64_t>(ShapeRef(k.shape)) : -1;
      },
      // -1: a duration that is not to be believed.
      [&](const model::Kernel& k) {
        const auto index = static_cast<size_t>(&k - cycle_.kernels.data());
        while (next_suspect < suspects.size() && suspects[next_suspect].kernel < index)
          ++next_suspect;
        const bool is_suspect =
            next_suspect < suspects.size() && suspects[next_suspect].kernel == index;
        return is_suspect ? int64_t{-1} : int64_t{k.graph_id};
      });
  Work(
      ",\"copies\":[", kOfCopies, cycle_.copies,
      [&](const model::Copy& c) { return Extra(CopyName(c)); },
      [](const model::Copy& c) { return c.has_bytes ? static_cast<int64_t>(c.bytes) : -1; });
  Work(
      ",\"sets\":[", kOfCopies, cycle_.sets, [&](const model::Set& s) { return Extra(SetName(s)); },
      [](const model::Set& s) { return s.has_bytes ? static_cast<int64_t>(s.bytes) : -1; });
  Work(
      ",\"graphs\":[", kOfWork, cycle_.graph_launches,
      [&](const model::GraphLaunch& g) { return Extra(GraphLaunchName(g)); },
      [](const model::GraphLaunch& g) { return g.graph_id; });
}

void HtmlTrace::Ranges() {
  Bundler short_ones = MakeBundler(kOfRanges, cycle_.threads.size());
  Open(",\"ranges\":[");
  for (const model::Range& r : cycle_.ranges) {
    const int64_t length = Length(r.begin_ns, r.end_ns);
    Count();
    if (!choice_.Takes(length)) {
      short_ones.Add(r.thread, r.begin_ns, r.end_ns);
      continue;
    }
    const uint32_t flags = (r.is_start_end ? kStartEnd : 0U) | (r.cut_at_begin ? kCutAtBegin : 0U) |
                           (r.cut_at_end ? kCutAtEnd : 0U) | (r.is_step_range ? kStepRange : 0U);
    Flat(r.thread, FromLast(r.begin_ns), length, Text(r.name),
         r.domain == 0 ? int64_t{-1} : int64_t{Text(r.domain)}, r.step, flags);
  }
  Close();
  short_ones.Finish();
}

void HtmlTrace::Instants() {
  LongestChoice marks(kMarkLimit);
  for (size_t i = 0; i < cycle_.marks.size(); ++i) marks.Count(0);
  marks.Decide();
  Open(",\"marks\":[");
  for (const model::Mark& mark : cycle_.marks) {
    if (!marks.Takes(0)) continue;
    Flat(mark.thread, FromLast(mark.at_ns), Text(mark.name),
         mark.domain == 0 ? int64_t{-1} : int64_t{Text(mark.domain)}, mark.step);
  }
  Close();
}

void HtmlTrace::Overheads() {
  LongestChoice overheads(kOverheadLimit);
  for (const model::Overhead& o : cycle_.overheads) overheads.Count(Length(o.begin_ns, o.end_ns));
  overheads.Decide();
  Open(",\"overheads\":[");
  for (const model::Overhead& o : cycle_.overheads) {
    const int64_t length = Length(o.begin_ns, o.end_ns);
    if (!overheads.Takes(length)) continue;
    Flat(o.tid, FromLast(o.begin_ns), length, Extra(std::string(OverheadName(o.kind))));
  }
  Close();
}

void HtmlTrace::Shapes() {
  Open(",\"shapes\":[");
  for (const uint32_t index : shapes_) {
    const model::Shape& s = cycle_.shapes[index];
    // -1: the file this was read from does not tell.
    const auto known = [](bool is_known, uint32_t value) {
      return is_known ? int64_t{value} : int64_t{-1};
    };
    Flat(Text(s.demangled != 0 ? s.demangled : s.name), known(s.has_grid, s.grid[0]),
         known(s.has_grid, s.grid[1]), known(s.has_grid, s.grid[2]),
         known(s.has_block, s.block[0]), known(s.has_block, s.block[1]),
         known(s.has_block, s.block[2]), known(s.has_registers, s.registers_per_thread),
         known(!cycle_.is_from_trace, s.static_shared_bytes),
         known(s.has_shared, s.dynamic_shared_bytes), work_.IsCollective(index) ? 1U : 0U);
  }
  Close();
}

void HtmlTrace::Texts() {
  Open(",\"texts\":[");
  for (const std::string& text : texts_) {
    Row(text.size());
    text_.Text(text);
  }
  Close();
}

}  // namespace stepagent::writers
