#include "agent/drain/columns.h"

#include "agent/core/clock.h"

namespace stepagent::drain {
namespace {

struct Stamps {
  uint64_t start_ns, duration_ns;
  uint8_t flags;
};
Stamps CheckStamps(uint64_t start_ns, uint64_t end_ns) {
  if (end_ns >= start_ns && start_ns != 0) [[likely]]
    return {start_ns, end_ns - start_ns, 0};
  if (start_ns == 0) return {0, 0, core::kDeviceNoTiming};
  if (end_ns == 0) return {start_ns, 0, core::kDeviceUnfinished};
  return {start_ns, start_ns - end_ns, core::kDeviceReversed};
}

}  // namespace

void CallColumns::Add(uint32_t thread_index, const core::Record* const* calls, uint32_t run) {
  using core::Record;
  const uint32_t row = count;
  const auto each = [calls](auto member) {
    return [calls, member](uint32_t i) { return static_cast<uint64_t>(calls[i]->*member); };
  };
  const core::HostClock::Scale scale = core::HostClock::scale();
  thread.AddRun(row, run, [thread_index](uint32_t) { return uint64_t{thread_index}; });
  name.AddRun(row, run, each(&Record::name));
  cls.AddRun(row, run, each(&Record::call_class));
  domain.AddRun(row, run, each(&Record::domain));
  cbid.AddRun(row, run, each(&Record::cbid));
  begin_delta.AddRun(row, run, [&](uint32_t i) {
    return static_cast<uint64_t>(scale.ToNs(calls[i]->begin_ticks));
  });
  duration_ns.AddMixedRun(row, run, [&](uint32_t i) {
    const int64_t begin_ns = scale.ToNs(calls[i]->begin_ticks);
    // Ticks of two cores may be apart by a little: a call never ends before it began.
    const int64_t end_ns = scale.ToNs(calls[i]->end_ticks);
    return end_ns > begin_ns ? static_cast<uint64_t>(end_ns - begin_ns) : 0;
  });
  correlation_delta.AddRun(row, run, each(&Record::correlation));
  return_value.AddRun(
      row, run, [calls](uint32_t i) { return protozero::encode_zigzag64(calls[i]->return_value); });
  flags.AddRun(row, run, each(&Record::category));
  stack.AddRun(row, run, each(&Record::stack));
  count += run;
}

void RangeColumns::Add(uint32_t thread_index, const core::Record* const* entries, uint32_t run) {
  using core::Record;
  const uint32_t row = count;
  const auto each = [entries](auto member) {
    return [entries, member](uint32_t i) { return static_cast<uint64_t>(entries[i]->*member); };
  };
  const core::HostClock::Scale scale = core::HostClock::scale();
  thread.AddRun(row, run, [thread_index](uint32_t) { return uint64_t{thread_index}; });
  op.AddRun(row, run, [entries](uint32_t i) {
    return static_cast<uint64_t>(entries[i]->kind) - static_cast<uint64_t>(core::RecordKind::kCall);
  });
  name.AddRun(row, run, each(&Record::name));
  domain.AddRun(row, run, each(&Record::domain));
  category.AddRun(row, run, each(&Record::category));
  host_delta.AddRun(row, run, [&](uint32_t i) {
    return static_cast<uint64_t>(scale.ToNs(entries[i]->begin_ticks));
  });
  range_id.AddRun(row, run, each(&Record::range_id));
  color.AddRun(row, run, each(&Record::color));
  count += run;
}

template <typename Activity>
uint32_t DeviceColumns::AddShared(const Activity& activity) {
  const uint32_t row = count++;
  const Stamps stamps = CheckStamps(activity.start_ns, activity.end_ns);
  lane.Add(row, lanes.Find(activity.lane));
  device_start_delta.Add(row, stamps.start_ns);
  duration_ns.Add(row, stamps.duration_ns);
  correlation_delta.Add(row, activity.correlation);
  graph_id.Add(row, activity.graph_id);
  flags.Add(row, static_cast<uint32_t>(activity.flags | stamps.flags));
  return row;
}

core::NameId KernelColumns::Add(const core::KernelActivity& k) {
  const uint32_t row = AddShared(k);
  graph_node_id.Add(row, k.graph_node_id);
  bool is_new;
  shape.Add(
      row,
      shapes.Find({Pair(k.name, k.grid[0]), Pair(k.grid[1], k.grid[2]),
                   Pair(k.block[0], k.block[1]), Pair(k.block[2], k.registers_per_thread),
                   Pair(k.static_shared_bytes, k.dynamic_shared_bytes),
                   Pair(k.cluster[0], k.cluster[1]), Pair(k.cluster[2], k.local_bytes_per_thread)},
                  &is_new));
  return is_new ? k.name : 0;
}

void MemcpyColumns::Add(const core::MemcpyActivity& c) {
  const uint32_t row = AddShared(c);
  graph_node_id.Add(row, c.graph_node_id);
  bytes.Add(row, c.bytes);
  copy_kind.Add(row, c.copy_kind);
  source_kind.Add(row, c.source_kind);
  target_kind.Add(row, c.target_kind);
  source_device.AddSigned(row, int64_t{c.source_device} + 1);
  target_device.AddSigned(row, int64_t{c.target_device} + 1);
  is_async.Add(row, c.is_async ? 1 : 0);
  copy_count.Add(row, c.copy_count);
}

void MemsetColumns::Add(const core::MemsetActivity& s) {
  const uint32_t row = AddShared(s);
  graph_node_id.Add(row, s.graph_node_id);
  bytes.Add(row, s.bytes);
  value.Add(row, s.value);
  memory_kind.Add(row, s.memory_kind);
}

void GraphLaunchColumns::Add(const core::GraphActivity& graph) { AddShared(graph); }

void SyncColumns::Add(const core::SyncActivity& s) {
  const uint32_t row = count++;
  const Stamps stamps = CheckStamps(s.start_ns, s.end_ns);
  type.Add(row, s.type);
  context.Add(row, s.context);
  stream.Add(row, s.stream + 1);  // UINT64_MAX, none, becomes 0
  event.Add(row, s.event);
  device_start_delta.Add(row, stamps.start_ns);
  duration_ns.Add(row, stamps.duration_ns);
  correlation_delta.Add(row, s.correlation);
  flags.Add(row, static_cast<uint32_t>(s.flags | stamps.flags));
}

void OverheadColumns::Add(const core::OverheadActivity& o) {
  const uint32_t row = count++;
  const Stamps stamps = CheckStamps(o.start_ns, o.end_ns);
  kind.Add(row, o.kind);
  thread_tid.Add(row, o.tid);
  device_start_delta.Add(row, stamps.start_ns);
  // There is no flag to mark a reversed pair with: it lasts no time.
  duration_ns.Add(row, stamps.flags == 0 ? stamps.duration_ns : 0);
}

void MemoryColumns::Add(const core::MemoryActivity& m) {
  const uint32_t row = count++;
  operation.Add(row, m.operation);
  memory_kind.Add(row, m.memory_kind);
  address.Add(row, m.address);
  bytes.Add(row, m.bytes);
  device_stamp_delta.Add(row, m.at_ns);
  device.AddSigned(row, m.device);
  correlation_delta.Add(row, m.correlation);
}

void ClockColumns::Add(const core::HostClock::Sample& sample) {
  const uint32_t row = count++;
  host_ns.AddSigned(row, sample.host_ns);
  real_ns.AddSigned(row, sample.real_ns);
  bracket_ns.Add(row, sample.bracket_ns);
  suspended_ms.Add(row, sample.suspended_ms);
}

}  // namespace stepagent::drain
