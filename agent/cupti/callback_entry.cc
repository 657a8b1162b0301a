// HOT PATHS A and B: see callback_entry.h.
#include "agent/cupti/callback_entry.h"

#include <atomic>

#include "agent/cupti/api_call_handler.h"
#include "agent/cupti/callback_catalog.h"

namespace stepagent::cupti {
namespace {

constinit std::atomic<BufferPool*> g_pool{nullptr};
constinit std::atomic<int> g_fatal{0};

// CUpti_StateData is newer than the oldest headers: its first field is the result.
void OnState(uint32_t cbid, const void* data) noexcept {
  if (cbid != kStateFatalError || data == nullptr) return;
  g_fatal.store(*static_cast<const int*>(data), std::memory_order_relaxed);
}

}  // namespace

void SetCallbackPool(BufferPool* pool) noexcept {
  g_pool.store(pool, std::memory_order_release);  // pairs with the buffer callbacks
}
int FatalResult() noexcept { return g_fatal.load(std::memory_order_relaxed); }
void ClearFatalResult() noexcept { g_fatal.store(0, std::memory_order_relaxed); }

void CUPTIAPI OnCallback(void* /*user*/, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                         const void* data) noexcept {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER) {
      ApiCallHandler::Enter(domain, cbid, data);
    } else {
      ApiCallHandler::Exit(domain, cbid, data);
    }
  } else if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    if (cbid == kGraphNodeCreated) ApiCallHandler::MarkCaptured();
  } else if (static_cast<uint32_t>(domain) == kDomainState) {
    OnState(cbid, data);
  }
}

void CUPTIAPI OnBufferRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) noexcept {
  *max_records = 0;  // as many as fit
  g_pool.load(std::memory_order_acquire)->Request(buffer, bytes);
}

void CUPTIAPI OnBufferCompleted(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer,
                                size_t /*bytes*/, size_t valid_bytes) noexcept {
  g_pool.load(std::memory_order_acquire)->Complete(buffer, valid_bytes);
}

}  // namespace stepagent::cupti
