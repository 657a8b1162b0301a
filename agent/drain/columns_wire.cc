// The columns' way into a message: sizes, bytes, clearing.
#include <concepts>
#include <type_traits>

#include "agent/drain/columns.h"

namespace stepagent::drain {
namespace {

template <typename T, typename Wanted>
concept Is = std::same_as<std::remove_const_t<T>, Wanted>;

const Column& Plain(const Column& column) { return column; }
const Column& Plain(const DeltaColumn& column) { return column.column(); }

// One list of columns per message, in the order of the field numbers: writing, sizing and clearing
// all walk it. `visit(field, column)`.
template <Is<CallColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Calls;
  visit(thread, c.thread);
  visit(name, c.name);
  visit(cls, c.cls);
  visit(domain, c.domain);
  visit(cbid, c.cbid);
  visit(begin_delta, c.begin_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(return_value, c.return_value);
  visit(flags, c.flags);
  visit(stack, c.stack);
}

template <Is<KernelColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Kernels;
  visit(shape, c.shape);
  visit(lane, c.lane);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(graph_id, c.graph_id);
  visit(graph_node_id, c.graph_node_id);
  visit(flags, c.flags);
}

template <Is<MemcpyColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Memcpys;
  visit(lane, c.lane);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(bytes, c.bytes);
  visit(copy_kind, c.copy_kind);
  visit(source_kind, c.source_kind);
  visit(target_kind, c.target_kind);
  visit(graph_id, c.graph_id);
  visit(graph_node_id, c.graph_node_id);
  visit(flags, c.flags);
  visit(source_device, c.source_device);
  visit(target_device, c.target_device);
  visit(is_async, c.is_async);
  visit(copy_count, c.copy_count);
}

template <Is<MemsetColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Memsets;
  visit(lane, c.lane);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(bytes, c.bytes);
  visit(value, c.value);
  visit(memory_kind, c.memory_kind);
  visit(graph_id, c.graph_id);
  visit(graph_node_id, c.graph_node_id);
  visit(flags, c.flags);
}

template <Is<SyncColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Syncs;
  visit(type, c.type);
  visit(context, c.context);
  visit(stream, c.stream);
  visit(event, c.event);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(flags, c.flags);
}

template <Is<GraphLaunchColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::GraphLaunches;
  visit(lane, c.lane);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
  visit(correlation_delta, c.correlation_delta);
  visit(graph_id, c.graph_id);
  visit(flags, c.flags);
}

template <Is<RangeColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Ranges;
  visit(thread, c.thread);
  visit(op, c.op);
  visit(name, c.name);
  visit(domain, c.domain);
  visit(category, c.category);
  visit(host_delta, c.host_delta);
  visit(range_id, c.range_id);
  visit(color, c.color);
}

template <Is<OverheadColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Overheads;
  visit(kind, c.kind);
  visit(thread_tid, c.thread_tid);
  visit(device_start_delta, c.device_start_delta);
  visit(duration_ns, c.duration_ns);
}

template <Is<MemoryColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::Memories;
  visit(operation, c.operation);
  visit(memory_kind, c.memory_kind);
  visit(address, c.address);
  visit(bytes, c.bytes);
  visit(device_stamp_delta, c.device_stamp_delta);
  visit(device, c.device);
  visit(correlation_delta, c.correlation_delta);
}

template <Is<ClockColumns> C, typename F>
void Each(C& c, F&& visit) {
  using enum wire::ClockSamples;
  visit(host_ns, c.host_ns);
  visit(real_ns, c.real_ns);
  visit(bracket_ns, c.bracket_ns);
  visit(suspended_ms, c.suspended_ms);
}

template <typename Message>
void WriteColumn(protozero::pbf_builder<Message>* message, Message field, const Column& column) {
  if (!column.empty()) message->add_bytes(field, column.data(), column.size());
}

template <typename Message, typename C>
void WriteColumns(protozero::pbf_builder<Message>* message, const C& columns) {
  Each(columns, [message](Message field, const auto& column) {
    WriteColumn(message, field, Plain(column));
  });
}

template <typename C>
size_t BytesOf(const C& columns) {
  size_t bytes = 0;
  Each(columns, [&bytes](auto, const auto& column) { bytes += Plain(column).size(); });
  return bytes;
}

template <typename C>
void ClearAll(C* columns) {
  columns->count = 0;
  Each(*columns, [](auto, auto& column) { column.Clear(); });
}

// Messages that are nothing but a count and columns.
template <typename Message, typename C>
void WritePlain(BatchWriter* batch, wire::Batch field, const C& columns) {
  if (columns.count == 0) return;
  protozero::pbf_builder<Message> message(*batch, field);
  message.add_uint32(Message::count, columns.count);
  WriteColumns(&message, columns);
}

template <typename Message, typename C>
void WriteDevice(BatchWriter* batch, wire::Batch field, const C& columns) {
  if (columns.count == 0) return;
  protozero::pbf_builder<Message> message(*batch, field);
  message.add_uint32(Message::count, columns.count);
  columns.lanes.Write(&message);
  WriteColumns(&message, columns);
}

