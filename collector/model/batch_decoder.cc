#include "collector/model/batch_decoder.h"

#include <algorithm>

#include "batch.pb.h"

#include "collector/model/decode_columns.h"
#include "collector/model/stack_decoder.h"
#include "proto/limits.h"

namespace stepagent::model {
namespace {

class Decoder {
 public:
  explicit Decoder(const DecodeTarget& t) : t_(t), dict_(*t.dictionary), out_(*t.records) {}

  void Declarations(const v1::Batch& batch);
  void AddCalls(const v1::Calls& c);
  void AddKernels(const v1::Kernels& k);
  void AddCopies(const v1::Memcpys& c);
  void AddSets(const v1::Memsets& c);
  void AddSyncs(const v1::Syncs& c);
  void AddGraphLaunches(const v1::GraphLaunches& c);
  void AddRanges(const v1::Ranges& r);
  void AddOverheads(const v1::Overheads& o);
  void AddMemories(const v1::Memories& m);

 private:
  // `lengths`: sizes of the section's columns. A section in which no column has `count` entries
  // would claim records out of nothing.
  bool Accept(uint32_t count, std::initializer_list<int> lengths, Activity activity) {
    if (count == 0) return false;
    const bool backed = std::any_of(lengths.begin(), lengths.end(),
                                    [count](int n) { return static_cast<uint32_t>(n) == count; });
    if (backed && count <= proto::kMaxRecordsPerBatch) {
      Received(activity) += count;
      return true;
    }
    (*t_.invalid)[static_cast<size_t>(activity)] += 1;
    return false;
  }
  uint64_t& Received(Activity a) { return (*t_.received)[static_cast<size_t>(a)]; }
  std::vector<uint32_t> LanesOf(const v1::Lanes& lanes);
  std::vector<uint32_t> ShapesOf(const v1::Shapes& shapes);
  uint32_t LaneOf(const std::vector<uint32_t>& lanes, uint32_t index) {
    return index < lanes.size() ? lanes[index] : dict_.LaneIndex(Lane{.device = -1});
  }
  void AddRangeEntry(uint32_t op, const Range& entry, uint64_t id);

