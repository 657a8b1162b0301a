#include "collector/writers/perfetto_device.h"

#include <array>
#include <tuple>

#include "collector/writers/json_text.h"
#include "collector/writers/occupancy.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

// Queues and stages share one numbering: stages have the first, streams those after them.
constexpr uint64_t kFirstQueueIid = 16;
constexpr std::array<std::string_view, 5> kStageNames = {"", "Kernel", "Memcpy", "Memset",
                                                         "CUDA graph"};

}  // namespace

PerfettoDevice::PerfettoDevice(const model::Cycle& cycle, PerfettoPackets& packets)
    : cycle_(cycle),
      packets_(packets),
      lanes_(cycle.lanes.size()),
      shapes_(cycle.shapes.size() + 1) {}

const model::DeviceInfo* PerfettoDevice::Device(int32_t ordinal) const {
  for (const model::DeviceInfo& device : cycle_.devices) {
    if (device.ordinal == ordinal) return &device;
  }
  return nullptr;
}

void PerfettoDevice::Specification(uint64_t iid, std::string_view name, uint32_t category) {
  ProtoBuffer& to = packets_.interned();
  const size_t specification = to.Begin(pf::kInternedSpecifications);
  to.Uint(pf::kIid, iid);
  to.Text(pf::kInternedName, name);
  to.Uint(pf::kSpecificationCategory, category);
  to.End(specification);
}

void PerfettoDevice::Arg(ProtoBuffer& to, const char* name, uint64_t value) {
  const size_t arg = to.Begin(pf::kLaunchArgs);
  to.Uint(pf::kArgNameIid, packets_.InternLiteral(pf::kInternedArgNames, name));
  to.Uint(pf::kArgUint, value);
  to.End(arg);
}

void PerfettoDevice::DeclareStage(Stage stage) {
  if (is_stage_declared_[stage]) return;
  is_stage_declared_[stage] = true;
  Specification(
      stage, kStageNames[stage],
      stage == kKernelStage || stage == kGraphStage ? pf::kCategoryCompute : pf::kCategoryOther);
}

void PerfettoDevice::DeclareLane(uint32_t index, LaneBytes& bytes) {
  const model::Lane& lane = cycle_.lanes[index];
  const auto [context, is_new] =
      contexts_.try_emplace({lane.device, lane.context}, contexts_.size() + 1);
  if (is_new) {
    ProtoBuffer& to = packets_.interned();
    const size_t entry = to.Begin(pf::kInternedContexts);
    to.Uint(pf::kIid, context->second);
    to.Uint(pf::kContextPid, cycle_.session.pid);
    to.Uint(pf::kContextApi, pf::kApiCuda);
    to.End(entry);
  }
  std::string name = "Stream #" + std::to_string(lane.stream_index);
  for (const model::Lane& other : cycle_.lanes) {
    const bool is_twin = other.device == lane.device && other.stream_index == lane.stream_index;
    if (!is_twin || other.context == lane.context) continue;
    name += " (context " + std::to_string(lane.context) + ")";
    break;
  }
  Specification(kFirstQueueIid + index, name, pf::kCategoryOther);
  scratch_.Clear();
  scratch_.Uint(pf::kStageContext, context->second);
  scratch_.Int(pf::kStageGpu, lane.device);
  scratch_.Uint(pf::kStageQueueIid, kFirstQueueIid + index);
  bytes.event = scratch_.view();
  scratch_.Clear();
  Arg(scratch_, "device", static_cast<uint64_t>(lane.device));
  Arg(scratch_, "stream", lane.stream_index);
  bytes.args = scratch_.view();
  bytes.is_declared = true;
}

PerfettoDevice::LaneBytes& PerfettoDevice::LaneOf(uint32_t lane) {
  LaneBytes& bytes = lanes_[lane];
  if (!bytes.is_declared) DeclareLane(lane, bytes);
  return bytes;
}

