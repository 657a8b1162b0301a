// Handlers of the records about device work: kernels, copies, sets, graph launches.
#include "agent/cupti/decoder.h"

namespace stepagent::cupti {
namespace {

constexpr uint8_t kFlagAsync = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC
constexpr int32_t kNoDevice = -1;

// device, context and stream follow one another in every family. Into its place at once: a lane
// copied right after it was written waits for the narrow stores, 4 ns.
void Lane(const RecordView& record, uint32_t device_offset, core::DeviceLane* lane) {
  lane->device = static_cast<int32_t>(record.Get<uint32_t>(device_offset));
  lane->context = record.Get<uint32_t>(device_offset + 4);
  lane->stream = record.Get<uint32_t>(device_offset + 8);
}

void Channel(const RecordView& record, uint32_t since, uint32_t offset, core::DeviceLane* lane) {
  lane->channel = record.GetSince<uint32_t>(since, offset);
  lane->channel_type = record.GetSince<uint32_t>(since, offset + 4);
}

// Families that carry the driver's and, apart, the runtime's correlation: a call made through the
// runtime has one id for both, so the second only stands in where the first is missing.
uint32_t Correlation(const RecordView& record, uint32_t offset, uint32_t runtime_offset) {
  const uint32_t id = record.Get<uint32_t>(offset);
  return id != 0 ? id : record.Get<uint32_t>(runtime_offset);
}

}  // namespace

bool Decoder::OnKernel(const RecordView& record, core::ActivitySink* sink) {
  core::KernelActivity kernel;  // each member is set below: zeroing it first takes 10 ns
  kernel.start_ns = record.Get<uint64_t>(16);
  kernel.end_ns = record.Get<uint64_t>(24);
  Lane(record, 40, &kernel.lane);
  Channel(record, 176, 168, &kernel.lane);
  kernel.registers_per_thread = record.Get<uint16_t>(6);
  record.CopyTo(&kernel.grid, 52);
  record.CopyTo(&kernel.block, 64);
  if (record.IsSince(200)) {
    record.CopyTo(&kernel.cluster, 176);
  } else {
    kernel.cluster[0] = kernel.cluster[1] = kernel.cluster[2] = 0;
  }
  kernel.static_shared_bytes = record.Get<uint32_t>(76);
  kernel.dynamic_shared_bytes = record.Get<uint32_t>(80);
  kernel.local_bytes_per_thread = record.Get<uint32_t>(84);
  kernel.correlation = record.Get<uint32_t>(92);
  kernel.graph_node_id = record.GetSince<uint64_t>(160, 144);
  kernel.graph_id = record.GetSince<uint32_t>(160, 156);
  kernel.flags = TimingFlags(kernel.start_ns, kernel.end_ns);
  if (record.GetSince<uint8_t>(216, 208) != 0) kernel.flags |= core::kDeviceLaunched;
  const auto* name = record.Get<const char*>(104);
  if (name == nullptr || are_names_lost_) {
    kernel.flags |= core::kDeviceNullName;
    kernel.name = core::kNoName;
  } else {
    kernel.name = names_.Intern(name);
  }
  sink->OnKernel(kernel);
  return true;
}

bool Decoder::OnMemcpy(const RecordView& record, core::ActivitySink* sink) {
  core::MemcpyActivity copy{};
  copy.copy_kind = record.Get<uint8_t>(4);
  copy.source_kind = record.Get<uint8_t>(5);
  copy.target_kind = record.Get<uint8_t>(6);
  copy.is_async = (record.Get<uint8_t>(7) & kFlagAsync) != 0;
  copy.bytes = record.Get<uint64_t>(8);
  copy.start_ns = record.Get<uint64_t>(16);
  copy.end_ns = record.Get<uint64_t>(24);
  Lane(record, 32, &copy.lane);
  Channel(record, 88, 76, &copy.lane);
  copy.correlation = Correlation(record, 44, 48);
  copy.graph_node_id = record.GetSince<uint64_t>(72, 64);
  copy.graph_id = record.GetSince<uint32_t>(80, 72);
  copy.copy_count = record.GetSince<uint64_t>(96, 88);
  copy.source_device = kNoDevice;
  copy.target_device = kNoDevice;
  copy.flags = TimingFlags(copy.start_ns, copy.end_ns);
  if (record.GetSince<uint8_t>(96, 84) != 0) copy.flags |= core::kDeviceLaunched;
  sink->OnMemcpy(copy);
  return true;
}

bool Decoder::OnMemcpyPeer(const RecordView& record, core::ActivitySink* sink) {
  core::MemcpyActivity copy{};
  copy.copy_kind = record.Get<uint8_t>(4);
  copy.source_kind = record.Get<uint8_t>(5);
  copy.target_kind = record.Get<uint8_t>(6);
  copy.is_async = (record.Get<uint8_t>(7) & kFlagAsync) != 0;
  copy.bytes = record.Get<uint64_t>(8);
  copy.start_ns = record.Get<uint64_t>(16);
  copy.end_ns = record.Get<uint64_t>(24);
  Lane(record, 32, &copy.lane);
  Channel(record, 96, 84, &copy.lane);
  copy.source_device = static_cast<int32_t>(record.Get<uint32_t>(44));
  copy.target_device = static_cast<int32_t>(record.Get<uint32_t>(52));
  copy.correlation = record.Get<uint32_t>(60);
  copy.graph_node_id = record.GetSince<uint64_t>(80, 72);
  copy.graph_id = record.GetSince<uint32_t>(88, 80);
  copy.flags = TimingFlags(copy.start_ns, copy.end_ns);
  sink->OnMemcpy(copy);
  return true;
}

bool Decoder::OnMemset(const RecordView& record, core::ActivitySink* sink) {
  core::MemsetActivity set{};
  set.value = record.Get<uint32_t>(4);
  set.bytes = record.Get<uint64_t>(8);
  set.start_ns = record.Get<uint64_t>(16);
  set.end_ns = record.Get<uint64_t>(24);
  Lane(record, 32, &set.lane);
  Channel(record, 88, 76, &set.lane);
  set.correlation = record.Get<uint32_t>(44);
  set.memory_kind = static_cast<uint8_t>(record.Get<uint16_t>(50));
  set.graph_node_id = record.GetSince<uint64_t>(72, 64);
  set.graph_id = record.GetSince<uint32_t>(80, 72);
  set.flags = TimingFlags(set.start_ns, set.end_ns);
  if (layouts_->memset_has_device_launched() && record.GetSince<uint8_t>(88, 84) != 0) {
    set.flags |= core::kDeviceLaunched;
  }
  sink->OnMemset(set);
  return true;
}

bool Decoder::OnGraphTrace(const RecordView& record, core::ActivitySink* sink) {
  core::GraphActivity graph{};
  graph.correlation = record.Get<uint32_t>(4);
  graph.start_ns = record.Get<uint64_t>(8);
  graph.end_ns = record.Get<uint64_t>(16);
  graph.lane.device = static_cast<int32_t>(record.Get<uint32_t>(24));
  graph.graph_id = record.Get<uint32_t>(28);
  graph.lane.context = record.Get<uint32_t>(32);
  graph.lane.stream = record.Get<uint32_t>(36);
  graph.flags = TimingFlags(graph.start_ns, graph.end_ns);
  sink->OnGraphLaunch(graph);
  return true;
}

}  // namespace stepagent::cupti
