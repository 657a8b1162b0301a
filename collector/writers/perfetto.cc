#include "collector/writers/perfetto.h"

#include <algorithm>

#include "collector/writers/output_file.h"
#include "collector/writers/perfetto_device.h"
#include "collector/writers/perfetto_host.h"
#include "collector/writers/perfetto_packets.h"
#include "collector/writers/trace_parts.h"

namespace stepagent::writers {
namespace {

// The first stamp of the file; work is in order, so that nobody has to look at all of it.
model::TimeNs FirstStamp(const model::Cycle& cycle) {
  model::TimeNs first = cycle.window_begin_ns;
  const auto take = [&first](const auto& items) {
    for (const auto& item : items) first = std::min(first, item.begin_ns);
  };
  const auto take_work = [&first](const auto& items) {
    for (const auto& item : items) {
      if (!item.placed) continue;
      first = std::min(first, item.begin_ns);
      return;
    }
  };
  take(cycle.steps), take(cycle.ranges), take(cycle.syncs), take(cycle.overheads);
  if (!cycle.calls.empty()) first = std::min(first, cycle.calls.front().begin_ns);
  take_work(cycle.kernels), take_work(cycle.copies), take_work(cycle.sets);
  take_work(cycle.graph_launches);
  for (const model::Mark& mark : cycle.marks) first = std::min(first, mark.at_ns);
  return first;
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
  PerfettoPackets packets(cycle, file, part);
  packets.ReachesTo(cycle.window_end_ns);
  packets.WriteClocks(FirstStamp(cycle), true);
  packets.WriteHeader();
  PerfettoHost(cycle, packets).Write(progress);
  PerfettoDevice(cycle, packets).Write(progress);
  packets.WriteClocks(packets.latest(), false);
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