uint64_t PerfettoDevice::DeclareKernel(const model::Shape& shape, const model::DeviceInfo* device) {
  const std::string raw(cycle_.Text(shape.name));
  const std::string architecture =
      device == nullptr || device->compute_major == 0
          ? ""
          : "sm_" + std::to_string(device->compute_major) + std::to_string(device->compute_minor);
  const auto [it, is_new] = kernels_.try_emplace({raw, architecture}, kernels_.size() + 1);
  if (is_new) {
    ProtoBuffer& to = packets_.interned();
    const size_t kernel = to.Begin(pf::kInternedKernels);
    to.Uint(pf::kIid, it->second);
    to.Text(pf::kInternedName, ValidUtf8(raw));
    if (shape.demangled != 0 && shape.demangled != shape.name) {
      to.Text(pf::kKernelDemangled, ValidUtf8(cycle_.Text(shape.demangled)));
    }
    if (!architecture.empty()) to.Text(pf::kKernelArchitecture, architecture);
    to.End(kernel);
  }
  return it->second;
}

void PerfettoDevice::PrepareShape(const model::Shape& shape, int32_t device, ShapeBytes& bytes) {
  const model::DeviceInfo* info = Device(device);
  const std::string_view name = cycle_.Text(shape.demangled != 0 ? shape.demangled : shape.name);
  scratch_.Clear();
  scratch_.Uint(pf::kStageNameIid, packets_.Intern(pf::kInternedEventNames, name));
  scratch_.Uint(pf::kStageKernelIid, DeclareKernel(shape, info));
  bytes.event = scratch_.view();
  scratch_.Clear();
  for (const auto& [field, size, is_known] :
       {std::tuple(pf::kLaunchGrid, shape.grid, shape.has_grid),
        std::tuple(pf::kLaunchWorkgroup, shape.block, shape.has_block)}) {
    if (!is_known) continue;
    const size_t dim = scratch_.Begin(field);
    for (uint32_t i = 0; i < 3; ++i) scratch_.Uint(i + 1, size[i]);
    scratch_.End(dim);
  }
  // Readers' own SQL looks for the scalar sizes beside the three dimensions.
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (shape.has_grid) Arg(scratch_, "grid_size", blocks);
  if (shape.has_block) Arg(scratch_, "workgroup_size", threads);
  if (shape.has_grid && shape.has_block) Arg(scratch_, "thread_count", blocks * threads);
  if (shape.has_registers) Arg(scratch_, "registers_per_thread", shape.registers_per_thread);
  if (shape.static_shared_bytes != 0) {
    Arg(scratch_, "shared_mem_static", shape.static_shared_bytes);
  }
  if (shape.dynamic_shared_bytes != 0) {
    Arg(scratch_, "shared_mem_dynamic", shape.dynamic_shared_bytes);
  }
  const LaunchFigures figures = ComputeLaunchFigures(shape, info);
  if (figures.occupancy_percent) {
    Arg(scratch_, "estimated_occupancy_percent", static_cast<uint64_t>(*figures.occupancy_percent));
  }
  bytes.launch = scratch_.view();
  bytes.device = device;
}

PerfettoDevice::ShapeBytes& PerfettoDevice::ShapeOf(const model::Kernel& kernel) {
  const bool is_known = kernel.shape < cycle_.shapes.size();
  ShapeBytes& bytes = is_known ? shapes_[kernel.shape] : shapes_.back();
  const int32_t device = cycle_.lanes[kernel.lane].device;
  if (!bytes.event.empty() && bytes.device == device) return bytes;
  if (is_known) {
    PrepareShape(cycle_.shapes[kernel.shape], device, bytes);
  } else {
    scratch_.Clear();
    scratch_.Uint(pf::kStageNameIid, packets_.Intern(pf::kInternedEventNames, "unknown"));
    bytes.event = scratch_.view();
    bytes.device = device;
  }
  return bytes;
}

void PerfettoDevice::NameArg(std::string_view name) {
  name_.Clear();
  name_.Uint(pf::kStageNameIid, packets_.Intern(pf::kInternedEventNames, name));
}

