#include "cuda/trace.h"

#include <cstdio>
#include <cstring>
#include <mutex>

#include "common/clock.h"
#include "common/settings.h"
#include "cuda/engine.h"

namespace stepagent::sim {

LiveFlag* g_live = nullptr;
std::atomic<uint8_t> g_callback_tools[kDomainCount][kMaxCallbackId];
std::atomic<uint8_t> g_op_tools{0};

namespace {

std::atomic<const ToolOps*> g_tools[kMaxTools];
thread_local ApiFrame* t_frame = nullptr;

struct Subscriber {
  std::mutex mutex;
  const void* owner = nullptr;
  char name[64] = "";
};
Subscriber& TheSubscriber() {
  static auto* subscriber = new Subscriber;
  return *subscriber;
}

template <class F>
void ForEachTool(uint8_t tools, F&& f) {
  for (int slot = 0; tools != 0; ++slot, tools >>= 1) {
    if ((tools & 1) == 0) continue;
    // Pairs with the release in AttachTool.
    const ToolOps* ops = g_tools[slot].load(std::memory_order_acquire);
    if (ops != nullptr) f(slot, ops);
  }
}

template <class F>
void ForOpTools(F&& f) {
  ForEachTool(g_op_tools.load(std::memory_order_relaxed), [&](int, const ToolOps* ops) { f(ops); });
}

}  // namespace

DriverCounters& Counters() {
  static auto* counters = new DriverCounters;
  return *counters;
}

CUresult RefuseCall(const char* function) {
  if (g_live == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (SettingText("FORK", "abort") == "error") return CUDA_ERROR_NOT_INITIALIZED;
  Violation("%s called in a forked child of a process that had initialised CUDA", function);
}

int AttachTool(const ToolOps* ops) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (int slot = 0; slot < kMaxTools; ++slot) {
    if (g_tools[slot].load(std::memory_order_relaxed) != nullptr) continue;
    g_tools[slot].store(ops, std::memory_order_release);
    return slot;
  }
  return -1;
}

bool HasTools() { return g_tools[0].load(std::memory_order_relaxed) != nullptr; }

uint64_t ToolCounter(const char* name) {
  uint64_t sum = 0;
  ForEachTool((1 << kMaxTools) - 1, [&](int, const ToolOps* ops) { sum += ops->counter(name); });
  return sum;
}

void SetCallback(int slot, uint32_t domain, uint32_t cbid, bool on) {
  if (domain >= kDomainCount || cbid >= kMaxCallbackId) return;
  const auto bit = static_cast<uint8_t>(1u << slot);
  if (on) {
    g_callback_tools[domain][cbid].fetch_or(bit, std::memory_order_relaxed);
  } else {
    g_callback_tools[domain][cbid].fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
  }
}

void SetDeviceOps(int slot, bool on) {
  const auto bit = static_cast<uint8_t>(1u << slot);
  if (on) {
    g_op_tools.fetch_or(bit, std::memory_order_relaxed);
  } else {
    g_op_tools.fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed);
  }
}

uint32_t NextCorrelationId() {
  static std::atomic<uint32_t> next{static_cast<uint32_t>(SettingInt("CORRELATION_START", 1))};
  uint32_t id = next.fetch_add(1, std::memory_order_relaxed);
  while (id == 0) id = next.fetch_add(1, std::memory_order_relaxed);
  return id;
}

uint32_t CurrentCorrelationId() {
  if (t_frame != nullptr) return t_frame->correlation_id;
  return ToolsWantOps() ? NextCorrelationId() : 0;
}

void EnterFrame(ApiFrame* frame, uint8_t tools) {
  frame->outer = t_frame;
  // A driver call inside a runtime call has the runtime call's id.
  frame->correlation_id =
      frame->outer != nullptr ? frame->outer->correlation_id : NextCorrelationId();
  t_frame = frame;
  if (tools == 0) return;
  if (const Context* context = CurrentContext(); context != nullptr) {
    frame->context = reinterpret_cast<CUcontext>(const_cast<Context*>(context));
    frame->context_uid = context->uid;
  }
  ForEachTool(tools, [&](int slot, const ToolOps* ops) {
    frame->entered_tools |= 1u << slot;
    ops->api_enter(slot, frame);
  });
}

void ExitFrame(ApiFrame* frame, int result, void* return_value) {
  frame->return_value = return_value;
  frame->return_code = result;
  if (frame->entered_tools != 0) {
    if (const Context* context = CurrentContext(); context != nullptr) {
      frame->context = reinterpret_cast<CUcontext>(const_cast<Context*>(context));
      frame->context_uid = context->uid;
    }
    ForEachTool(static_cast<uint8_t>(frame->entered_tools),
                [&](int slot, const ToolOps* ops) { ops->api_exit(slot, frame); });
  }
  t_frame = frame->outer;
}

void AnnounceOp(const DeviceOp& op) {
  ForOpTools([&](const ToolOps* ops) { ops->device_op(&op); });
}

void AnnounceGraph(const DeviceOp& graph, const DeviceOp* nodes, size_t count) {
  ForOpTools([&](const ToolOps* ops) { ops->graph_launch(&graph, nodes, count); });
}

void AnnounceSync(const SyncOp& op) {
  ForOpTools([&](const ToolOps* ops) { ops->sync(&op); });
}

void AnnounceMemory(const MemoryOp& op) {
  ForOpTools([&](const ToolOps* ops) { ops->memory(&op); });
}

void AnnounceEvent(const EventOp& op) {
  ForOpTools([&](const ToolOps* ops) { ops->event_recorded(&op); });
}

void AnnounceContext(const ContextInfo& info) {
  ForOpTools([&](const ToolOps* ops) { ops->context_created(&info); });
}

void AnnounceStream(const StreamInfo& info) {
  ForOpTools([&](const ToolOps* ops) { ops->stream_created(&info); });
}

void AnnounceResource(uint32_t cbid, const ResourceEvent& event) {
  ForEachTool(g_callback_tools[kDomainResource][cbid].load(std::memory_order_relaxed),
              [&](int, const ToolOps* ops) { ops->resource(cbid, &event); });
}

void AnnounceSynchronized(uint32_t cbid, CUcontext context, CUstream stream) {
  ForEachTool(g_callback_tools[kDomainSynchronize][cbid].load(std::memory_order_relaxed),
              [&](int, const ToolOps* ops) { ops->synchronized(cbid, context, stream); });
}

bool ClaimSubscriber(const void* owner, const char* name, char* holder, size_t holder_bytes) {
  Subscriber& subscriber = TheSubscriber();
  const std::lock_guard lock(subscriber.mutex);
  if (subscriber.owner != nullptr) {
    if (holder != nullptr && holder_bytes > 0)
      snprintf(holder, holder_bytes, "%s", subscriber.name);
    return false;
  }
  subscriber.owner = owner;
  snprintf(subscriber.name, sizeof(subscriber.name), "%s", name == nullptr ? "" : name);
  return true;
}

void ReleaseSubscriber(const void* owner) {
  Subscriber& subscriber = TheSubscriber();
  const std::lock_guard lock(subscriber.mutex);
  if (subscriber.owner == owner) subscriber.owner = nullptr;
}

}  // namespace stepagent::sim
