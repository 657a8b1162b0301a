// From events of the driver to activity records of this generation.
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/clock.h"
#include "common/settings.h"
#include "cupti/buffers.h"
#include "cupti/encoder.h"
#include "cupti/oddities.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

constexpr DeviceLayout kKernelLayout{16, 24, 40, 104};
constexpr DeviceLayout kCopyLayout{16, 24, 32, 0};
constexpr DeviceLayout kGraphLayout{8, 16, 24, 0};
constexpr uint8_t kChannelCompute = 1;
constexpr uint8_t kChannelCopy = 2;

std::atomic<uint64_t>& KindCounter(uint32_t kind) {
  static std::atomic<std::atomic<uint64_t>*> counters[kMaxKind];
  auto* counter = counters[kind % kMaxKind].load(std::memory_order_relaxed);
  if (counter == nullptr) {
    counter = &Counter(("cupti.records.kind_" + std::to_string(kind)).c_str());
    counters[kind % kMaxKind].store(counter, std::memory_order_relaxed);
  }
  return *counter;
}

void Write(Encoder& encoder) {
  if (!encoder.exists()) return;
  Add(KindCounter(encoder.record().kind));
  WriteRecord(encoder.record());
}

// Names belong to CUPTI: copies shared by all records, gone when a tool finalises.
struct Names {
  std::mutex mutex;
  std::unordered_map<const char*, char*> copies;
};
Names& TheNames() {
  static auto* names = new Names;
  return *names;
}

const char* NameFor(const char* driver_name) {
  if (driver_name == nullptr) return nullptr;
  Names& names = TheNames();
  const std::lock_guard lock(names.mutex);
  char*& copy = names.copies[driver_name];
  if (copy == nullptr) copy = strdup(driver_name);
  return copy;
}

// Work that can never start has no stamps; work that never ends has no end.
uint64_t Stamp(int64_t engine_ns) {
  return engine_ns == kNever ? 0 : static_cast<uint64_t>(DeviceStampNs(engine_ns));
}

// The end on the device clock; the duration is kept exactly whatever the clock does meanwhile.
uint64_t EndStamp(const DeviceOp& op, uint64_t start) {
  if (op.end_ns == kNever || op.start_ns == kNever) return 0;
  return start + static_cast<uint64_t>(op.end_ns - op.start_ns);
}

void WriteExtra() {
  // A kind that the library knows and nobody asked for; in the future one, one nobody can know.
  Encoder encoder(RecordBytes(60) != 0 ? 60 : CUPTI_ACTIVITY_KIND_ENVIRONMENT);
  encoder.Put<uint64_t>(8, static_cast<uint64_t>(HostStampNs()));
  Write(encoder);
}

void WriteDeviceWork(Encoder& encoder, const DeviceOp& op, const DeviceLayout& layout) {
  if (!encoder.exists()) return;
  EncodedRecord& record = encoder.record();
  const uint64_t start = Stamp(op.start_ns);
  encoder.Put<uint64_t>(layout.start, start).Put<uint64_t>(layout.end, EndStamp(op, start));
  record.is_device_work = true;
  record.complete_at_ns = op.end_ns;
  record.end_offset = layout.end;
  Oddity oddity;
  if (HasOddities()) oddity = ApplyOddities(&record, layout);
  if (oddity.drops) {
    DropOneRecord();
    return;
  }
  if (oddity.has_extra) WriteExtra();
  Write(encoder);
  if (oddity.is_duplicated) Write(encoder);
}

void WriteKernel(const DeviceOp& op, uint32_t kind) {
  static const bool has_future_values = RecordBytes(60) != 0;
  Encoder encoder(kind);
  encoder.Put<uint8_t>(4, has_future_values ? 0x77 : 0)
      .Put<uint16_t>(6, static_cast<uint16_t>(op.registers_per_thread))
      .Put<uint64_t>(32, EndStamp(op, Stamp(op.start_ns)))
      .Put<uint32_t>(40, op.device_id)
      .Put<uint32_t>(44, op.context_id)
      .Put<uint32_t>(48, op.stream_id);
  for (uint32_t i = 0; i < 3; ++i) {
    encoder.Put<uint32_t>(52 + 4 * i, op.grid[i]).Put<uint32_t>(64 + 4 * i, op.block[i]);
  }
  if (!op.before_tools) {
    encoder.Put<uint32_t>(76, op.static_shared_bytes).Put<uint32_t>(80, op.dynamic_shared_bytes);
  }
  encoder.Put<uint32_t>(92, op.correlation_id)
      .Put<int64_t>(96, static_cast<int64_t>(op.correlation_id))
      .Put<const char*>(104, NameFor(op.name))
      .PutSince<uint64_t>(160, 144, op.graph_node_id)
      .PutSince<uint32_t>(160, 156, op.graph_id)
      .PutSince<uint32_t>(176, 168, 1)
      .PutSince<uint32_t>(176, 172, kChannelCompute);
  WriteDeviceWork(encoder, op, kKernelLayout);
}

