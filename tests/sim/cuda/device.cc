// Devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_set>

#include "common/settings.h"
#include "cuda/engine.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

constexpr uint32_t kNullStreamId = 7;  // what real contexts have
constexpr uint32_t kFirstStreamId = 13;

std::set<Context*>& LiveContexts() {
  static auto* contexts = new std::set<Context*>;
  return *contexts;
}

Device MakeDevice(int ordinal) {
  Device device;
  device.ordinal = ordinal;
  device.name = SettingText("DEVICE_NAME", "Simulated GPU");
  device.total_bytes = static_cast<size_t>(SettingInt("DEVICE_BYTES", int64_t{8} << 30));
  memcpy(device.uuid.bytes, "stepagent-sim", 13);
  device.uuid.bytes[14] = static_cast<char>(0x40);
  device.uuid.bytes[15] = static_cast<char>(ordinal);
  return device;
}

}  // namespace

std::mutex& EngineLock() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::vector<Device>& Devices() {
  static auto* devices = [] {
    auto* made = new std::vector<Device>;
    const int64_t count = SettingInt("DEVICES", 1);
    for (int i = 0; i < count; ++i) made->push_back(MakeDevice(i));
    return made;
  }();
  return *devices;
}

Device* DeviceAt(CUdevice device) {
  auto& devices = Devices();
  return device >= 0 && device < static_cast<int>(devices.size()) ? &devices[device] : nullptr;
}

std::vector<Context*>& ContextStack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Context* CurrentContext() {
  const auto& stack = ContextStack();
  return stack.empty() ? nullptr : stack.back();
}

Context* ToContext(CUcontext handle) { return HandleCast<Context>(handle, kContextMagic); }

ContextInfo Describe(const Context& context) {
  return {.handle = reinterpret_cast<CUcontext>(const_cast<Context*>(&context)),
          .context_id = context.uid,
          .device_id = static_cast<uint32_t>(context.device->ordinal),
          .null_stream_id = context.legacy.id};
}

Context* NewContext(Device* device, unsigned flags) {
  static std::atomic<uint32_t> next_uid{1};
  auto* context = new Context;
  context->uid = next_uid.fetch_add(1, std::memory_order_relaxed);
  context->device = device;
  context->flags = flags;
  context->next_stream_id = kFirstStreamId;
  context->legacy.context = context;
  context->legacy.id = kNullStreamId;
  context->legacy.is_legacy = true;
  {
    const std::lock_guard lock(EngineLock());
    LiveContexts().insert(context);
  }
  AnnounceContext(Describe(*context));
  ResourceEvent event{};
  event.context = reinterpret_cast<CUcontext>(context);
  AnnounceResource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, event);
  return context;
}

// The object itself is kept (a few hundred bytes): a program that uses a destroyed handle gets an
// error instead of undefined behaviour.
void DestroyContext(Context* context) {
  ResourceEvent event{};
  event.context = reinterpret_cast<CUcontext>(context);
  AnnounceResource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, event);
  int64_t ready = 0;
  {
    const std::lock_guard lock(EngineLock());
    ready = context->all_ready_ns;
  }
  SleepUntil(ready);
  const std::lock_guard lock(EngineLock());
  LiveContexts().erase(context);
  for (Stream* stream : context->streams) stream->magic = 0;
  context->magic = 0;
}

std::vector<ContextInfo> AllContexts() {
  const std::lock_guard lock(EngineLock());
  std::vector<ContextInfo> infos;
  for (const Context* context : LiveContexts()) infos.push_back(Describe(*context));
  return infos;
}

std::vector<StreamInfo> AllStreams() {
  const std::lock_guard lock(EngineLock());
  std::vector<StreamInfo> infos;
  for (const Context* context : LiveContexts()) {
    for (Stream* stream : context->streams) {
      infos.push_back({.handle = reinterpret_cast<CUstream>(stream),
                       .context_handle = Describe(*context).handle,
                       .context_id = context->uid,
                       .stream_id = stream->id,
                       .priority = stream->priority,
                       .flags = stream->flags});
    }
  }
  return infos;
}

uint64_t PendingOps() {
  const std::lock_guard lock(EngineLock());
  const int64_t now = MonotonicNs();
  uint64_t count = 0;
  auto add = [&](const Stream& stream) {
    count += static_cast<uint64_t>(std::count_if(stream.in_flight.begin(), stream.in_flight.end(),
                                                 [&](int64_t end) { return end > now; }));
  };
  for (const Context* context : LiveContexts()) {
    add(context->legacy);
    for (const Stream* stream : context->streams) add(*stream);
  }
  return count;
}

const char* Intern(const char* text) {
  static auto* mutex = new std::mutex;
  static auto* names = new std::unordered_set<std::string>;
  const std::lock_guard lock(*mutex);
  return names->emplace(text).first->c_str();
}

}  // namespace stepagent::sim
