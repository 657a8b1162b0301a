#pragma once
// Device-side records as the decoder gives them: no vendor type leaves agent/cupti.
//
// Purpose: the seam between cupti/ (decodes a completed buffer) and drain/ (encodes a batch).
// Thread rule: made and consumed on the thread `stepagent`.
// Failure rule: the decoder counts what it could not decode; what it gives is bounded and safe.
// Times are CUPTI's ns (CLOCK_REALTIME base); names are NameIds already interned.
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::core {

enum : uint8_t {  // batch.proto DeviceFlag
  kDeviceNoTiming = 1, kDeviceUnfinished = 2, kDeviceReversed = 4, kDeviceLaunched = 8,
  kDeviceNullName = 16
};

struct DeviceLane {
  int32_t device;
  uint32_t context;
  uint64_t stream;
  uint32_t channel, channel_type;
};
struct KernelActivity {
  uint64_t start_ns, end_ns;
  DeviceLane lane;
  NameId name;
  uint32_t correlation;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t registers_per_thread, static_shared_bytes, dynamic_shared_bytes, local_bytes_per_thread;
  uint32_t graph_id;
  uint64_t graph_node_id;
  uint8_t flags;
};
struct MemcpyActivity {
  uint64_t start_ns, end_ns, bytes;
  DeviceLane lane;
  uint32_t correlation, graph_id;
  uint64_t graph_node_id, copy_count;
  uint8_t copy_kind, source_kind, target_kind, flags;
  bool is_async;
  int32_t source_device, target_device;  // peer copies; -1 otherwise
};
struct MemsetActivity {
  uint64_t start_ns, end_ns, bytes;
  DeviceLane lane;
  uint32_t correlation, value, graph_id;
  uint64_t graph_node_id;
  uint8_t memory_kind, flags;
};
struct SyncActivity {
  uint64_t start_ns, end_ns;
  uint32_t type, context, event, correlation;
  uint64_t stream;   // UINT64_MAX none
  uint8_t flags;
};
struct GraphActivity {
  uint64_t start_ns, end_ns;
  DeviceLane lane;
  uint32_t correlation, graph_id;
  uint8_t flags;
};
struct OverheadActivity {
  uint64_t start_ns, end_ns;
  uint32_t kind, tid;
};
struct MemoryActivity {
  uint64_t at_ns, address, bytes;
  uint32_t operation, memory_kind, correlation;
  int32_t device;
};
struct DeviceActivity {
  uint32_t ordinal;
  const char* name;        // valid during the call only
  uint8_t uuid[16];
  uint64_t memory_bytes, memory_bandwidth_kbps;
  uint32_t multiprocessors, compute_major, compute_minor, clock_khz, warp_size,
      max_threads_per_block, max_threads_per_multiprocessor, registers_per_block,
      registers_per_multiprocessor, shared_per_block, shared_per_multiprocessor,
      shared_per_block_optin;
};
struct ContextActivity {
  uint32_t id, device, null_stream;
};
struct StreamActivity {
  uint32_t context;
  uint64_t id;
  int32_t priority;
  uint32_t flag;
};

class ActivitySink {
 public:
  virtual ~ActivitySink() = default;
  virtual void OnKernel(const KernelActivity&) = 0;
  virtual void OnMemcpy(const MemcpyActivity&) = 0;
  virtual void OnMemset(const MemsetActivity&) = 0;
  virtual void OnSync(const SyncActivity&) = 0;
  virtual void OnGraphLaunch(const GraphActivity&) = 0;
  virtual void OnOverhead(const OverheadActivity&) = 0;
  virtual void OnMemory(const MemoryActivity&) = 0;
  virtual void OnDevice(const DeviceActivity&) = 0;
  virtual void OnContext(const ContextActivity&) = 0;
  virtual void OnStream(const StreamActivity&) = 0;
  // A record of this kind (batch.proto Activity number) that could not be decoded.
  virtual void OnInvalid(uint32_t activity) = 0;
};

}  // namespace stepagent::core