void WriteCopy(const DeviceOp& op) {
  static const bool has_future_values = RecordBytes(60) != 0;
  Encoder encoder(CUPTI_ACTIVITY_KIND_MEMCPY);
  encoder.Put<uint8_t>(4, op.copy_kind)
      .Put<uint8_t>(5, has_future_values ? 0x6B : op.source_kind)
      .Put<uint8_t>(6, op.target_kind)
      .Put<uint8_t>(7, op.flags)
      .Put<uint64_t>(8, op.bytes)
      .Put<uint32_t>(32, op.device_id)
      .Put<uint32_t>(36, op.context_id)
      .Put<uint32_t>(40, op.stream_id)
      .Put<uint32_t>(44, op.correlation_id)
      .Put<uint32_t>(48, op.runtime_correlation_id)
      .PutSince<uint64_t>(72, 64, op.graph_node_id)
      .PutSince<uint32_t>(80, 72, op.graph_id)
      .PutSince<uint32_t>(88, 76, 1)
      .PutSince<uint32_t>(88, 80, kChannelCopy)
      .PutSince<uint64_t>(96, 88, 1);
  WriteDeviceWork(encoder, op, kCopyLayout);
}

void WritePeerCopy(const DeviceOp& op) {
  Encoder encoder(CUPTI_ACTIVITY_KIND_MEMCPY2);
  encoder.Put<uint8_t>(4, op.copy_kind)
      .Put<uint8_t>(5, op.source_kind)
      .Put<uint8_t>(6, op.target_kind)
      .Put<uint8_t>(7, op.flags)
      .Put<uint64_t>(8, op.bytes)
      .Put<uint32_t>(32, op.device_id)
      .Put<uint32_t>(36, op.context_id)
      .Put<uint32_t>(40, op.stream_id)
      .Put<uint32_t>(44, op.source_device_id)
      .Put<uint32_t>(48, op.source_context_id)
      .Put<uint32_t>(52, op.target_device_id)
      .Put<uint32_t>(56, op.target_context_id)
      .Put<uint32_t>(60, op.correlation_id)
      .Put<uint64_t>(72, op.graph_node_id)
      .Put<uint32_t>(80, op.graph_id)
      .PutSince<uint32_t>(96, 84, 1)
      .PutSince<uint32_t>(96, 88, kChannelCopy);
  WriteDeviceWork(encoder, op, kCopyLayout);
}

void WriteSet(const DeviceOp& op) {
  Encoder encoder(CUPTI_ACTIVITY_KIND_MEMSET);
  encoder.Put<uint32_t>(4, op.value)
      .Put<uint64_t>(8, op.bytes)
      .Put<uint32_t>(32, op.device_id)
      .Put<uint32_t>(36, op.context_id)
      .Put<uint32_t>(40, op.stream_id)
      .Put<uint32_t>(44, op.correlation_id)
      .Put<uint16_t>(48, op.flags)
      .Put<uint16_t>(50, op.target_kind)
      .Put<uint64_t>(64, op.graph_node_id)
      .Put<uint32_t>(72, op.graph_id)
      .Put<uint32_t>(76, 1)
      .Put<uint32_t>(80, kChannelCompute);
  WriteDeviceWork(encoder, op, kCopyLayout);
}

void WriteGraphTrace(const DeviceOp& op) {
  Encoder encoder(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  encoder.Put<uint32_t>(4, op.correlation_id)
      .Put<uint32_t>(24, op.device_id)
      .Put<uint32_t>(28, op.graph_id)
      .Put<uint32_t>(32, op.context_id)
      .Put<uint32_t>(36, op.stream_id)
      .PutSince<uint32_t>(56, 48, op.device_id)
      .PutSince<uint32_t>(56, 52, op.context_id);
  WriteDeviceWork(encoder, op, kGraphLayout);
}

struct ExternalIds {
  std::vector<uint64_t> stacks[kExternalKinds];
};
thread_local ExternalIds t_external;

}  // namespace