void WriteShapes(protozero::pbf_builder<wire::Kernels>* kernels, const Dictionary<7>& shapes) {
  using enum wire::Shapes;
  protozero::pbf_builder<wire::Shapes> message(*kernels, wire::Kernels::shapes);
  message.add_uint32(count, shapes.size());
  Column column;
  const auto put = [&](wire::Shapes field, size_t word, uint32_t (*half)(uint64_t)) {
    column.Clear();
    for (uint32_t row = 0; row < shapes.size(); ++row) {
      column.Add(row, half(shapes.keys()[row][word]));
    }
    WriteColumn(&message, field, column);
  };
  put(name, 0, Low);
  put(grid_x, 0, High);
  put(grid_y, 1, Low);
  put(grid_z, 1, High);
  put(block_x, 2, Low);
  put(block_y, 2, High);
  put(block_z, 3, Low);
  put(registers_per_thread, 3, High);
  put(static_shared_bytes, 4, Low);
  put(dynamic_shared_bytes, 4, High);
  put(cluster_x, 5, Low);
  put(cluster_y, 5, High);
  put(cluster_z, 6, Low);
  put(local_bytes_per_thread, 6, High);
}

}  // namespace

template <typename Message>
void LaneDictionary::Write(protozero::pbf_builder<Message>* parent) const {
  using enum wire::Lanes;
  protozero::pbf_builder<wire::Lanes> message(*parent, Message::lanes);
  message.add_uint32(count, keys_.size());
  Column column;
  const auto put = [&](wire::Lanes field, auto&& value_of) {
    column.Clear();
    for (uint32_t row = 0; row < keys_.size(); ++row) column.Add(row, value_of(keys_.keys()[row]));
    WriteColumn(&message, field, column);
  };
  using Key = Dictionary<3>::Key;
  put(device,
      [](const Key& k) { return protozero::encode_zigzag64(static_cast<int32_t>(Low(k[0]))); });
  put(context, [](const Key& k) { return High(k[0]); });
  put(stream, [](const Key& k) { return k[1]; });
  put(channel, [](const Key& k) { return Low(k[2]); });
  put(channel_type, [](const Key& k) { return High(k[2]); });
}

void CallColumns::Write(BatchWriter* batch) const {
  WritePlain<wire::Calls>(batch, wire::Batch::calls, *this);
}
void KernelColumns::Write(BatchWriter* batch) const {
  if (count == 0) return;
  protozero::pbf_builder<wire::Kernels> message(*batch, wire::Batch::kernels);
  message.add_uint32(wire::Kernels::count, count);
  WriteShapes(&message, shapes);
  lanes.Write(&message);
  WriteColumns(&message, *this);
}
void MemcpyColumns::Write(BatchWriter* batch) const {
  WriteDevice<wire::Memcpys>(batch, wire::Batch::memcpys, *this);
}
void MemsetColumns::Write(BatchWriter* batch) const {
  WriteDevice<wire::Memsets>(batch, wire::Batch::memsets, *this);
}
void SyncColumns::Write(BatchWriter* batch) const {
  WritePlain<wire::Syncs>(batch, wire::Batch::syncs, *this);
}
void GraphLaunchColumns::Write(BatchWriter* batch) const {
  WriteDevice<wire::GraphLaunches>(batch, wire::Batch::graph_launches, *this);
}
void RangeColumns::Write(BatchWriter* batch) const {
  WritePlain<wire::Ranges>(batch, wire::Batch::ranges, *this);
}
void OverheadColumns::Write(BatchWriter* batch) const {
  WritePlain<wire::Overheads>(batch, wire::Batch::overheads, *this);
}
void MemoryColumns::Write(BatchWriter* batch) const {
  WritePlain<wire::Memories>(batch, wire::Batch::memories, *this);
}
void ClockColumns::Write(BatchWriter* batch) const {
  if (count == 0) return;
  protozero::pbf_builder<wire::ClockSamples> message(*batch, wire::Batch::clock_samples);
  WriteColumns(&message, *this);
}

uint32_t RecordColumns::count() const {
  return calls.count + kernels.count + memcpys.count + memsets.count + syncs.count +
         graph_launches.count + ranges.count + overheads.count + memories.count +
         clock_samples.count;
}

size_t RecordColumns::bytes() const {
  return BytesOf(calls) + BytesOf(kernels) + BytesOf(memcpys) + BytesOf(memsets) + BytesOf(syncs) +
         BytesOf(graph_launches) + BytesOf(ranges) + BytesOf(overheads) + BytesOf(memories) +
         BytesOf(clock_samples) + kernels.shapes.size() * 24 + kernels.lanes.bytes() +
         memcpys.lanes.bytes() + memsets.lanes.bytes() + graph_launches.lanes.bytes();
}

void RecordColumns::WriteUpToClock(BatchWriter* batch) const {
  calls.Write(batch);
  kernels.Write(batch);
  memcpys.Write(batch);
  memsets.Write(batch);
  syncs.Write(batch);
  graph_launches.Write(batch);
  ranges.Write(batch);
  overheads.Write(batch);
  clock_samples.Write(batch);
}

void RecordColumns::Clear() {
  ClearAll(&calls);
  ClearAll(&kernels);
  kernels.shapes.Clear();
  ClearAll(&memcpys);
  ClearAll(&memsets);
  ClearAll(&syncs);
  ClearAll(&graph_launches);
  ClearAll(&ranges);
  ClearAll(&overheads);
  ClearAll(&memories);
  ClearAll(&clock_samples);
  for (LaneDictionary* lanes :
       {&kernels.lanes, &memcpys.lanes, &memsets.lanes, &graph_launches.lanes}) {
    lanes->Clear();
  }
}

}  // namespace stepagent::drain
