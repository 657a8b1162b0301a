#include "collector/writers/perfetto.h"

#include <algorithm>
#include <limits>

#include "collector/writers/output_file.h"
#include "collector/writers/perfetto_device.h"
#include "collector/writers/perfetto_host.h"
#include "collector/writers/perfetto_packets.h"
#include "collector/writers/trace_parts.h"

namespace stepagent::writers {
namespace {

struct Span {
  model::TimeNs begin = std::numeric_limits<model::TimeNs>::max();
  model::TimeNs end = 0;
  void Take(model::TimeNs from, model::TimeNs to) {
    begin = std::min(begin, from);
    end = std::max({end, from, to});
  }
};

// All stamps of the file: the clock snapshots stand at its ends.
Span SpanOf(const model::Cycle& cycle) {
  Span span;
  span.Take(cycle.window_begin_ns, cycle.window_end_ns);
  const auto take = [&span](const auto& items) {
    for (const auto& item : items) span.Take(item.begin_ns, item.end_ns);
  };
  const auto take_work = [&span](const auto& items) {
    for (const auto& item : items) {
      if (item.placed) span.Take(item.begin_ns, item.end_ns);
    }
  };
  take(cycle.steps), take(cycle.calls), take(cycle.ranges), take(cycle.syncs);
  take(cycle.overheads);
  take_work(cycle.kernels), take_work(cycle.copies), take_work(cycle.sets);
  take_work(cycle.graph_launches);
  for (const model::Mark& mark : cycle.marks) span.Take(mark.at_ns, mark.at_ns);
  return span;
}

uint64_t Total(const model::Cycle& cycle) {
  return cycle.steps.size() + cycle.calls.size() + cycle.ranges.size() + cycle.syncs.size() +
         cycle.overheads.size() + cycle.marks.size() + cycle.kernels.size() + cycle.copies.size() +
         cycle.sets.size() + cycle.graph_launches.size();
}

WriteResult WriteOne(const model::Cycle& cycle, const std::string& folder, size_t part,
                     const std::function<void(uint64_t, uint64_t)>& show) {
  const std::string name = part == 0 ? "trace" : "trace.part" + std::to_string(part);
  OutputFile file(folder + "/" + name + ".pftrace", Compression::kNone);
  if (!file.ok()) return {false, file.error(), {}};
  const uint64_t total = Total(cycle);
  const auto progress = [&](uint64_t done) {
    if (show && done % 65536 == 0) show(done, total);
  };
  const Span span = SpanOf(cycle);
  PerfettoPackets packets(cycle, file, part);
  packets.WriteClocks(span.begin, true);
  packets.WriteHeader();
  PerfettoHost(cycle, packets).Write(progress);
  PerfettoDevice(cycle, packets).Write(progress);
  packets.WriteClocks(span.end, false);
  packets.Flush();
  if (!file.Commit()) return {false, file.error(), {}};
  return {true, "", {{file.path(), "perfetto", file.bytes(), packets.events(), file.sha256()}}};
}

}  // namespace

WriteResult PerfettoWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  return WriteParts(cycle, PlanPerfettoParts(cycle, TraceLimit(cycle.session)),
                    [&](const model::Cycle& part, size_t number) {
                      return WriteOne(part, target.cycle_dir, number, target.progress);
                    });
}

}  // namespace stepagent::writers
