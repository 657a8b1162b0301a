#include "collector/writers/trace_parts.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "collector/writers/json_text.h"
#include "proto/settings.h"

namespace stepagent::writers {
namespace {

// Bytes of one row beside its name, measured on rows of ours with large numbers in them.
constexpr uint64_t kHeadBytes = 6000, kStepBytes = 220, kRangeBytes = 230, kCallBytes = 190,
                   kFlowBytes = 190, kKernelBytes = 620, kCopyBytes = 330, kSetBytes = 300,
                   kGraphBytes = 330, kSyncBytes = 320, kMarkBytes = 190, kOverheadBytes = 150;

// Lengths of names as JSON, each looked up once.
class NameBytes {
 public:
  explicit NameBytes(const model::Cycle& cycle) : cycle_(cycle), bytes_(cycle.strings.size(), 0) {}
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

 private:
  const model::Cycle& cycle_;
  std::vector<uint64_t> bytes_;
};

// Estimated bytes per step; what is outside steps counts for the step before it in time.
class Estimate {
 public:
  explicit Estimate(const model::Cycle& cycle)
      : cycle_(cycle), names_(cycle), bytes_(std::max<size_t>(cycle.steps.size(), 1), 0) {
    for (size_t i = 0; i < cycle.steps.size(); ++i) bytes_[i] += kStepBytes;
    for (const model::Call& c : cycle.calls) {
      Add(c.step, c.begin_ns, kCallBytes + names_.Of(c.name));
    }
    for (const model::Kernel& k : cycle.kernels) {
      AddWork(k, kKernelBytes + names_.OfShape(k.shape));
    }
    for (const model::Copy& c : cycle.copies) AddWork(c, kCopyBytes);
    for (const model::Set& s : cycle.sets) AddWork(s, kSetBytes);
    for (const model::GraphLaunch& g : cycle.graph_launches) AddWork(g, kGraphBytes);
    for (const model::Sync& s : cycle.syncs) Add(s.step, s.begin_ns, kSyncBytes);
    // Twice: beside its own row a range has one over the work it launched.
    for (const model::Range& r : cycle.ranges) {
      Add(r.step, r.begin_ns, 2 * (kRangeBytes + names_.Of(r.name) + names_.Of(r.domain)));
    }
    for (const model::Mark& m : cycle.marks) {
      Add(m.step, m.at_ns, kMarkBytes + names_.Of(m.name) + names_.Of(m.domain));
    }
    for (const model::Overhead& o : cycle.overheads) {
      Add(model::kNoStep, o.begin_ns, kOverheadBytes);
    }
  }
  [[nodiscard]] const std::vector<uint64_t>& steps() const { return bytes_; }

 private:
  template <typename T>
  void AddWork(const T& item, uint64_t bytes) {
    Add(item.step, item.begin_ns, bytes + (item.call >= 0 ? kFlowBytes : 0));
  }
  void Add(int32_t step, model::TimeNs at, uint64_t bytes) {
    size_t place = step < 0 ? StepBefore(at) : static_cast<size_t>(step);
    bytes_[std::min(place, bytes_.size() - 1)] += bytes;
  }
  [[nodiscard]] size_t StepBefore(model::TimeNs at) const {
    const auto later =
        std::upper_bound(cycle_.steps.begin(), cycle_.steps.end(), at,
                         [](model::TimeNs t, const model::Step& s) { return t < s.begin_ns; });
    return later == cycle_.steps.begin() ? 0
                                         : static_cast<size_t>(later - cycle_.steps.begin()) - 1;
  }

  const model::Cycle& cycle_;
  NameBytes names_;
  std::vector<uint64_t> bytes_;
};

std::string Megabytes(uint64_t bytes) {
  if (bytes < 10'000'000) return std::to_string(bytes / 1000) + " kB";
  return std::to_string(bytes / 1'000'000) + " MB";
}

void ChromeNotes(const model::Cycle& cycle, std::vector<model::Note>* notes) {
  const uint64_t limit = TraceLimit(cycle.session);
  const std::vector<TracePart> parts = PlanParts(cycle, limit);
  uint64_t total = 0, largest = 0;
  std::string steps;
  for (const TracePart& part : parts) {
    total += part.estimated_bytes;
    largest = std::max(largest, part.estimated_bytes);
    if (part.first_step == 0) continue;
    steps += (steps.empty() ? "" : ", ") + std::to_string(cycle.steps[part.first_step].index);
  }
  if (parts.size() > 1) {
    notes->push_back({"trace_split", "the Chrome trace, about " + Megabytes(total) +
                                         " of JSON, is in " + std::to_string(parts.size()) +
                                         " parts of at most " + Megabytes(limit) +
                                         " (--max-trace-bytes), cut where steps " + steps +
                                         " begin; a range across a cut is in both, marked as cut"});
  }
  const uint64_t opened = limit == 0 ? kMaxTraceBytes : std::min(limit, kMaxTraceBytes);
  if (largest > opened) {
    notes->push_back({"trace_too_large", "a Chrome trace of about " + Megabytes(largest) +
                                             " of JSON is more than viewers open (about " +
                                             Megabytes(opened) +
                                             "); record fewer steps, or convert to perfetto"});
  }
}

}  // namespace

uint64_t TraceLimit(const model::SessionInfo& session) {
  const auto given = session.settings.find("max-trace-bytes");
  if (given == session.settings.end()) return kMaxTraceBytes;
  return proto::ParseCount(given->second).value_or(kMaxTraceBytes);
}

uint64_t EstimateChromeBytes(const model::Cycle& cycle) {
  const Estimate estimate(cycle);
  uint64_t total = kHeadBytes;
  for (const uint64_t bytes : estimate.steps()) total += bytes;
  return total;
}

std::vector<TracePart> PlanParts(const model::Cycle& cycle, uint64_t limit) {
  const Estimate estimate(cycle);
  std::vector<TracePart> parts{{0, 0, kHeadBytes}};
  for (const uint64_t bytes : estimate.steps()) {
    TracePart& part = parts.back();
    const bool is_full = limit != 0 && part.estimated_bytes + bytes > limit;
    if (is_full && part.last_step > part.first_step) {
      parts.push_back({part.last_step, part.last_step, kHeadBytes});
    }
    parts.back().estimated_bytes += bytes;
    ++parts.back().last_step;
  }
  return parts;
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
  const uint64_t rows =
      cycle.kernels.size() + cycle.copies.size() + cycle.sets.size() + cycle.graph_launches.size();
  if (writes("perfetto") && rows > kManyDeviceRows) {
    notes.push_back({"many_device_rows",
                     "trace.pftrace holds " + std::to_string(rows) +
                         " device rows; a browser tab takes about " +
                         std::to_string(kManyDeviceRows) +
                         ": open it with `trace_processor --httpd`, or record fewer steps"});
  }
  return notes;
}

}  // namespace stepagent::writers
