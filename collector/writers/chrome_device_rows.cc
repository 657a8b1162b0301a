#include <algorithm>

#include "collector/writers/chrome_rows.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/occupancy.h"

namespace stepagent::writers {
namespace {

std::string Decimal(double value) {
  char buffer[400];  // to_chars fixed: a double has up to 309 digits before the point
  return {buffer,
          std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 6).ptr};
}

std::string Triple(const std::array<uint32_t, 3>& v) {
  return "[" + std::to_string(v[0]) + "," + std::to_string(v[1]) + "," + std::to_string(v[2]) + "]";
}

}  // namespace

void ChromeRows::Annotate(const Annotation& annotation, Place place) {
  Head("gpu_user_annotation", Name(cycle_.ranges[annotation.range].name), place,
       annotation.begin_ns, annotation.end_ns);
  text_.Literal(",\"args\":{");
  EndRow();
}

// The number that joins a device row to its call's row. Work without a call must not borrow that of
// an unrelated one: CUPTI's numbers wrap, so an earlier launch may have had the same.
uint32_t ChromeRows::Correlation(const model::DeviceItem& item) {
  if (item.call >= 0 && static_cast<size_t>(item.call) < cycle_.calls.size()) {
    return FlowId(cycle_.calls[static_cast<size_t>(item.call)]);
  }
  if (call_ids_.empty()) {
    for (const model::Call& call : cycle_.calls) call_ids_.insert(FlowId(call));
  }
  return call_ids_.contains(item.correlation) ? 0 : item.correlation;
}

void ChromeRows::DeviceArgs(const model::DeviceItem& item, bool is_kernel) {
  std::string_view lane = is_kernel ? lane_kernel_args_[item.lane] : lane_args_[item.lane];
  const uint32_t correlation = Correlation(item);
  // Readers join by this number: what a trace file did not give is not made up.
  const bool is_absent = correlation == 0 && cycle_.is_from_trace;
  if (is_absent) lane.remove_suffix(kCorrelationKey.size());
  text_.Text(lane);
  if (!is_absent) text_.Number(correlation);
}

void ChromeRows::GraphArgs(const model::DeviceItem& item) {
  if (item.graph_id != 0) {
    text_.Literal(",\"graph id\":");
    text_.Number(item.graph_id);
  }
  if (item.graph_node_id != 0) {
    text_.Literal(",\"graph node id\":");
    text_.Number(item.graph_node_id);
  }
}

void ChromeRows::PrepareShape(const model::Shape& shape, int32_t device, ShapeText& text) {
  text.head = "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":" +
              Name(shape.demangled != 0 ? shape.demangled : shape.name) + ",\"pid\":";
  text.tail.clear();
  if (shape.has_registers) {
    text.tail += ",\"registers per thread\":" + std::to_string(shape.registers_per_thread);
  }
  if (shape.has_shared) {
    text.tail +=
        ",\"shared memory\":" +
        std::to_string(uint64_t{shape.static_shared_bytes} + shape.dynamic_shared_bytes);
  }
  const LaunchFigures figures = ComputeLaunchFigures(shape, Device(device));
  if (figures.blocks_per_sm) text.tail += ",\"blocks per SM\":" + Decimal(*figures.blocks_per_sm);
  if (figures.warps_per_sm) text.tail += ",\"warps per SM\":" + Decimal(*figures.warps_per_sm);
  if (shape.has_grid) text.tail += ",\"grid\":" + Triple(shape.grid);
  if (shape.has_block) text.tail += ",\"block\":" + Triple(shape.block);
  if (shape.cluster[0] > 0) text.tail += ",\"cluster\":" + Triple(shape.cluster);
  if (figures.occupancy_percent) {
    text.tail += ",\"est. achieved occupancy %\":" + std::to_string(*figures.occupancy_percent);
  }
  text.device = device;
  text.is_ready = true;
}

const ChromeRows::ShapeText& ChromeRows::ShapeOf(const model::Kernel& kernel) {
  static const ShapeText kUnknown{"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"unknown\",\"pid\":",
                                  ""};
  if (kernel.shape >= shapes_.size()) return kUnknown;
  ShapeText& text = shapes_[kernel.shape];
  const int32_t device = cycle_.lanes[kernel.lane].device;
  if (!text.is_ready || text.device != device) {
    PrepareShape(cycle_.shapes[kernel.shape], device, text);
  }
  return text;
}

void ChromeRows::Kernel(const model::Kernel& kernel, Place place) {
  const ShapeText& shape = ShapeOf(kernel);
  Next(shape.head.size() + shape.tail.size());
  text_.Text(shape.head);
  PlaceAndTime(place, kernel.begin_ns, kernel.end_ns);
  DeviceArgs(kernel, true);
  text_.Text(shape.tail);
  GraphArgs(kernel);
  const model::Lane& lane = cycle_.lanes[kernel.lane];
  if (lane.channel_type != 0) {
    text_.Literal(",\"channel\":");
    text_.Number(lane.channel);
    text_.Literal(",\"channel_type\":");
    text_.Number(lane.channel_type);
  }
  StepArg(kernel.step);
  EndRow();
}

void ChromeRows::Bandwidth(uint64_t bytes, const model::DeviceItem& item) {
  text_.Literal(",\"bytes\":");
  text_.Number(bytes);
  if (item.end_ns <= item.begin_ns) return;  // no rate without a duration
  text_.Literal(",\"memory bandwidth (GB/s)\":");
  text_.Fixed(static_cast<double>(bytes) / static_cast<double>(item.end_ns - item.begin_ns), 6);
}

