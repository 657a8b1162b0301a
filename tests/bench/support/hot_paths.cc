#include "tests/bench/support/hot_paths.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <nvtx3/nvToolsExt.h>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/cupti/buffer_pool.h"
#include "agent/cupti/callback_catalog.h"
#include "agent/cupti/callback_entry.h"
#include "agent/nvtx/nvtx_entry.h"
#include "tests/bench/support/nvtx_untouched.h"

namespace stepagent::bench {
namespace {

constexpr uint32_t kLaunch = 307;  // cuLaunchKernel's callback id
constexpr uint32_t kDriver = CUPTI_CB_DOMAIN_DRIVER_API;

nvtxDomainHandle_t g_domain = nullptr;
nvtxEventAttributes_t g_event{};
cupti::BufferPool* g_pool = nullptr;

// Enough of a library for the catalogue.
CUptiResult CallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  *name = nullptr;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid > kLaunch) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = cbid == kLaunch ? "cuLaunchKernel" : "cuOther";
  return CUPTI_SUCCESS;
}

bool SetUpNvtx() {
  void* table = reinterpret_cast<void*>(&NVTX_VERSIONED_IDENTIFIER(nvtxGetExportTable));
  if (nvtx::Attach(table) != 1) return false;
  g_domain = nvtxDomainCreateA("bench");
  g_event.version = NVTX_VERSION;
  g_event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  g_event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  g_event.message.registered = nvtxDomainRegisterStringA(g_domain, "forward");
  return true;
}

}  // namespace

bool SetUpHotPaths() {
  if (!core::NameTable::Init() || !core::MapPhaseWords()) return false;
  core::HostClock::Start();
  core::HostClock::Calibrate(true);
  core::Gate().Configure({});
  cupti::ApiTable api;
  api.GetCallbackName = CallbackName;
  cupti::CallbackCatalog().Build(api);
  static cupti::BufferPool pool;
  if (!pool.Map()) return false;
  pool.Begin(nullptr);
  g_pool = &pool;
  cupti::SetCallbackPool(&pool);
  UntouchedPair("first");  // its client looks for a tool once
  return SetUpNvtx();
}

[[gnu::noinline]] void AppendLaunch(uint32_t number) {
  core::Append(core::RecordKind::kCall, core::CallClass::kLaunch, [=](core::Record* record) {
    record->end_ticks = 0;
    record->name = number & 255;
    record->domain = kDriver;
    record->correlation = number;
    record->category = record->color = 0;
    record->return_value = 0;
    record->stack = 0;
    record->cbid = kLaunch;
    record->begin_ticks = core::HostClock::Ticks();
  });
}

void EnterAndExitLaunch(uint32_t number) {
  static constexpr CUresult kSuccess = CUDA_SUCCESS;
  CUpti_CallbackData data{};
  data.correlationId = number;
  data.callbackSite = CUPTI_API_ENTER;
  cupti::OnCallback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, kLaunch, &data);
  data.callbackSite = CUPTI_API_EXIT;
  data.functionReturnValue = const_cast<CUresult*>(&kSuccess);
  cupti::OnCallback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, kLaunch, &data);
}

void Pair(const char* name) {
  nvtxRangePushA(name);
  nvtxRangePop();
}

void RegisteredPair() {
  nvtxDomainRangePushEx(g_domain, &g_event);
  nvtxDomainRangePop(g_domain);
}

void UntouchedPair(const char* name) { StepagentUntouchedPair(name); }

void RequestAndComplete() {
  uint8_t* buffer = nullptr;
  size_t bytes = 0, records = 0;
  cupti::OnBufferRequested(&buffer, &bytes, &records);
  cupti::OnBufferCompleted(nullptr, 0, buffer, bytes, 1024);
  g_pool->TakeCompleted([](const cupti::BufferPool::Completed&) {});
}

}  // namespace stepagent::bench
