// What the simulated CUPTI, the simulated runtime and programs under test get from the driver
// beside its public functions.
#include <fcntl.h>

#include <cstring>

#include "common/settings.h"
#include "cuda/engine.h"
#include "cuda/graph.h"
#include "cuda/module.h"
#include "cuda/trace.h"
#include "include/stepagent_sim.h"

namespace stepagent::sim {

int AttachTool(const ToolOps* ops);
void SetCallback(int slot, uint32_t domain, uint32_t cbid, bool on);
void SetDeviceOps(int slot, bool on);
uint64_t ToolCounter(const char* name);

namespace {

int Usable() {
  const auto scripted = static_cast<int>(SettingInt("CUINIT", 0));
  if (scripted != 0) return scripted;
  return Devices().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

bool IsForkedChild() {
  return g_live != nullptr && g_live->is_alive.load(std::memory_order_relaxed) == 0;
}

uint32_t ContextId(CUcontext handle) {
  const Context* context = ToContext(handle);
  return context == nullptr ? 0 : context->uid;
}

uint32_t ContextDevice(CUcontext handle) {
  const Context* context = ToContext(handle);
  return context == nullptr ? 0xFFFFFFFFu : static_cast<uint32_t>(context->device->ordinal);
}

bool StreamId(CUcontext context, CUstream stream, bool per_thread, uint32_t* id) {
  return StreamIdOf(context, stream, per_thread, id) == CUDA_SUCCESS;
}

uint32_t GraphIdOf(CUgraph handle) {
  const auto* graph = HandleCast<Graph>(handle, kGraphMagic);
  return graph == nullptr ? 0 : graph->id;
}

uint32_t ExecIdOf(CUgraphExec handle) {
  const auto* exec = HandleCast<GraphExec>(handle, kExecMagic);
  return exec == nullptr ? 0 : exec->id;
}

uint64_t NodeIdOf(CUgraphNode handle) {
  const auto* node = HandleCast<GraphNode>(handle, kNodeMagic);
  return node == nullptr ? 0 : node->id;
}

void ForEachDevice(void (*visit)(const DeviceInfo*, void*), void* data) {
  for (const Device& device : Devices()) {
    DeviceInfo info{.ordinal = static_cast<uint32_t>(device.ordinal),
                    .name = device.name.c_str(),
                    .total_bytes = device.total_bytes,
                    .multiprocessors = 108};
    memcpy(info.uuid, device.uuid.bytes, sizeof(info.uuid));
    visit(&info, data);
  }
}

void ForEachContext(void (*visit)(const ContextInfo*, void*), void* data) {
  for (const ContextInfo& info : AllContexts()) visit(&info, data);
}

void ForEachStream(void (*visit)(const StreamInfo*, void*), void* data) {
  for (const StreamInfo& info : AllStreams()) visit(&info, data);
}

void RuntimeEnter(ApiFrame* frame) {
  frame->domain = kDomainRuntime;
  EnterFrame(frame, g_callback_tools[kDomainRuntime][frame->cbid].load(std::memory_order_relaxed));
}

void RuntimeExit(ApiFrame* frame) { ExitFrame(frame, frame->return_code, frame->return_value); }

CUfunction AsFunction(const void* candidate) {
  return reinterpret_cast<CUfunction>(ToFunction(candidate));
}

CUfunction DefaultKernel(const char* name) {
  return reinterpret_cast<CUfunction>(RegisterKernel(name, DefaultKernelNs()));
}

constexpr DriverTable kTable = {
    .version = kTableVersion,
    .usable = Usable,
    .is_forked_child = IsForkedChild,
    .attach = AttachTool,
    .set_callback = SetCallback,
    .set_device_ops = SetDeviceOps,
    .set_serialize = SetSerialized,
    .claim_subscriber = ClaimSubscriber,
    .release_subscriber = ReleaseSubscriber,
    .next_correlation_id = NextCorrelationId,
    .context_id = ContextId,
    .context_device = ContextDevice,
    .stream_id = StreamId,
    .graph_id = GraphIdOf,
    .graph_exec_id = ExecIdOf,
    .graph_node_id = NodeIdOf,
    .graphs_alive = GraphsAlive,
    .for_each_device = ForEachDevice,
    .for_each_context = ForEachContext,
    .for_each_stream = ForEachStream,
    .runtime_enter = RuntimeEnter,
    .runtime_exit = RuntimeExit,
    .as_function = AsFunction,
    .default_kernel = DefaultKernel,
    .function_name = SymbolOf,
};

}  // namespace
}  // namespace stepagent::sim

namespace sim = stepagent::sim;

extern "C" const sim::DriverTable* stepagent_sim_driver_table(uint32_t version) {
  return version == sim::kTableVersion ? &sim::kTable : nullptr;
}

extern "C" void* stepagent_sim_register_kernel(const char* name, uint64_t duration_ns) {
  if (name == nullptr) return nullptr;
  const bool is_endless = duration_ns >= static_cast<uint64_t>(sim::kNever);
  return sim::RegisterKernel(name, is_endless ? sim::kNever : static_cast<int64_t>(duration_ns));
}

extern "C" void stepagent_sim_next_duration_ns(uint64_t duration_ns) {
  sim::SetNextDuration(duration_ns);
}

extern "C" uint64_t stepagent_sim_counter(const char* name) {
  const bool shares_file = !sim::SettingText("STATS").empty();
  return sim::CounterValue(name) + (shares_file ? 0 : sim::ToolCounter(name));
}

extern "C" int stepagent_sim_write_stats(const char* path) {
  return path == nullptr ? EINVAL : sim::WriteCounters(path);
}

extern "C" uint64_t stepagent_sim_pending_ops(void) { return sim::PendingOps(); }
