// The parts of the simulated CUPTI and what they share.
//
// Threads: each part says its own rule. Failure: CUptiResult codes; what the real library would
// answer with undefined behaviour ends the program with a message.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>

#include "common/counters.h"
#include "common/faults.h"
#include "cupti/personality.h"
#include "tool_interface.h"

// Introduced by later headers than the oldest we compile against.
#if CUPTI_API_VERSION < 130000
typedef struct {
  size_t structSize;
  const char* subscriberName;
  char* oldSubscriberName;
  size_t oldSubscriberSize;
} CUpti_SubscriberParams;
#endif

namespace stepagent::sim {

struct EncodedRecord;

// ---- driver_link.cc: the simulated driver, found and attached on first need.
enum class DriverState { kReady, kNoDriver, kForeignDriver, kUnusable };
DriverState Link();
// The driver's table; NULL before Link() answered kReady.
const DriverTable* Driver();
int ToolSlot();
// 0, or what a call that needs a device answers.
CUptiResult RequireDriver();

// ---- entry.cc: around every exported function.
struct EntryPoint {
  const char* name;
  // Pure functions may be called from buffer callbacks.
  bool is_pure = false;
  std::atomic<std::atomic<uint64_t>*> counter{nullptr};
};
// Counts, and aborts on re-entry from a buffer callback. True: answer `code`.
bool EnterFunction(EntryPoint& entry, int* code);
void LeaveFunction(const EntryPoint& entry, int code);
struct BufferCallbackScope {
  BufferCallbackScope();
  ~BufferCallbackScope();
};
void RememberError(CUptiResult result);
CUptiResult TakeLastError();

// ---- callbacks.cc
void OnApiEnter(int slot, ApiFrame* frame);
void OnApiExit(int slot, ApiFrame* frame);
void OnResource(uint32_t cbid, const ResourceEvent* event);
void OnSynchronized(uint32_t cbid, CUcontext context, CUstream stream);
void DropSubscription();
// Which API functions are recorded as activity; told by kinds.cc.
void RecordApis(uint32_t domain, bool on);
void RecordApi(uint32_t domain, uint32_t cbid, bool on);

// ---- kinds.cc: which kinds are on.
bool IsKindOn(uint32_t kind);
void DisableAllKinds();
uint32_t CurrentThreadId();

// ---- records.cc: from events to records.
void OnDeviceOp(const DeviceOp* op);
void OnGraphLaunch(const DeviceOp* graph, const DeviceOp* nodes, size_t count);
void OnSync(const SyncOp* op);
void OnMemory(const MemoryOp* op);
void OnEventRecorded(const EventOp* op);
void OnContextCreated(const ContextInfo* info);
void OnStreamCreated(const StreamInfo* info);
void WriteApiRecord(const ApiFrame& frame, int64_t start_stamp, int64_t end_stamp);
void WriteExternalCorrelation(const ApiFrame& frame);
// False when that kind is off.
constexpr uint32_t kOverheadFlush = 1u << 16;
constexpr uint32_t kOverheadBufferRequest = 7u << 16;
bool EncodeOverhead(uint32_t overhead_kind, int64_t start_stamp, int64_t end_stamp,
                    EncodedRecord* record);
void DumpDevices();
void DumpContexts();
void DumpStreams();
void PoisonNames();

constexpr int kExternalKinds = 16;
CUptiResult PushExternalId(uint32_t kind, uint64_t id);
CUptiResult PopExternalId(uint32_t kind, uint64_t* id);

}  // namespace stepagent::sim

// An exported function: its name, its parameters, its body. SIM_CUPTI_PURE may be called from
// within buffer callbacks.
#define SIM_CUPTI_ENTRY(name, is_pure_function, parameters, ...)              \
  extern "C" CUptiResult CUPTIAPI name parameters {                           \
    static ::stepagent::sim::EntryPoint entry_point{#name, is_pure_function}; \
    int entry_code = 0;                                                       \
    if (!::stepagent::sim::EnterFunction(entry_point, &entry_code)) {         \
      entry_code = [&]() -> CUptiResult { __VA_ARGS__ }();                    \
    }                                                                         \
    ::stepagent::sim::LeaveFunction(entry_point, entry_code);                 \
    return static_cast<CUptiResult>(entry_code);                              \
  }
#define SIM_CUPTI(name, parameters, ...) SIM_CUPTI_ENTRY(name, false, parameters, __VA_ARGS__)
#define SIM_CUPTI_PURE(name, parameters, ...) SIM_CUPTI_ENTRY(name, true, parameters, __VA_ARGS__)
