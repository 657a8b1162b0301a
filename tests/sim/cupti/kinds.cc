// Which activity kinds are on, and the functions that switch them.
#include <sys/syscall.h>
#include <unistd.h>

#include <pthread.h>

#include "common/clock.h"
#include "common/settings.h"
#include "cupti/buffers.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

std::atomic<uint64_t> g_kinds{0};
std::atomic<bool> g_uses_system_thread_ids{false};
std::atomic<bool> g_was_enabled_once{false};

constexpr uint64_t Bit(uint32_t kind) { return uint64_t{1} << kind; }

// Kinds that the driver's frames serve; all others come from device operations.
bool IsApiKind(uint32_t kind) {
  return kind == CUPTI_ACTIVITY_KIND_DRIVER || kind == CUPTI_ACTIVITY_KIND_RUNTIME;
}

uint32_t DomainOf(uint32_t kind) {
  return kind == CUPTI_ACTIVITY_KIND_DRIVER ? kDomainDriver : kDomainRuntime;
}

void Publish(uint64_t kinds) {
  Driver()->set_device_ops(ToolSlot(), kinds != 0);
  Driver()->set_serialize((kinds & Bit(CUPTI_ACTIVITY_KIND_KERNEL)) != 0);
}

CUptiResult CheckKind(uint32_t kind) {
  if (kind == 0 || RecordBytes(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if ((ThePersonality().refused_kinds & Bit(kind)) != 0) return CUPTI_ERROR_INVALID_KIND;
  return CUPTI_SUCCESS;
}

CUptiResult Enable(uint32_t kind) {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) {
    // 11.x looks at the kind first.
    const bool is_11 = ThePersonality().api_version < 19;
    return is_11 && CheckKind(kind) != CUPTI_SUCCESS ? CUPTI_ERROR_INVALID_KIND : result;
  }
  if (const CUptiResult result = CheckKind(kind); result != CUPTI_SUCCESS) return result;
  const uint64_t both =
      Bit(CUPTI_ACTIVITY_KIND_KERNEL) | Bit(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  const uint64_t other = both & ~Bit(kind);
  if ((both & Bit(kind)) != 0 && (g_kinds.load(std::memory_order_relaxed) & other) != 0) {
    return CUPTI_ERROR_NOT_COMPATIBLE;
  }
  // The first enable sets up the device side; real: tens of milliseconds.
  if (!g_was_enabled_once.exchange(true, std::memory_order_relaxed)) {
    static const int64_t cost_ns = SettingInt("FIRST_ENABLE", 20000000);
    SleepUntil(MonotonicNs() + cost_ns);
  }
  static const int64_t each_ns = SettingInt("ENABLE", 0);
  if (each_ns > 0) SleepUntil(MonotonicNs() + each_ns);
  StartWorker();
  Publish(g_kinds.fetch_or(Bit(kind), std::memory_order_relaxed) | Bit(kind));
  if (IsApiKind(kind)) RecordApis(DomainOf(kind), true);
  return CUPTI_SUCCESS;
}

CUptiResult Disable(uint32_t kind) {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (const CUptiResult result = CheckKind(kind); result != CUPTI_SUCCESS) return result;
  if (IsApiKind(kind)) RecordApis(DomainOf(kind), false);
  Publish(g_kinds.fetch_and(~Bit(kind), std::memory_order_relaxed) & ~Bit(kind));
  return CUPTI_SUCCESS;
}

CUptiResult Dump(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_DEVICE:
      DumpDevices();
      return CUPTI_SUCCESS;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      DumpContexts();
      return CUPTI_SUCCESS;
    case CUPTI_ACTIVITY_KIND_STREAM:
      DumpStreams();
      return CUPTI_SUCCESS;
    default:
      return CUPTI_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

bool IsKindOn(uint32_t kind) { return (g_kinds.load(std::memory_order_relaxed) & Bit(kind)) != 0; }

void DisableAllKinds() {
  RecordApis(kDomainDriver, false);
  RecordApis(kDomainRuntime, false);
  g_kinds.store(0, std::memory_order_relaxed);
  g_was_enabled_once.store(false, std::memory_order_relaxed);
  if (Driver() != nullptr) Publish(0);
}

uint32_t CurrentThreadId() {
  if (g_uses_system_thread_ids.load(std::memory_order_relaxed)) {
    thread_local const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
    return tid;
  }
  return static_cast<uint32_t>(pthread_self());
}

}  // namespace stepagent::sim

using namespace stepagent::sim;  // NOLINT: exported C functions follow

SIM_CUPTI(cuptiActivityEnable, (CUpti_ActivityKind kind), return Enable(kind);)
SIM_CUPTI(cuptiActivityDisable, (CUpti_ActivityKind kind), return Disable(kind);)
SIM_CUPTI(cuptiActivityEnableContext, (CUcontext, CUpti_ActivityKind kind), return Enable(kind);)
SIM_CUPTI(cuptiActivityDisableContext, (CUcontext, CUpti_ActivityKind kind), return Disable(kind);)

SIM_CUPTI(cuptiActivityEnableAndDump, (CUpti_ActivityKind kind), {
  const CUptiResult result = Enable(kind);
  return result != CUPTI_SUCCESS ? result : Dump(kind);
})

SIM_CUPTI(cuptiActivityEnableDriverApi, (CUpti_CallbackId cbid, uint8_t enable), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (cbid == 0 || cbid >= kMaxCallbackId) return CUPTI_ERROR_INVALID_PARAMETER;
  RecordApi(kDomainDriver, cbid, enable != 0);
  return CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiActivityEnableRuntimeApi, (CUpti_CallbackId cbid, uint8_t enable), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  if (cbid == 0 || cbid >= kMaxCallbackId) return CUPTI_ERROR_INVALID_PARAMETER;
  RecordApi(kDomainRuntime, cbid, enable != 0);
  return CUPTI_SUCCESS;
})

SIM_CUPTI(cuptiSetThreadIdType, (CUpti_ActivityThreadIdType type), {
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  g_uses_system_thread_ids.store(type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM,
                                 std::memory_order_relaxed);
  return CUPTI_SUCCESS;
})
SIM_CUPTI(cuptiGetThreadIdType, (CUpti_ActivityThreadIdType * type), {
  if (type == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *type = g_uses_system_thread_ids.load(std::memory_order_relaxed)
              ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
              : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  return CUPTI_SUCCESS;
})
