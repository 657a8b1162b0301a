#pragma once
// HOT PATHS A and B begin here: the functions CUPTI is given.
//
// Purpose: noexcept shims from the vendor's callbacks to the handlers; nothing else.
// Thread rule: any thread, also under CUPTI's locks. Failure rule: cannot fail.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

#include <cstdint>

#include "agent/cupti/buffer_pool.h"

namespace stepagent::cupti {

// The pool that buffer callbacks use; never null once buffers were registered. Set before.
void SetCallbackPool(BufferPool* pool) noexcept;
// The result code with which CUPTI said that it stopped for good (state domain), 0 none.
[[nodiscard]] int FatalResult() noexcept;
void ClearFatalResult() noexcept;

void CUPTIAPI OnCallback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                         const void* data) noexcept;
void CUPTIAPI OnBufferRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) noexcept;
void CUPTIAPI OnBufferCompleted(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                size_t valid_bytes) noexcept;

}  // namespace stepagent::cupti
