#pragma once
// BatchBuilder: records in, one protobuf Batch as columns out.
//
// Purpose: the one translation from in-memory records to the wire (proto/batch.proto), with
// protozero: no protobuf runtime enters the application.
// Thread rule: the thread `stepagent` only.
// Failure rule: cannot fail; a batch is closed before it grows past its target.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/activity.h"
#include "agent/core/clock.h"
#include "agent/core/record.h"
#include "agent/core/step_gate.h"

namespace stepagent::drain {

class Redactor;

struct BatchIdentity {
  std::string run, session, host;
  int32_t rank = -1;
};
// Counts per batch.proto Activity number, kept for the whole session.
//
// What counts under which kind: launch: calls that launch or copy or set; sync: calls that wait;
// memory: calls that allocate, and Memories rows; nvtx: each range entry (begin, end, mark);
// kernel: Kernels and GraphLaunches rows. Syncs rows are detail beside the sync calls and count
// nowhere. produced = sent + every drop + invalid + what still waits in a ring. CUPTI does not say
// of which kind its dropped records were: they are under ACTIVITY_NONE.
struct KindTotals {
  uint64_t produced = 0, sent = 0, dropped_ring_full = 0, dropped_no_ring = 0, dropped_uplink = 0,
           dropped_cupti = 0, dropped_limit = 0, invalid = 0;
  bool cupti_count_unknown = false;
};
// How full the agent is (batch.proto Gauges), bytes and buffers.
struct Gauges {
  uint64_t ring_bytes = 0, ring_bytes_waiting = 0, cupti_buffers = 0;
};
inline constexpr uint32_t kActivityKinds = 9;
// The kind a host record counts under.
[[nodiscard]] uint32_t ActivityOfCall(core::CallClass call_class);
[[nodiscard]] uint32_t ActivityOfRecord(const core::Record& record);

// How many records of each kind a batch holds: what is lost if it cannot be sent.
struct BatchContent {
  uint64_t records[kActivityKinds] = {};
  [[nodiscard]] uint64_t total() const {
    uint64_t sum = 0;
    for (uint64_t n : records) sum += n;
    return sum;
  }
};

class BatchBuilder : public core::ActivitySink {
 public:
  explicit BatchBuilder(BatchIdentity identity);
  ~BatchBuilder() override;
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // What texts become from here on; nullptr: themselves. It is the caller's, and outlives its use.
  void SetRedactor(Redactor* redactor);
  [[nodiscard]] const Redactor* redactor() const;

  // Declares a thread in the batch at hand; to be called before its records, again after Finish.
  // Repeated calls are free.
  void AddThread(uint32_t index, uint32_t tid, std::string_view name);
  void AddRecord(uint32_t thread_index, const core::Record& record);
  // Many of a thread, calls and ranges apart, each in order.
  void AddCalls(uint32_t thread_index, const core::Record* const* calls, uint32_t count);
  void AddRanges(uint32_t thread_index, const core::Record* const* entries, uint32_t count);
  // Every round: stacks taken after a library was unloaded are not those taken before.
  void WatchUnloads();
  void AddGateEvent(const core::GateEvent& event);
  void AddClockSample(const core::HostClock::Sample& sample);
  void AddNote(uint32_t cycle, std::string_view code, std::string_view text);
  // ARMED and CLOSED, which the phase controller knows.
  void AddCycleEvent(uint32_t cycle, uint32_t kind, int64_t host_ns, std::string_view reason);
  // An encoded CycleReport (cycle_report.h) goes in as it is.
  void AddCycleReport(std::string encoded);

  void OnKernel(const core::KernelActivity&) override;
  void OnMemcpy(const core::MemcpyActivity&) override;
  void OnMemset(const core::MemsetActivity&) override;
  void OnSync(const core::SyncActivity&) override;
  void OnGraphLaunch(const core::GraphActivity&) override;
  void OnOverhead(const core::OverheadActivity&) override;
  void OnMemory(const core::MemoryActivity&) override;
  void OnDevice(const core::DeviceActivity&) override;
  void OnContext(const core::ContextActivity&) override;
  void OnStream(const core::StreamActivity&) override;
  void OnInvalid(uint32_t activity) override;

  // Ordinals of the devices on which CUPTI told of a context.
  [[nodiscard]] std::vector<uint32_t> DevicesInUse() const;
  [[nodiscard]] bool empty() const;
  // What Finish would give, within a few per cent; sums up some eighty columns: not per record.
  [[nodiscard]] size_t approximate_bytes() const;
  [[nodiscard]] const BatchContent& content() const;
  [[nodiscard]] uint64_t invalid(uint32_t activity) const;  // since the session began
  // The encoded Batch (no frame header); the builder is empty afterwards.
  [[nodiscard]] std::string Finish(uint64_t sequence, int64_t host_ns, uint32_t cycle,
                                   const KindTotals (&totals)[kActivityKinds],
                                   const Gauges& gauges);

 private:
  struct Columns;
  Columns* columns_;
};

}  // namespace stepagent::drain