void ChromeRows::Copy(const model::Copy& copy, Place place) {
  std::string name = "\"Memcpy ";
  name += CopyKindName(copy.copy_kind);
  name += " (";
  name += MemoryKindName(copy.source_kind);
  name += " -> ";
  name += MemoryKindName(copy.target_kind);
  name += ")\"";
  Head("gpu_memcpy", name, place, copy.begin_ns, copy.end_ns);
  DeviceArgs(copy, false);
  if (copy.source_device >= 0 && copy.target_device >= 0) {
    text_.Literal(",\"fromDevice\":");
    text_.Number(copy.source_device);
    text_.Literal(",\"inDevice\":");
    text_.Number(cycle_.lanes[copy.lane].device);
    text_.Literal(",\"toDevice\":");
    text_.Number(copy.target_device);
    if (cycle_.lanes[copy.lane].has_context) {
      text_.Literal(",\"inContext\":");
      text_.Number(cycle_.lanes[copy.lane].context);
    }
  }
  if (copy.has_bytes) Bandwidth(copy.bytes, copy);
  if (copy.pieces > 1) {
    text_.Literal(",\"pieces\":");
    text_.Number(copy.pieces);
  }
  GraphArgs(copy);
  StepArg(copy.step);
  EndRow();
}

void ChromeRows::Set(const model::Set& set, Place place) {
  std::string name = "\"Memset (";
  name += MemoryKindName(set.memory_kind);
  name += ")\"";
  Head("gpu_memset", name, place, set.begin_ns, set.end_ns);
  DeviceArgs(set, false);
  if (set.has_bytes) Bandwidth(set.bytes, set);
  GraphArgs(set);
  StepArg(set.step);
  EndRow();
}

void ChromeRows::GraphLaunch(const model::GraphLaunch& launch, Place place) {
  const std::string name = "\"CUDA graph " + std::to_string(launch.graph_id) + "\"";
  Head("gpu_graph", name, place, launch.begin_ns, launch.end_ns);
  DeviceArgs(launch, false);
  GraphArgs(launch);
  StepArg(launch.step);
  EndRow();
}

void ChromeRows::Sync(const model::Sync& sync, Place place) {
  const std::string name = JsonString(SyncTypeName(sync.type));
  Head("cuda_sync", name, place, sync.begin_ns, std::max(sync.begin_ns, sync.end_ns));
  text_.Literal(",\"args\":{\"cuda_sync_kind\":");
  text_.Text(name);
  text_.Literal(",\"stream\":");
  if (!sync.stream) {
    text_.Literal("-1");  // Kineto's word for "of no stream"
  } else {
    uint64_t shown = *sync.stream & 0x7fffffff;
    for (const model::Lane& lane : cycle_.lanes) {
      if (lane.device == place.pid && lane.stream == *sync.stream) shown = lane.stream_index;
    }
    text_.Number(shown);
  }
  const bool has_call = sync.call >= 0 && static_cast<size_t>(sync.call) < cycle_.calls.size();
  const uint32_t flow =
      has_call ? FlowId(cycle_.calls[static_cast<size_t>(sync.call)]) : sync.correlation;
  if (flow != 0 || !cycle_.is_from_trace) {
    text_.Literal(",\"correlation\":");
    text_.Number(flow);
  }
  if (sync.device >= 0 || !cycle_.is_from_trace) {
    text_.Literal(",\"device\":");
    text_.Number(place.pid);
  }
  if (sync.context != 0) {  // contexts count from 1; a Kineto file may name none
    text_.Literal(",\"context\":");
    text_.Number(sync.context);
  }
  if (sync.type == 1 || sync.type == 2) {
    // Which record the event came from is not collected: Kineto's -1 for "not known".
    text_.Literal(
        ",\"wait_on_stream\":-1,\"wait_on_cuda_event_record_corr_id\":-1,"
        "\"wait_on_cuda_event_id\":");
    text_.Number(sync.event == UINT32_MAX ? int64_t{-1} : int64_t{sync.event});
  }
  StepArg(sync.step);
  EndRow();
}

void ChromeRows::Flow(const model::Call& call, Place from, const model::DeviceItem& item,
                      Place to) {
  // An arrow may not point back in time. Device stamps carry the residual of the clock mapping:
  // work that seems to begin before its launch is met inside its row, or gets no arrow.
  const model::TimeNs target = std::max(item.begin_ns, call.begin_ns);
  if (target > item.begin_ns && target >= item.end_ns) return;
  const auto index = static_cast<size_t>(item.call);
  uint64_t id = FlowId(call);
  if (has_first_flow_[index]) {
    id = next_flow_id_++;
  } else {
    has_first_flow_[index] = true;
  }
  Next(0);
  text_.Literal("{\"ph\":\"s\",\"id\":");
  text_.Number(id);
  text_.Literal(",\"pid\":");
  text_.Number(from.pid);
  text_.Literal(",\"tid\":");
  text_.Number(from.tid);
  text_.Literal(",\"ts\":");
  text_.Micros(call.begin_ns + offset_ns_);
  text_.Literal(",\"cat\":\"ac2g\",\"name\":\"ac2g\"},\n{\"ph\":\"f\",\"id\":");
  text_.Number(id);
  text_.Literal(",\"pid\":");
  text_.Number(to.pid);
  text_.Literal(",\"tid\":");
  text_.Number(to.tid);
  text_.Literal(",\"ts\":");
  text_.Micros(target + offset_ns_);
  text_.Literal(",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
  ++rows_;
}

}  // namespace stepagent::writers
