#include "collector/writers/trace_parts.h"

#include <algorithm>
#include <limits>
#include <string>

#include "collector/model/cycle_slice.h"
#include "collector/writers/json_text.h"
#include "collector/writers/stack_frames.h"
#include "proto/settings.h"

namespace stepagent::writers {
namespace {

// Bytes of one row beside its name, measured on rows of ours with large numbers in them. Chrome
// repeats a name in each row; packets hold it once.
struct RowBytes {
  bool repeats_names;
  uint64_t head, step, range, call, flow, kernel, copy, set, graph, sync, mark, overhead, stack;
};
constexpr RowBytes kChromeBytes{.repeats_names = true,
                                .head = 6000,
                                .step = 220,
                                .range = 460,  // twice: it has one over the work it launched too
                                .call = 190,
                                .flow = 190,
                                .kernel = 620,
                                .copy = 330,
                                .set = 300,
                                .graph = 330,
                                .sync = 320,
                                .mark = 190,
                                .overhead = 150,
                                .stack = 14};
constexpr RowBytes kPerfettoBytes{.repeats_names = false,
                                  .head = 8000,
                                  .step = 300,  // with its five counters
                                  .range = 100,
                                  .call = 85,
                                  .flow = 10,
                                  .kernel = 140,
                                  .copy = 80,
                                  .set = 80,
                                  .graph = 80,
                                  .sync = 85,
                                  .mark = 60,
                                  .overhead = 75,
                                  .stack = 6};

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

uint64_t HeadBytes(const model::Cycle& cycle, const RowBytes& row) {
  uint64_t bytes = row.head;
  if (row.repeats_names) return bytes;
  for (const std::string& text : cycle.strings) bytes += text.size();
  return bytes;
}

// Lengths of names as JSON, each looked up once.
class NameBytes {
 public:
  explicit NameBytes(const model::Cycle& cycle)
      : cycle_(cycle), bytes_(cycle.strings.size(), 0), stacks_(cycle.stacks.size(), 0) {}
  uint64_t Of(model::StringId id) {
    if (id >= bytes_.size()) return 2;
    if (bytes_[id] == 0) bytes_[id] = JsonString(cycle_.Text(id)).size();
    return bytes_[id];
  }
  uint64_t OfShape(uint32_t shape) {
    if (shape >= cycle_.shapes.size()) return 9;
    const model::Shape& s = cycle_.shapes[shape];
    return Of(s.demangled != 0 ? s.demangled : s.name);
  }

  uint64_t OfStack(const model::Call& call) {
    const std::vector<model::Frame>* stack = StackOf(cycle_, call);
    if (stack == nullptr || stack->empty()) return 0;
    uint64_t& bytes = stacks_[static_cast<size_t>(call.stack)];
    if (bytes == 0) bytes = JsonString(CallStackText(cycle_, *stack)).size();
    return bytes;
  }

 private:
  const model::Cycle& cycle_;
  std::vector<uint64_t> bytes_, stacks_;
};

// Estimated bytes per step; what is outside steps counts for the step before it in time, and a
// range for that in which it begins.
class Estimate {
 public:
  struct StepSize {
    uint64_t bytes = 0, device_rows = 0;
  };
  // `has_parts`: where records lie is asked for, too.
  Estimate(const model::Cycle& cycle, const RowBytes& row, bool has_parts)
      : row_(row), names_(cycle), steps_(std::max<size_t>(cycle.steps.size(), 1)) {
    for (size_t i = 0; i < cycle.steps.size(); ++i) steps_[i].bytes += row.step;
    const auto count = [this](const auto& record, size_t place) { Count(record, steps_[place]); };
    if (has_parts) {
      spans_ = model::SpansOfSteps(cycle, count);
      return;
    }
    model::VisitBySteps(cycle, [&](const auto& record, size_t place, auto /*span*/, size_t /*i*/) {
      count(record, place);
    });
  }
  [[nodiscard]] const std::vector<StepSize>& steps() const { return steps_; }
  // By step; empty where they were not asked for.
  [[nodiscard]] const std::vector<model::StepSpans>& spans() const { return spans_; }