  const DecodeTarget& t_;
  Dictionary& dict_;
  Records& out_;
};

void Decoder::Declarations(const v1::Batch& batch) {
  const auto& strings = batch.strings();
  for (int i = 0; i < std::min(strings.id_size(), strings.text_size()); ++i) {
    dict_.DeclareString(strings.id(i), strings.text(i));
  }
  const auto& threads = batch.threads();
  for (int i = 0; i < threads.index_size(); ++i) {
    dict_.DeclareThread(threads.index(i), i < threads.tid_size() ? threads.tid(i) : 0,
                        i < threads.name_size() ? threads.name(i) : std::string());
  }
  DeclareStacks(batch.stacks(), &dict_);
}

std::vector<uint32_t> Decoder::LanesOf(const v1::Lanes& l) {
  const uint32_t n = l.count();
  std::vector<uint32_t> ids;
  if (n > proto::kMaxRecordsPerBatch) return ids;
  const Column device(l.device(), n);
  const Column context(l.context(), n);
  const Column stream(l.stream(), n);
  const Column channel(l.channel(), n);
  const Column channel_type(l.channel_type(), n);
  for (uint32_t i = 0; i < n; ++i) {
    ids.push_back(dict_.LaneIndex(Lane{.device = static_cast<int32_t>(device[i]),
                                       .context = context[i],
                                       .stream = stream[i],
                                       .channel = channel[i],
                                       .channel_type = channel_type[i]}));
    if (device[i] == 0 && l.device_size() == 0 && l.context_size() == 0 && l.stream_size() == 0) {
      break;  // all columns absent: every lane is the same one
    }
  }
  return ids;
}

std::vector<uint32_t> Decoder::ShapesOf(const v1::Shapes& s) {
  const uint32_t n = s.count();
  std::vector<uint32_t> ids;
  // Columns without a name: none of these kernels has one. With neither, the count stands alone.
  const bool is_backed = static_cast<int>(n) == s.name_size() ||
                         (s.name_size() == 0 && static_cast<int>(n) == s.grid_x_size());
  if (!is_backed) return ids;
  const Column name(s.name(), n);
  const Column gx(s.grid_x(), n), gy(s.grid_y(), n), gz(s.grid_z(), n);
  const Column bx(s.block_x(), n), by(s.block_y(), n), bz(s.block_z(), n);
  const Column cx(s.cluster_x(), n), cy(s.cluster_y(), n), cz(s.cluster_z(), n);
  const Column registers(s.registers_per_thread(), n);
  const Column static_shared(s.static_shared_bytes(), n);
  const Column dynamic_shared(s.dynamic_shared_bytes(), n);
  const Column local(s.local_bytes_per_thread(), n);
  ids.reserve(n);
  for (uint32_t i = 0; i < n; ++i) {
    Shape shape;
    shape.name = dict_.KernelName(name[i]);
    shape.grid = {gx[i], gy[i], gz[i]};
    shape.block = {bx[i], by[i], bz[i]};
    shape.cluster = {cx[i], cy[i], cz[i]};
    shape.registers_per_thread = registers[i];
    shape.static_shared_bytes = static_shared[i];
    shape.dynamic_shared_bytes = dynamic_shared[i];
    shape.local_bytes_per_thread = local[i];
    ids.push_back(dict_.ShapeIndex(shape));
  }
  return ids;
}

void Decoder::AddCalls(const v1::Calls& c) {
  const uint32_t n = c.count();
  // Calls are of several activities; they are counted one by one below.
  if (!Accept(n, {c.begin_delta_size(), c.name_size(), c.cls_size(), c.correlation_delta_size()},
              Activity::kNone)) {
    return;
  }
  const Column thread(c.thread(), n), name(c.name(), n), cls(c.cls(), n), domain(c.domain(), n);
  const Column cbid(c.cbid(), n), flags(c.flags(), n), stack(c.stack(), n);
  const Column duration(c.duration_ns(), n);
  const Column result(c.return_value(), n);
  DeltaColumn begin(c.begin_delta(), n), correlation(c.correlation_delta(), n);
  for (uint32_t i = 0; i < n; ++i) {
    Call call;
    call.begin_ns = ClampTime(begin.Next(i));
    call.end_ns = EndOf(call.begin_ns, duration[i]);
    call.correlation = static_cast<uint32_t>(correlation.Next(i));
    call.name = dict_.String(name[i]);
    call.cbid = cbid[i];
    call.thread = dict_.ThreadIndex(thread[i]);
    call.stack = dict_.StackIndex(stack[i]);
    call.return_value = result[i];
    call.cls = cls[i] <= v1::CALL_ALLOC ? static_cast<CallClass>(cls[i]) : CallClass::kOther;
    call.domain = static_cast<uint8_t>(domain[i]);
    call.failed = (flags[i] & v1::CALL_FAILED) != 0;
    call.captured = (flags[i] & v1::CALL_CAPTURED) != 0;
    call.empty = (flags[i] & v1::CALL_EMPTY) != 0;
    ++Received(ActivityOf(call.cls));
    out_.calls.push_back(call);
  }
}

void Decoder::AddKernels(const v1::Kernels& k) {
  const uint32_t n = k.count();
  if (!Accept(n, {k.device_start_delta_size(), k.correlation_delta_size(), k.shape_size()},
              Activity::kKernel)) {
    return;
  }
  const std::vector<uint32_t> lanes = LanesOf(k.lanes()), shapes = ShapesOf(k.shapes());
  const Column shape(k.shape(), n);
  const Column node(k.graph_node_id(), n);
  DeviceColumns columns(k, n);
  for (uint32_t i = 0; i < n; ++i) {
    Kernel item;
    item.lane = LaneOf(lanes, columns.Fill(i, &item));
    item.shape = shape[i] < shapes.size()
                     ? shapes[shape[i]]
                     : dict_.ShapeIndex(Shape{.name = dict_.KernelName(proto::kNoName)});
    item.graph_node_id = node[i];
    out_.kernels.push_back(item);
  }
}

void Decoder::AddCopies(const v1::Memcpys& c) {
  const uint32_t n = c.count();
  if (!Accept(n, {c.device_start_delta_size(), c.correlation_delta_size(), c.bytes_size()},
              Activity::kMemcpy)) {
    return;
  }
  const std::vector<uint32_t> lanes = LanesOf(c.lanes());
  const Column kind(c.copy_kind(), n), source_kind(c.source_kind(), n);
  const Column target_kind(c.target_kind(), n), is_async(c.is_async(), n);
  const Column bytes(c.bytes(), n), node(c.graph_node_id(), n);
  const Column pieces(c.copy_count(), n);
  const Column source(c.source_device(), n), target(c.target_device(), n);
  DeviceColumns columns(c, n);
  for (uint32_t i = 0; i < n; ++i) {
    Copy item;
    item.lane = LaneOf(lanes, columns.Fill(i, &item));
    item.graph_node_id = node[i];
    item.bytes = bytes[i];
    item.pieces = std::max<uint64_t>(pieces[i], 1);
    item.copy_kind = static_cast<uint8_t>(kind[i]);
    item.source_kind = static_cast<uint8_t>(source_kind[i]);
    item.target_kind = static_cast<uint8_t>(target_kind[i]);
    item.source_device = static_cast<int32_t>(source[i]) - 1;
    item.target_device = static_cast<int32_t>(target[i]) - 1;
    item.is_async = is_async[i] != 0;
    out_.copies.push_back(item);
  }
}

void Decoder::AddSets(const v1::Memsets& c) {
  const uint32_t n = c.count();
  if (!Accept(n, {c.device_start_delta_size(), c.correlation_delta_size(), c.bytes_size()},
              Activity::kMemset)) {
    return;
  }
  const std::vector<uint32_t> lanes = LanesOf(c.lanes());
  const Column value(c.value(), n), kind(c.memory_kind(), n);
  const Column bytes(c.bytes(), n), node(c.graph_node_id(), n);
  DeviceColumns columns(c, n);
  for (uint32_t i = 0; i < n; ++i) {
    Set item;
    item.lane = LaneOf(lanes, columns.Fill(i, &item));
    item.graph_node_id = node[i];
    item.bytes = bytes[i];
    item.value = value[i];
    item.memory_kind = static_cast<uint8_t>(kind[i]);
    out_.sets.push_back(item);
  }
}

void Decoder::AddGraphLaunches(const v1::GraphLaunches& c) {
  const uint32_t n = c.count();
  if (!Accept(n, {c.device_start_delta_size(), c.correlation_delta_size()}, Activity::kKernel)) {
    return;
  }
  const std::vector<uint32_t> lanes = LanesOf(c.lanes());
  DeviceColumns columns(c, n);
  for (uint32_t i = 0; i < n; ++i) {
    GraphLaunch item;
    item.lane = LaneOf(lanes, columns.Fill(i, &item));
    out_.graph_launches.push_back(item);
  }
}

void Decoder::AddSyncs(const v1::Syncs& c) {
  const uint32_t n = c.count();
  // Detail beside the sync calls, which are what the balance counts.
  if (!Accept(n, {c.device_start_delta_size(), c.correlation_delta_size(), c.type_size()},
              Activity::kNone)) {
    return;
  }
  const Column type(c.type(), n), context(c.context(), n), event(c.event(), n), flags(c.flags(), n);
  const Column stream(c.stream(), n), duration(c.duration_ns(), n);
  DeltaColumn start(c.device_start_delta(), n), correlation(c.correlation_delta(), n);
  for (uint32_t i = 0; i < n; ++i) {
    Sync item;
    item.begin_ns = ClampTime(start.Next(i));
    item.end_ns = EndOf(item.begin_ns, duration[i]);
    item.correlation = static_cast<uint32_t>(correlation.Next(i));
    item.type = static_cast<uint8_t>(type[i]);
    item.context = context[i];
    if (stream[i] != 0) item.stream = stream[i] - 1;
    item.event = event[i];
    item.placed = !IsInvalid(flags[i]);
    out_.syncs.push_back(item);
  }
}

void Decoder::AddRangeEntry(uint32_t op, const Range& entry, uint64_t id) {
  const auto depth = static_cast<uint32_t>(id);
  switch (op) {
    case v1::RANGE_PUSH:
      return t_.ranges->Push(entry, depth);
    case v1::RANGE_POP:
      return t_.ranges->Pop(entry.thread, entry.domain, depth, entry.begin_ns);
    case v1::RANGE_START:
      return t_.ranges->Start(entry, id);
    case v1::RANGE_END:
      return t_.ranges->End(id, entry.thread, entry.begin_ns);
    case v1::RANGE_MARK:
      out_.marks.push_back(Mark{.at_ns = entry.begin_ns,
                                .name = entry.name,
                                .domain = entry.domain,
                                .category = entry.category,
                                .color = entry.color,
                                .thread = entry.thread});
      return;
    default:
      ++(*t_.invalid)[static_cast<size_t>(Activity::kNvtx)];
  }
}

void Decoder::AddRanges(const v1::Ranges& r) {
  const uint32_t n = r.count();
  if (!Accept(n, {r.host_delta_size(), r.op_size()}, Activity::kNvtx)) return;
  const Column thread(r.thread(), n), op(r.op(), n), name(r.name(), n), domain(r.domain(), n);
  const Column category(r.category(), n), color(r.color(), n);
  const Column id(r.range_id(), n);
  DeltaColumn at(r.host_delta(), n);
  for (uint32_t i = 0; i < n; ++i) {
    Range entry;
    entry.begin_ns = ClampTime(at.Next(i));
    entry.name = dict_.String(name[i]);
    entry.domain = dict_.String(domain[i]);
    entry.category = category[i];
    entry.color = color[i];
    entry.thread = entry.end_thread = dict_.ThreadIndex(thread[i]);
    entry.is_start_end = op[i] == v1::RANGE_START || op[i] == v1::RANGE_END;
    AddRangeEntry(op[i], entry, id[i]);
  }
}

void Decoder::AddOverheads(const v1::Overheads& o) {
  const uint32_t n = o.count();
  if (!Accept(n, {o.device_start_delta_size(), o.kind_size()}, Activity::kOverhead)) return;
  const Column kind(o.kind(), n), tid(o.thread_tid(), n);
  const Column duration(o.duration_ns(), n);
  DeltaColumn start(o.device_start_delta(), n);
  for (uint32_t i = 0; i < n; ++i) {
    const TimeNs begin = ClampTime(start.Next(i));
    out_.overheads.push_back(Overhead{
        .begin_ns = begin, .end_ns = EndOf(begin, duration[i]), .kind = kind[i], .tid = tid[i]});
  }
}

void Decoder::AddMemories(const v1::Memories& m) {
  const uint32_t n = m.count();
  if (!Accept(n, {m.device_stamp_delta_size(), m.address_size()}, Activity::kMemory)) return;
  const Column operation(m.operation(), n), kind(m.memory_kind(), n);
  const Column address(m.address(), n), bytes(m.bytes(), n);
  const Column device(m.device(), n);
  DeltaColumn at(m.device_stamp_delta(), n), correlation(m.correlation_delta(), n);
  for (uint32_t i = 0; i < n; ++i) {
    MemoryEvent event;
    event.at_ns = ClampTime(at.Next(i));
    event.address = address[i];
    event.bytes = bytes[i];
    event.operation = operation[i];
    event.memory_kind = kind[i];
    event.correlation = static_cast<uint32_t>(correlation.Next(i));
    event.device = static_cast<int32_t>(device[i]);
    out_.memories.push_back(event);
  }
}

}  // namespace

void DecodeRecords(const v1::Batch& batch, const DecodeTarget& target) {
  Decoder decoder(target);
  decoder.Declarations(batch);
  decoder.AddCalls(batch.calls());
  decoder.AddKernels(batch.kernels());
  decoder.AddCopies(batch.memcpys());
  decoder.AddSets(batch.memsets());
  decoder.AddSyncs(batch.syncs());
  decoder.AddGraphLaunches(batch.graph_launches());
  decoder.AddRanges(batch.ranges());
  decoder.AddOverheads(batch.overheads());
  decoder.AddMemories(batch.memories());
}

}  // namespace stepagent::model