void OnDeviceOp(const DeviceOp* op) {
  switch (op->type) {
    case OpType::kKernel:
      if (IsKindOn(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
        WriteKernel(*op, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      } else if (IsKindOn(CUPTI_ACTIVITY_KIND_KERNEL)) {
        WriteKernel(*op, CUPTI_ACTIVITY_KIND_KERNEL);
      }
      break;
    case OpType::kMemcpy:
      if (IsKindOn(CUPTI_ACTIVITY_KIND_MEMCPY)) WriteCopy(*op);
      break;
    case OpType::kMemcpyPeer:
      if (IsKindOn(CUPTI_ACTIVITY_KIND_MEMCPY2)) WritePeerCopy(*op);
      break;
    case OpType::kMemset:
      if (IsKindOn(CUPTI_ACTIVITY_KIND_MEMSET)) WriteSet(*op);
      break;
    default:
      break;
  }
}

void OnGraphLaunch(const DeviceOp* graph, const DeviceOp* nodes, size_t count) {
  if (IsKindOn(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)) {
    WriteGraphTrace(*graph);
    return;
  }
  const Personality& mine = ThePersonality();
  if (graph->before_tools && mine.misses_early_graphs) return;
  for (size_t i = 0; i < count; ++i) {
    if (nodes[i].is_in_body && !mine.sees_bodies) continue;
    OnDeviceOp(&nodes[i]);
  }
}

void OnSync(const SyncOp* op) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  Encoder encoder(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  encoder.Put<uint32_t>(4, static_cast<uint32_t>(op->type))
      .Put<int64_t>(8, op->start_stamp)
      .Put<int64_t>(16, op->end_stamp)
      .Put<uint32_t>(24, op->correlation_id)
      .Put<uint32_t>(28, op->context_id)
      .Put<uint32_t>(32, op->stream_id)
      .Put<uint32_t>(36, op->event_id)
      .PutSince<uint64_t>(56, 40, 0)
      .PutSince<uint32_t>(56, 48, static_cast<uint32_t>(op->result));
  Write(encoder);
}

void OnMemory(const MemoryOp* op) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_MEMORY2)) return;
  Encoder encoder(CUPTI_ACTIVITY_KIND_MEMORY2);
  encoder.Put<uint32_t>(4, op->operation)
      .Put<uint32_t>(8, op->kind)
      .Put<uint32_t>(12, op->correlation_id)
      .Put<uint64_t>(16, op->address)
      .Put<uint64_t>(24, op->bytes)
      .Put<int64_t>(32, HostStampNs())
      .Put<uint32_t>(48, static_cast<uint32_t>(getpid()))
      .Put<uint32_t>(52, op->device_id)
      .Put<uint32_t>(56, op->context_id)
      .Put<uint32_t>(60, op->stream_id)
      .Put<uint32_t>(72, op->is_async ? 1 : 0);
  Write(encoder);
}

void OnEventRecorded(const EventOp* op) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_CUDA_EVENT)) return;
  Encoder encoder(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  encoder.Put<uint32_t>(4, op->correlation_id)
      .Put<uint32_t>(8, op->context_id)
      .Put<uint32_t>(12, op->stream_id)
      .Put<uint32_t>(16, op->event_id)
      .PutSince<uint32_t>(56, 24, op->device_id)
      .PutSince<uint64_t>(56, 40, Stamp(op->at_ns));
  Write(encoder);
}

void OnContextCreated(const ContextInfo* info) {
  if (IsKindOn(CUPTI_ACTIVITY_KIND_DEVICE)) DumpDevices();
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_CONTEXT)) return;
  Encoder encoder(CUPTI_ACTIVITY_KIND_CONTEXT);
  encoder.Put<uint32_t>(4, info->context_id)
      .Put<uint32_t>(8, info->device_id)
      .Put<uint16_t>(12, CUPTI_ACTIVITY_COMPUTE_API_CUDA)
      .Put<uint16_t>(14, static_cast<uint16_t>(info->null_stream_id));
  Write(encoder);
}

void OnStreamCreated(const StreamInfo* info) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_STREAM)) return;
  Encoder encoder(CUPTI_ACTIVITY_KIND_STREAM);
  encoder.Put<uint32_t>(4, info->context_id)
      .Put<uint32_t>(8, info->stream_id)
      .Put<int32_t>(12, info->priority)
      .Put<uint32_t>(16, (info->flags & CU_STREAM_NON_BLOCKING) != 0
                             ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                             : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT)
      .Put<uint32_t>(20, info->correlation_id);
  Write(encoder);
}