 private:
  [[nodiscard]] uint64_t Name(model::StringId id) { return row_.repeats_names ? names_.Of(id) : 0; }
  void Count(const model::Call& call, StepSize& step) {
    step.bytes += row_.call + Name(call.name);
    if (call.stack < 0) return;
    step.bytes += row_.stack + (row_.repeats_names ? names_.OfStack(call) : 0);
  }
  void Count(const model::Kernel& kernel, StepSize& step) {
    CountWork(kernel, row_.kernel + (row_.repeats_names ? names_.OfShape(kernel.shape) : 0), step);
  }
  void Count(const model::Copy& copy, StepSize& step) { CountWork(copy, row_.copy, step); }
  void Count(const model::Set& set, StepSize& step) { CountWork(set, row_.set, step); }
  void Count(const model::GraphLaunch& graph, StepSize& step) {
    CountWork(graph, row_.graph, step);
  }
  void CountWork(const model::DeviceItem& item, uint64_t bytes, StepSize& step) {
    step.bytes += bytes + (item.call >= 0 ? row_.flow : 0);
    ++step.device_rows;
  }
  void Count(const model::Sync& /*sync*/, StepSize& step) { step.bytes += row_.sync; }
  void Count(const model::Range& range, StepSize& step) {
    step.bytes += row_.range + 2 * (Name(range.name) + Name(range.domain));
  }
  void Count(const model::Mark& mark, StepSize& step) {
    step.bytes += row_.mark + Name(mark.name) + Name(mark.domain);
  }
  void Count(const model::MemoryEvent& /*event*/, StepSize& /*step*/) {}  // no row of a trace
  void Count(const model::Overhead& /*overhead*/, StepSize& step) { step.bytes += row_.overhead; }

