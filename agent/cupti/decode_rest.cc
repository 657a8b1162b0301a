// Handlers of everything that is not device work: waits, overhead, memory, devices, contexts,
// streams.
#include <array>
#include <cstring>

#include "agent/cupti/decoder.h"

namespace stepagent::cupti {
namespace {

constexpr uint32_t kNoStream = 0xFFFFFFFF;  // CUPTI_SYNCHRONIZATION_INVALID_VALUE
constexpr uint32_t kObjectThread = 2;       // CUPTI_ACTIVITY_OBJECT_THREAD

// CUdevice_attribute numbers that the record lacks.
constexpr int kMaxThreadsPerMultiprocessor = 39;
constexpr int kMaxSharedPerBlockOptin = 97;

}  // namespace

bool Decoder::OnSync(const RecordView& record, core::ActivitySink* sink) {
  core::SyncActivity sync{};
  sync.type = record.Get<uint32_t>(4);
  sync.start_ns = record.Get<uint64_t>(8);
  sync.end_ns = record.Get<uint64_t>(16);
  sync.correlation = record.Get<uint32_t>(24);
  sync.context = record.Get<uint32_t>(28);
  const uint32_t stream = record.Get<uint32_t>(32);
  sync.stream = stream == kNoStream ? UINT64_MAX : stream;
  sync.event = record.Get<uint32_t>(36);
  // A wait that was under way when collection came on has no begin, and a wall clock that is set
  // back meanwhile leaves an end before it. The call is recorded by itself, so that nothing is
  // lost; the reader is told (flags).
  sync.flags = TimingFlags(sync.start_ns, sync.end_ns);
  sink->OnSync(sync);
  return true;
}

bool Decoder::OnOverhead(const RecordView& record, core::ActivitySink* sink) {
  core::OverheadActivity overhead{};
  overhead.kind = record.Get<uint32_t>(4);
  overhead.tid = record.Get<uint32_t>(8) == kObjectThread ? record.Get<uint32_t>(16) : 0;
  overhead.start_ns = record.Get<uint64_t>(24);
  overhead.end_ns = record.Get<uint64_t>(32);
  if (TimingFlags(overhead.start_ns, overhead.end_ns) != 0) return Reject(kActivityOverhead, sink);
  sink->OnOverhead(overhead);
  return true;
}

bool Decoder::OnMemory(const RecordView& record, core::ActivitySink* sink) {
  core::MemoryActivity memory{};
  memory.operation = record.Get<uint32_t>(4);
  memory.memory_kind = record.Get<uint32_t>(8);
  memory.correlation = record.Get<uint32_t>(12);
  memory.address = record.Get<uint64_t>(16);
  memory.bytes = record.Get<uint64_t>(24);
  memory.at_ns = record.Get<uint64_t>(32);
  memory.device = static_cast<int32_t>(record.Get<uint32_t>(52));
  sink->OnMemory(memory);
  return true;
}

bool Decoder::OnDevice(const RecordView& record, core::ActivitySink* sink) {
  // Since 11.6 there are records of devices that CUDA_VISIBLE_DEVICES hides: not this process's.
  if (record.GetSince<uint8_t>(176, 144, 1) == 0) return false;
  core::DeviceActivity device{};
  device.memory_bandwidth_kbps = record.Get<uint64_t>(8);
  device.memory_bytes = record.Get<uint64_t>(16);
  device.warp_size = record.Get<uint32_t>(32);
  device.clock_khz = record.Get<uint32_t>(36);
  device.multiprocessors = record.Get<uint32_t>(44);
  device.max_threads_per_multiprocessor = record.Get<uint32_t>(52) * device.warp_size;
  device.shared_per_multiprocessor = record.Get<uint32_t>(60);
  device.registers_per_multiprocessor = record.Get<uint32_t>(64);
  device.registers_per_block = record.Get<uint32_t>(68);
  device.shared_per_block = record.Get<uint32_t>(72);
  device.max_threads_per_block = record.Get<uint32_t>(76);
  device.compute_major = record.Get<uint32_t>(104);
  device.compute_minor = record.Get<uint32_t>(108);
  device.ordinal = record.Get<uint32_t>(112);
  std::memcpy(device.uuid, record.Get<std::array<uint8_t, 16>>(120).data(), sizeof(device.uuid));
  device.name = record.Get<const char*>(136);
  if (device.name == nullptr) device.name = "";
  if (driver_ != nullptr) {
    device.shared_per_block_optin = driver_->Attribute(kMaxSharedPerBlockOptin, device.ordinal);
    const uint32_t threads = driver_->Attribute(kMaxThreadsPerMultiprocessor, device.ordinal);
    if (threads != 0) device.max_threads_per_multiprocessor = threads;
  }
  sink->OnDevice(device);
  return true;
}

bool Decoder::OnContext(const RecordView& record, core::ActivitySink* sink) {
  core::ContextActivity context{};
  context.id = record.Get<uint32_t>(4);
  context.device = record.Get<uint32_t>(8);
  context.null_stream = record.Get<uint16_t>(14);
  sink->OnContext(context);
  return true;
}

bool Decoder::OnStream(const RecordView& record, core::ActivitySink* sink) {
  core::StreamActivity stream{};
  stream.context = record.Get<uint32_t>(4);
  stream.id = record.Get<uint32_t>(8);
  stream.priority = static_cast<int32_t>(record.Get<uint32_t>(12));
  stream.flag = record.Get<uint32_t>(16);
  sink->OnStream(stream);
  return true;
}

}  // namespace stepagent::cupti
