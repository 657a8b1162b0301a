// API frames: what every exported driver function does around its body, and the announcements to
// attached tools.
//
// Threads: any. Failure: a call before cuInit answers NOT_INITIALIZED; a call in a forked child of
// an initialised process ends the program (STEPAGENT_SIM_FORK=error: NOT_INITIALIZED).
#pragma once

#include "cuda/vendor.h"

#include <atomic>

#include "common/counters.h"
#include "common/faults.h"
#include "tool_interface.h"

namespace stepagent::sim {

struct DriverCounters {
  std::atomic<uint64_t>& calls = Counter("cuda.calls");
  std::atomic<uint64_t>& launches = Counter("cuda.launches");
  std::atomic<uint64_t>& graph_launches = Counter("cuda.graph_launches");
  std::atomic<uint64_t>& copies = Counter("cuda.copies");
  std::atomic<uint64_t>& copy_bytes = Counter("cuda.copy_bytes");
  std::atomic<uint64_t>& sets = Counter("cuda.sets");
  std::atomic<uint64_t>& syncs = Counter("cuda.syncs");
  std::atomic<uint64_t>& captured = Counter("cuda.captured");
  std::atomic<uint64_t>& failed = Counter("cuda.failed_calls");
  std::atomic<uint64_t>& kernels = Counter("device.kernels");
  std::atomic<uint64_t>& injections = Counter("cuda.injections");
};
DriverCounters& Counters();

// Set once cuInit has succeeded; wiped in a child of fork or clone.
struct LiveFlag {
  std::atomic<uint32_t> is_alive;
};
extern LiveFlag* g_live;

// The reason why a call may not proceed.
CUresult RefuseCall(const char* function);

// Bit i of an entry: tool i wants this callback (or an API record of it).
extern std::atomic<uint8_t> g_callback_tools[kDomainCount][kMaxCallbackId];
extern std::atomic<uint8_t> g_op_tools;

void EnterFrame(ApiFrame* frame, uint8_t tools);
void ExitFrame(ApiFrame* frame, int result, void* return_value);

// The correlation id for work the calling thread submits now; 0 when nobody is listening.
uint32_t CurrentCorrelationId();
uint32_t NextCorrelationId();

// Whether any tool has attached itself to this process.
bool HasTools();
inline bool ToolsWantOps() { return g_op_tools.load(std::memory_order_relaxed) != 0; }

void AnnounceOp(const DeviceOp& op);
void AnnounceGraph(const DeviceOp& graph, const DeviceOp* nodes, size_t count);
void AnnounceSync(const SyncOp& op);
void AnnounceMemory(const MemoryOp& op);
void AnnounceEvent(const EventOp& op);
void AnnounceContext(const ContextInfo& info);
void AnnounceStream(const StreamInfo& info);
void AnnounceResource(uint32_t cbid, const ResourceEvent& event);
void AnnounceSynchronized(uint32_t cbid, CUcontext context, CUstream stream);

bool ClaimSubscriber(const void* owner, const char* name, char* holder, size_t holder_bytes);
void ReleaseSubscriber(const void* owner);

// The common part of every exported function.
template <class Body>
CUresult Call(uint32_t cbid, const char* name, const void* params, const char* symbol,
              Body&& body) {
  if (g_live == nullptr || g_live->is_alive.load(std::memory_order_relaxed) == 0) [[unlikely]] {
    if (const CUresult refusal = RefuseCall(name); refusal != CUDA_SUCCESS) return refusal;
  }
  Add(Counters().calls);
  int fault = 0;
  const bool has_fault = HasFaults() && FaultFor(name, &fault);
  const uint8_t tools = g_callback_tools[kDomainDriver][cbid].load(std::memory_order_relaxed);
  if (tools == 0 && g_op_tools.load(std::memory_order_relaxed) == 0) [[likely]] {
    const CUresult result = has_fault ? static_cast<CUresult>(fault) : body();
    if (result != CUDA_SUCCESS) Add(Counters().failed);
    return result;
  }
  ApiFrame frame{};
  frame.domain = kDomainDriver;
  frame.cbid = cbid;
  frame.function_name = name;
  frame.params = params;
  frame.symbol_name = symbol;
  EnterFrame(&frame, tools);
  CUresult result = has_fault ? static_cast<CUresult>(fault) : body();
  if (result != CUDA_SUCCESS) Add(Counters().failed);
  ExitFrame(&frame, result, &result);
  return result;
}

}  // namespace stepagent::sim

#define SIM_UNWRAP(...) __VA_ARGS__
// An exported driver function: name, parameter list, argument list, then its body.
#define SIM_API(name, parameters, arguments, ...)                                               \
  extern "C" CUresult CUDAAPI name parameters {                                                 \
    name##_params call_params{SIM_UNWRAP arguments};                                            \
    return ::stepagent::sim::Call(CUPTI_DRIVER_TRACE_CBID_##name, #name, &call_params, nullptr, \
                                  [&]() -> CUresult { __VA_ARGS__ });                           \
  }
// One that launches a kernel: `symbol` is its name for callbacks.
#define SIM_LAUNCH_API(name, parameters, arguments, symbol, ...)                               \
  extern "C" CUresult CUDAAPI name parameters {                                                \
    name##_params call_params{SIM_UNWRAP arguments};                                           \
    return ::stepagent::sim::Call(CUPTI_DRIVER_TRACE_CBID_##name, #name, &call_params, symbol, \
                                  [&]() -> CUresult { __VA_ARGS__ });                          \
  }
// One without parameters.
#define SIM_API0(name, ...)                                                                \
  extern "C" CUresult CUDAAPI name(void) {                                                 \
    return ::stepagent::sim::Call(CUPTI_DRIVER_TRACE_CBID_##name, #name, nullptr, nullptr, \
                                  [&]() -> CUresult { __VA_ARGS__ });                      \
  }
// A function with a stream, in its legacy and its per-thread-default-stream form; the body sees
// `per_thread`. _PTDS: the form for functions that have no stream argument.
#define SIM_STREAM_API(name, parameters, arguments, ...)                               \
  SIM_API(name, parameters, arguments, constexpr bool per_thread = false; __VA_ARGS__) \
  SIM_API(name##_ptsz, parameters, arguments, constexpr bool per_thread = true; __VA_ARGS__)
#define SIM_PTDS_API(name, parameters, arguments, ...)                                 \
  SIM_API(name, parameters, arguments, constexpr bool per_thread = false; __VA_ARGS__) \
  SIM_API(name##_ptds, parameters, arguments, constexpr bool per_thread = true; __VA_ARGS__)