  const RowBytes& row_;
  NameBytes names_;
  std::vector<StepSize> steps_;
  std::vector<model::StepSpans> spans_;
};

uint64_t DeviceRows(const model::Cycle& cycle) {
  return cycle.kernels.size() + cycle.copies.size() + cycle.sets.size() +
         cycle.graph_launches.size();
}

// No trace of the cycle is larger: counts of rows, each with the longest name there is. Where even
// that is within the limit, nobody has to look at each row.
uint64_t UpperBound(const model::Cycle& cycle, const RowBytes& row) {
  uint64_t name = 2;
  for (const std::string& text : cycle.strings) name = std::max<uint64_t>(name, 6 * text.size());
  uint64_t stack = cycle.stacks.empty() ? 0 : row.stack;
  if (row.repeats_names) {
    for (const std::vector<model::Frame>& frames : cycle.stacks) {
      stack = std::max(stack, row.stack + 6 * CallStackText(cycle, frames).size());
    }
  } else {
    name = 0;
  }
  return HeadBytes(cycle, row) + cycle.steps.size() * row.step +
         cycle.calls.size() * (row.call + name + stack) + DeviceRows(cycle) * (row.flow + name) +
         cycle.kernels.size() * row.kernel + cycle.copies.size() * row.copy +
         cycle.sets.size() * row.set + cycle.graph_launches.size() * row.graph +
         cycle.syncs.size() * row.sync + cycle.ranges.size() * (row.range + 4 * name) +
         cycle.marks.size() * (row.mark + 2 * name) + cycle.overheads.size() * row.overhead;
}

std::vector<TracePart> Plan(const model::Cycle& cycle, const RowBytes& row, uint64_t max_bytes,
                            uint64_t max_rows) {
  if (max_bytes != kNoLimit && DeviceRows(cycle) <= max_rows) {
    const uint64_t bound = UpperBound(cycle, row);
    if (bound <= max_bytes) return {{0, cycle.steps.size(), bound, DeviceRows(cycle), {}}};
  }
  const bool is_cut_never = max_bytes == kNoLimit && max_rows == kNoLimit;
  const Estimate estimate(cycle, row, !is_cut_never);
  const uint64_t head = HeadBytes(cycle, row);  // of each part
  std::vector<TracePart> parts{{0, 0, head, 0, {}}};
  for (size_t i = 0; i < estimate.steps().size(); ++i) {
    const Estimate::StepSize& step = estimate.steps()[i];
    const TracePart& part = parts.back();
    const bool is_full = part.estimated_bytes + step.bytes > max_bytes ||
                         part.device_rows + step.device_rows > max_rows;
    if (is_full && part.last_step > part.first_step) {
      parts.push_back({part.last_step, part.last_step, head, 0, {}});
    }
    parts.back().estimated_bytes += step.bytes;
    parts.back().device_rows += step.device_rows;
    if (!is_cut_never) parts.back().spans.Join(estimate.spans()[i]);
    ++parts.back().last_step;
  }
  return parts;
}

std::string Megabytes(uint64_t bytes) {
  if (bytes < 10'000'000) return std::to_string(bytes / 1000) + " kB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

// The steps at which all but the first part begin.
std::string Borders(const model::Cycle& cycle, const std::vector<TracePart>& parts) {
  std::string steps;
  for (size_t i = 1; i < parts.size(); ++i) {
    steps += (i == 1 ? "" : ", ") + std::to_string(cycle.steps[parts[i].first_step].index);
  }
  return steps;
}

struct Sizes {
  TracePart total, largest;
};
Sizes SizesOf(const std::vector<TracePart>& parts) {
  Sizes sizes;
  for (const TracePart& part : parts) {
    sizes.total.estimated_bytes += part.estimated_bytes;
    sizes.total.device_rows += part.device_rows;
    sizes.largest.estimated_bytes = std::max(sizes.largest.estimated_bytes, part.estimated_bytes);
    sizes.largest.device_rows = std::max(sizes.largest.device_rows, part.device_rows);
  }
  return sizes;
}

// A step is never cut: one that is larger than the limit makes a part that is.
std::string LimitText(const std::vector<TracePart>& parts, uint64_t limit) {
  const auto above = std::count_if(parts.begin(), parts.end(), [limit](const TracePart& part) {
    return limit != 0 && part.estimated_bytes > limit;
  });
  std::string text = "of about " + Megabytes(limit) + " at most (--max-trace-bytes)";
  if (above == 0) return text;
  const uint64_t largest = SizesOf(parts).largest.estimated_bytes;
  return text + " but for " + std::to_string(above) + " with a single step that is larger, up to " +
         "about " + Megabytes(largest);
}

void ChromeNotes(const model::Cycle& cycle, std::vector<model::Note>* notes) {
  const uint64_t limit = TraceLimit(cycle.session);
  const std::vector<TracePart> parts = PlanParts(cycle, limit);
  const Sizes sizes = SizesOf(parts);
  if (parts.size() > 1) {
    notes->push_back(
        {"trace_split", "the Chrome trace, about " + Megabytes(sizes.total.estimated_bytes) +
                            " of JSON, is in " + std::to_string(parts.size()) +
                            " parts of whole steps, " + LimitText(parts, limit) +
                            ", cut where steps " + Borders(cycle, parts) +
                            " begin; a range across a cut is in both, marked as cut"});
  }
  const uint64_t largest = sizes.largest.estimated_bytes;
  const uint64_t opened = limit == 0 ? kMaxTraceBytes : std::min(limit, kMaxTraceBytes);
  if (largest > opened) {
    notes->push_back({"trace_too_large", "a Chrome trace of about " + Megabytes(largest) +
                                             " of JSON is more than viewers open (about " +
                                             Megabytes(opened) +
                                             "); record fewer steps, or convert to perfetto"});
  }
}

void PerfettoNotes(const model::Cycle& cycle, std::vector<model::Note>* notes) {
  const uint64_t limit = TraceLimit(cycle.session);
  const std::vector<TracePart> parts = PlanPerfettoParts(cycle, limit);
  const Sizes sizes = SizesOf(parts);
  if (parts.size() > 1) {
    notes->push_back({"perfetto_split",
                      "trace.pftrace, " + std::to_string(sizes.total.device_rows) +
                          " device rows in about " + Megabytes(sizes.total.estimated_bytes) +
                          ", is in " + std::to_string(parts.size()) +
                          " files (trace.part1.pftrace and so on) of whole steps, " +
                          LimitText(parts, limit) + ", and of at most " +
                          std::to_string(kManyDeviceRows) +
                          " device rows unless one step has more, cut where steps " +
                          Borders(cycle, parts) +
                          " begin; a range across a cut is in both, marked as cut"});
  }
  if (sizes.largest.device_rows > kManyDeviceRows) {
    notes->push_back({"many_device_rows",
                      std::string(parts.size() > 1 ? "a part of " : "") + "trace.pftrace holds " +
                          std::to_string(sizes.largest.device_rows) +
                          " device rows; a browser tab takes about " +
                          std::to_string(kManyDeviceRows) +
                          ": open it with `trace_processor --httpd`, or record fewer steps"});
  }
}

}  // namespace

uint64_t TraceLimit(const model::SessionInfo& session) {
  const auto given = session.settings.find("max-trace-bytes");
  if (given == session.settings.end()) return kMaxTraceBytes;
  return proto::ParseCount(given->second).value_or(kMaxTraceBytes);
}

uint64_t EstimateChromeBytes(const model::Cycle& cycle) {
  return PlanParts(cycle, 0).front().estimated_bytes;
}

std::vector<TracePart> PlanParts(const model::Cycle& cycle, uint64_t limit) {
  return Plan(cycle, kChromeBytes, limit == 0 ? kNoLimit : limit, kNoLimit);
}

std::vector<TracePart> PlanPerfettoParts(const model::Cycle& cycle, uint64_t limit) {
  if (limit == 0) return Plan(cycle, kPerfettoBytes, kNoLimit, kNoLimit);
  return Plan(cycle, kPerfettoBytes, limit, kManyDeviceRows);
}

WriteResult WriteParts(
    const model::Cycle& cycle, const std::vector<TracePart>& parts,
    const std::function<WriteResult(const model::Cycle& part, size_t number)>& write) {
  if (parts.size() == 1) return write(cycle, 0);
  WriteResult all{true, "", {}};
  model::StepSlicer slicer(cycle);
  for (size_t i = 0; i < parts.size() && all.ok; ++i) {
    model::Cycle& part = slicer.Next(parts[i].last_step, parts[i].spans);
    part.notes.push_back({"trace_part", "part " + std::to_string(i + 1) + " of " +
                                            std::to_string(parts.size()) + " of this cycle"});
    const WriteResult one = write(part, i);
    all.ok = one.ok;
    all.error = one.error;
    all.files.insert(all.files.end(), one.files.begin(), one.files.end());
  }
  return all;
}

std::string PartFolder(const std::string& traces_dir, size_t part) {
  return part == 0 ? traces_dir : traces_dir + ".part" + std::to_string(part);
}

std::vector<model::Note> SizeNotes(const model::Cycle& cycle) {
  std::vector<model::Note> notes;
  const std::vector<std::string>& formats = cycle.session.formats;
  const auto writes = [&](const char* format) {
    return std::find(formats.begin(), formats.end(), format) != formats.end();
  };
  if (writes("chrome")) ChromeNotes(cycle, &notes);
  if (writes("perfetto")) PerfettoNotes(cycle, &notes);
  return notes;
}

}  // namespace stepagent::writers
