#pragma once
// The columns of a batch, one struct per message of proto/batch.proto, members named as its fields.
//
// Purpose: what BatchBuilder fills; each struct knows how to write itself (columns.cc).
// Thread rule: belongs to one builder.
// Failure rule: plain data.
#include <cstdint>
#include <protozero/pbf_builder.hpp>
#include <string>

#include "agent/core/activity.h"
#include "agent/core/clock.h"
#include "agent/core/record.h"
#include "agent/drain/column.h"
#include "agent/drain/dictionary.h"
#include "agent/drain/fields.h"

namespace stepagent::drain {

using BatchWriter = protozero::pbf_builder<wire::Batch>;

struct CallColumns {
  uint32_t count = 0;
  Column thread, name, cls, domain, cbid, duration_ns, return_value, flags, stack;
  DeltaColumn begin_delta, correlation_delta;

  // Calls of one thread, in order.
  void Add(uint32_t thread_index, const core::Record* const* calls, uint32_t run);
  void Write(BatchWriter* batch) const;
};

struct RangeColumns {
  uint32_t count = 0;
  Column thread, op, name, domain, category, range_id, color;
  DeltaColumn host_delta;

  // Ranges and marks of one thread, in order.
  void Add(uint32_t thread_index, const core::Record* const* entries, uint32_t run);
  void Write(BatchWriter* batch) const;
};

class LaneDictionary {
 public:
  uint32_t Find(const core::DeviceLane& lane) {
    bool is_new;
    return keys_.Find({Pair(static_cast<uint32_t>(lane.device), lane.context), lane.stream,
                       Pair(lane.channel, lane.channel_type)},
                      &is_new);
  }
  template <typename Message>
  void Write(protozero::pbf_builder<Message>* parent) const;
  [[nodiscard]] size_t bytes() const { return keys_.size() * size_t{12}; }
  void Clear() { keys_.Clear(); }

 private:
  Dictionary<3> keys_;
};

// What all device records share. Impossible stamps are marked and kept (DeviceFlag).
struct DeviceColumns {
  uint32_t count = 0;
  LaneDictionary lanes;
  Column lane, duration_ns, graph_id, graph_node_id, flags;
  DeltaColumn device_start_delta, correlation_delta;

  // Returns the record's row.
  template <typename Activity>
  uint32_t AddShared(const Activity& activity);
};

struct KernelColumns : DeviceColumns {
  // Everything about a kernel that repeats: 14 numbers, in the order of the Shapes message.
  Dictionary<7> shapes;
  Column shape;

  // The name when the shape is new in this batch (to be declared), else 0.
  core::NameId Add(const core::KernelActivity& kernel);
  void Write(BatchWriter* batch) const;
};

struct MemcpyColumns : DeviceColumns {
  Column bytes, copy_kind, source_kind, target_kind, source_device, target_device, is_async,
      copy_count;

  void Add(const core::MemcpyActivity& copy);
  void Write(BatchWriter* batch) const;
};

struct MemsetColumns : DeviceColumns {
  Column bytes, value, memory_kind;

  void Add(const core::MemsetActivity& set);
  void Write(BatchWriter* batch) const;
};

struct GraphLaunchColumns : DeviceColumns {
  void Add(const core::GraphActivity& graph);
  void Write(BatchWriter* batch) const;
};

struct SyncColumns {
  uint32_t count = 0;
  Column type, context, stream, event, duration_ns, flags;
  DeltaColumn device_start_delta, correlation_delta;

  void Add(const core::SyncActivity& sync);
  void Write(BatchWriter* batch) const;
};

struct OverheadColumns {
  uint32_t count = 0;
  Column kind, thread_tid, duration_ns;
  DeltaColumn device_start_delta;

  void Add(const core::OverheadActivity& overhead);
  void Write(BatchWriter* batch) const;
};

struct MemoryColumns {
  uint32_t count = 0;
  Column operation, memory_kind, address, bytes, device;
  DeltaColumn device_stamp_delta, correlation_delta;

  void Add(const core::MemoryActivity& memory);
  void Write(BatchWriter* batch) const;
};

struct ClockColumns {
  uint32_t count = 0;
  Column host_ns, real_ns, bracket_ns, suspended_ms;

  void Add(const core::HostClock::Sample& sample);
  void Write(BatchWriter* batch) const;
};

// All of them.
struct RecordColumns {
  CallColumns calls;
  KernelColumns kernels;
  MemcpyColumns memcpys;
  MemsetColumns memsets;
  SyncColumns syncs;
  GraphLaunchColumns graph_launches;
  RangeColumns ranges;
  OverheadColumns overheads;
  MemoryColumns memories;
  ClockColumns clock_samples;

  [[nodiscard]] uint32_t count() const;
  [[nodiscard]] size_t bytes() const;
  // In two parts, so that fields are written in the order of their numbers.
  void WriteUpToClock(BatchWriter* batch) const;
  void WriteMemories(BatchWriter* batch) const { memories.Write(batch); }
  void Clear();
};

}  // namespace stepagent::drain