// The packet of one piece of work. What repeats is prepared: `name` and `launch` are fields of the
// event and of its launch; args_ holds the launch's own arguments.
void PerfettoDevice::Event(const model::DeviceItem& item, Stage stage, const LaneBytes& lane,
                           std::string_view name, std::string_view launch) {
  DeclareStage(stage);
  const uint32_t correlation = item.flow_id != 0 ? item.flow_id : item.correlation;
  if (correlation != 0 || !cycle_.is_from_trace) Arg(args_, "correlation", correlation);
  if (item.graph_id != 0) Arg(args_, "graph_id", item.graph_id);
  if (item.graph_node_id != 0) Arg(args_, "graph_node_id", item.graph_node_id);
  const uint64_t number = ++event_id_;
  const auto duration = static_cast<uint64_t>(item.end_ns - item.begin_ns);
  const size_t launch_bytes = launch.size() + lane.args.size() + args_.size();
  static_assert(pf::kStageEventId < 16 && pf::kStageDuration < 16 && pf::kStageStageIid < 16);
  static_assert(pf::kStageLaunch >= 16 && pf::kPacketRenderStage >= 16, "tags of two bytes");
  const size_t event_bytes =
      1 + ProtoBuffer::VarintBytes(number) + 1 + ProtoBuffer::VarintBytes(duration) + 2 +
      lane.event.size() + name.size() + 2 + ProtoBuffer::VarintBytes(launch_bytes) + launch_bytes;
  char* to =
      packets_.BeginWhole(item.begin_ns, 2 + ProtoBuffer::VarintBytes(event_bytes) + event_bytes);
  to = ProtoBuffer::PutVarint(to, pf::kPacketRenderStage << 3 | 2);
  to = ProtoBuffer::PutVarint(to, event_bytes);
  *to++ = static_cast<char>(pf::kStageEventId << 3);
  to = ProtoBuffer::PutVarint(to, number);
  *to++ = static_cast<char>(pf::kStageDuration << 3);
  to = ProtoBuffer::PutVarint(to, duration);
  *to++ = static_cast<char>(pf::kStageStageIid << 3);
  *to++ = static_cast<char>(stage);
  to = ProtoBuffer::PutRaw(to, lane.event);
  to = ProtoBuffer::PutRaw(to, name);
  to = ProtoBuffer::PutVarint(to, pf::kStageLaunch << 3 | 2);
  to = ProtoBuffer::PutVarint(to, launch_bytes);
  to = ProtoBuffer::PutRaw(to, launch);
  to = ProtoBuffer::PutRaw(to, lane.args);
  to = ProtoBuffer::PutRaw(to, args_.view());
  args_.Clear();
  packets_.EndWhole(to);
  packets_.ReachesTo(item.end_ns);
  packets_.CountEvent();
}

void PerfettoDevice::Kernel(const model::Kernel& kernel) {
  const LaneBytes& lane = LaneOf(kernel.lane);
  const ShapeBytes& shape = ShapeOf(kernel);
  Event(kernel, kKernelStage, lane, shape.event, shape.launch);
}

void PerfettoDevice::Copy(const model::Copy& copy) {
  const LaneBytes& lane = LaneOf(copy.lane);
  NameArg(CopyName(copy));
  scratch_.Clear();
  if (copy.has_bytes) Arg(scratch_, "bytes", copy.bytes);
  if (copy.source_device >= 0 && copy.target_device >= 0) {
    Arg(scratch_, "from_device", static_cast<uint64_t>(copy.source_device));
    Arg(scratch_, "to_device", static_cast<uint64_t>(copy.target_device));
  }
  Event(copy, kCopyStage, lane, name_.view(), scratch_.view());
}

void PerfettoDevice::Set(const model::Set& set) {
  const LaneBytes& lane = LaneOf(set.lane);
  NameArg(SetName(set));
  scratch_.Clear();
  if (set.has_bytes) Arg(scratch_, "bytes", set.bytes);
  Event(set, kSetStage, lane, name_.view(), scratch_.view());
}

void PerfettoDevice::Graph(const model::GraphLaunch& launch) {
  const LaneBytes& lane = LaneOf(launch.lane);
  NameArg(GraphLaunchName(launch));
  Event(launch, kGraphStage, lane, name_.view(), {});
}

void PerfettoDevice::Write(const std::function<void(uint64_t)>& progress) {
  const auto all = [&](const auto& items, auto write) {
    for (const auto& item : items) {
      if (!IsDrawn(cycle_, item)) continue;
      (this->*write)(item);
      progress(packets_.events());
    }
  };
  all(cycle_.kernels, &PerfettoDevice::Kernel);
  all(cycle_.copies, &PerfettoDevice::Copy);
  all(cycle_.sets, &PerfettoDevice::Set);
  all(cycle_.graph_launches, &PerfettoDevice::Graph);
}

}  // namespace stepagent::writers
