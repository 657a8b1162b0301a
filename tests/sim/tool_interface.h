// What the simulated libraries say to one another; both sides come from the same build.
//
// libcuda exports one function, stepagent_sim_driver_table(), that answers a table of functions.
// A simulated libcupti attaches a ToolOps to it, as the real one does through private export
// tables; the simulated runtime announces its API calls through it. Times are engine times
// (CLOCK_MONOTONIC ns, common/clock.h). Threads: every function may be called from any thread;
// ToolOps are called with no lock of the driver held. Failure: none, unless said.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace stepagent::sim {

constexpr int kMaxTools = 4;
constexpr uint32_t kTableVersion = 4;
constexpr uint32_t kDomainDriver = 1;
constexpr uint32_t kDomainRuntime = 2;
constexpr uint32_t kDomainResource = 3;
constexpr uint32_t kDomainSynchronize = 4;
constexpr uint32_t kDomainCount = 7;
constexpr uint32_t kMaxCallbackId = 1024;

// One API call between its enter and exit, on the caller's stack.
struct ApiFrame {
  uint32_t domain;
  uint32_t cbid;
  const char* function_name;
  const void* params;
  void* return_value;
  int return_code;
  const char* symbol_name;
  CUcontext context;
  uint32_t context_uid;
  uint32_t correlation_id;
  uint64_t correlation_data[kMaxTools];
  uint32_t entered_tools;  // bit set: this tool saw the enter
  int64_t start_stamp[kMaxTools];
  ApiFrame* outer;
};

enum class OpType : uint32_t { kKernel, kMemcpy, kMemcpyPeer, kMemset, kGraph, kHost, kEmpty };

// Device work, already placed on the device clock.
struct DeviceOp {
  OpType type;
  uint32_t correlation_id;
  uint32_t runtime_correlation_id;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  int64_t start_ns;
  int64_t end_ns;
  int64_t submit_ns;
  const char* name;  // lives as long as the process
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t registers_per_thread;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint8_t copy_kind;    // CUpti_ActivityMemcpyKind
  uint8_t source_kind;  // CUpti_ActivityMemoryKind
  uint8_t target_kind;
  uint8_t flags;
  uint32_t value;
  uint64_t bytes;
  uint32_t source_device_id;
  uint32_t source_context_id;
  uint32_t target_device_id;
  uint32_t target_context_id;
  uint32_t graph_id;
  uint64_t graph_node_id;
  bool is_in_body;    // of a conditional node
  bool before_tools;  // of a graph that was instantiated when no tool was attached
};

enum class SyncType : uint32_t { kEvent = 1, kStreamWaitEvent = 2, kStream = 3, kContext = 4 };

struct SyncOp {
  SyncType type;
  uint32_t correlation_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t event_id;
  int result;
  int64_t start_stamp;  // host stamps
  int64_t end_stamp;
};

struct MemoryOp {
  uint32_t operation;  // CUpti_ActivityMemoryOperationType
  uint32_t kind;       // CUpti_ActivityMemoryKind
  uint32_t correlation_id;
  uint64_t address;
  uint64_t bytes;
  uint32_t device_id;
  uint32_t context_id;
  uint32_t stream_id;
  bool is_async;
};

struct EventOp {
  uint32_t correlation_id;
  uint32_t context_id;
  uint32_t stream_id;
  uint32_t event_id;
  uint32_t device_id;
  int64_t at_ns;
};

struct ContextInfo {
  CUcontext handle;
  uint32_t context_id;
  uint32_t device_id;
  uint32_t null_stream_id;
};

struct StreamInfo {
  CUstream handle;
  CUcontext context_handle;
  uint32_t context_id;
  uint32_t stream_id;
  int32_t priority;
  uint32_t flags;
  uint32_t correlation_id;
};

struct DeviceInfo {
  uint32_t ordinal;
  const char* name;
  uint64_t total_bytes;
  uint8_t uuid[16];
  uint32_t multiprocessors;
};

struct ResourceEvent {
  CUcontext context;
  CUstream stream;
  uint32_t module_id;
  const void* module_image;
  size_t module_bytes;
  CUgraph graph;
  CUgraph original_graph;
  CUgraphNode node;
  CUgraphNode original_node;
  uint32_t node_type;
  CUgraphNode dependency;
  CUgraphExec exec;
};

struct ToolOps {
  void (*api_enter)(int slot, ApiFrame* frame);
  void (*api_exit)(int slot, ApiFrame* frame);
  void (*device_op)(const DeviceOp* op);
  // `graph` spans its nodes; the tool decides which of the two becomes records.
  void (*graph_launch)(const DeviceOp* graph, const DeviceOp* nodes, size_t count);
  void (*sync)(const SyncOp* op);
  void (*memory)(const MemoryOp* op);
  void (*event_recorded)(const EventOp* op);
  void (*context_created)(const ContextInfo* info);
  void (*stream_created)(const StreamInfo* info);
  void (*resource)(uint32_t cbid, const ResourceEvent* event);
  void (*synchronized)(uint32_t cbid, CUcontext context, CUstream stream);
  uint64_t (*counter)(const char* name);
};

struct DriverTable {
  uint32_t version;
  // CUDA_SUCCESS, or the result of cuInit that makes this driver unusable.
  int (*usable)();
  bool (*is_forked_child)();
  int (*attach)(const ToolOps* ops);  // slot, or -1
  void (*set_callback)(int slot, uint32_t domain, uint32_t cbid, bool on);
  void (*set_device_ops)(int slot, bool on);
  void (*set_serialize)(bool on);
  // One subscriber in the process, across copies of libcupti. On refusal the holder's name.
  bool (*claim_subscriber)(const void* owner, const char* name, char* holder, size_t holder_bytes);
  void (*release_subscriber)(const void* owner);
  uint32_t (*next_correlation_id)();
  uint32_t (*context_id)(CUcontext context);
  uint32_t (*context_device)(CUcontext context);
  bool (*stream_id)(CUcontext context, CUstream stream, bool per_thread, uint32_t* id);
  uint32_t (*graph_id)(CUgraph graph);
  uint32_t (*graph_exec_id)(CUgraphExec exec);
  uint64_t (*graph_node_id)(CUgraphNode node);
  uint64_t (*graphs_alive)();
  void (*for_each_device)(void (*visit)(const DeviceInfo*, void*), void* data);
  void (*for_each_context)(void (*visit)(const ContextInfo*, void*), void* data);
  void (*for_each_stream)(void (*visit)(const StreamInfo*, void*), void* data);
  // For the simulated runtime: announces an API call of domain 2 around its driver calls.
  void (*runtime_enter)(ApiFrame* frame);
  void (*runtime_exit)(ApiFrame* frame);
  // Non-NULL when the pointer is a kernel of stepagent_sim_register_kernel.
  CUfunction (*as_function)(const void* candidate);
  // A kernel for the runtime's registration calls: the default duration.
  CUfunction (*default_kernel)(const char* name);
  const char* (*function_name)(CUfunction function);
};

using DriverTableFn = const DriverTable* (*)(uint32_t version);
constexpr const char* kDriverTableSymbol = "stepagent_sim_driver_table";

}  // namespace stepagent::sim