void WriteApiRecord(const ApiFrame& frame, int64_t start_stamp, int64_t end_stamp) {
  const uint32_t kind =
      frame.domain == kDomainDriver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  if (!IsKindOn(kind)) return;
  Encoder encoder(kind);
  encoder.Put<uint32_t>(4, frame.cbid)
      .Put<int64_t>(8, start_stamp)
      .Put<int64_t>(16, end_stamp)
      .Put<uint32_t>(24, static_cast<uint32_t>(getpid()))
      .Put<uint32_t>(28, CurrentThreadId())
      .Put<uint32_t>(32, frame.correlation_id)
      .Put<uint32_t>(36, static_cast<uint32_t>(frame.return_code));
  Write(encoder);
}

void WriteExternalCorrelation(const ApiFrame& frame) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) return;
  for (uint32_t kind = 0; kind < kExternalKinds; ++kind) {
    if (t_external.stacks[kind].empty()) continue;
    Encoder encoder(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    encoder.Put<uint32_t>(4, kind)
        .Put<uint64_t>(8, t_external.stacks[kind].back())
        .Put<uint32_t>(16, frame.correlation_id);
    Write(encoder);
  }
}

bool EncodeOverhead(uint32_t overhead_kind, int64_t start_stamp, int64_t end_stamp,
                    EncodedRecord* record) {
  if (!IsKindOn(CUPTI_ACTIVITY_KIND_OVERHEAD)) return false;
  Encoder encoder(CUPTI_ACTIVITY_KIND_OVERHEAD);
  encoder.Put<uint32_t>(4, overhead_kind)
      .Put<uint32_t>(8, CUPTI_ACTIVITY_OBJECT_THREAD)
      .Put<uint32_t>(12, static_cast<uint32_t>(getpid()))
      .Put<uint32_t>(16, CurrentThreadId())
      .Put<int64_t>(24, start_stamp)
      .Put<int64_t>(32, end_stamp);
  Add(KindCounter(CUPTI_ACTIVITY_KIND_OVERHEAD));
  *record = encoder.record();
  return true;
}

void DumpDevices() {
  Driver()->for_each_device(
      [](const DeviceInfo* info, void*) {
        Encoder encoder(CUPTI_ACTIVITY_KIND_DEVICE);
        encoder.Put<uint64_t>(8, 1555000000)
            .Put<uint64_t>(16, info->total_bytes)
            .Put<uint32_t>(24, 65536)
            .Put<uint32_t>(28, 41943040)
            .Put<uint32_t>(32, 32)
            .Put<uint32_t>(36, 1410000)
            .Put<uint32_t>(44, info->multiprocessors)
            .Put<uint32_t>(104, 8)
            .Put<uint32_t>(108, 0)
            .Put<uint32_t>(112, info->ordinal)
            .Put<const char*>(136, NameFor(info->name))
            .PutSince<uint8_t>(176, 144, 1);
        for (uint32_t i = 0; i < 16; ++i) encoder.Put<uint8_t>(120 + i, info->uuid[i]);
        Write(encoder);
      },
      nullptr);
}

void DumpContexts() {
  Driver()->for_each_context([](const ContextInfo* info, void*) { OnContextCreated(info); },
                             nullptr);
}

void DumpStreams() {
  Driver()->for_each_stream([](const StreamInfo* info, void*) { OnStreamCreated(info); }, nullptr);
}

// Names handed out so far turn to garbage: a reader that kept pointers shows it.
void PoisonNames() {
  Names& names = TheNames();
  const std::lock_guard lock(names.mutex);
  for (auto& [driver_name, copy] : names.copies) memset(copy, '#', strlen(copy));
  names.copies.clear();
}

CUptiResult PushExternalId(uint32_t kind, uint64_t id) {
  if (kind == 0 || kind >= kExternalKinds) return CUPTI_ERROR_INVALID_PARAMETER;
  t_external.stacks[kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult PopExternalId(uint32_t kind, uint64_t* id) {
  if (kind == 0 || kind >= kExternalKinds) return CUPTI_ERROR_INVALID_PARAMETER;
  auto& stack = t_external.stacks[kind];
  if (stack.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (id != nullptr) *id = stack.back();
  stack.pop_back();
  return CUPTI_SUCCESS;
}

}  // namespace stepagent::sim
