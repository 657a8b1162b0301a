// Exported functions: activity buffers, flushing, attributes, the iterator.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <mutex>

#include "common/clock.h"
#include "common/settings.h"
#include "cupti/buffers.h"
#include "cupti/state.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

// What a value of an attribute is; sizes and defaults as 13.0's header states them.
struct Attribute {
  uint32_t id;
  uint32_t bytes;
  uint64_t value;
};
Attribute g_attributes[] = {
    {0, sizeof(size_t), 3200000},
    {1, sizeof(size_t), 8u << 20},
    {2, sizeof(size_t), 250},
    {3, sizeof(size_t), 25000},
    {4, sizeof(size_t), 250},
    {5, 1, 0},
    {6, sizeof(size_t), 3},
    {7, sizeof(size_t), 3},
    {8, 1, 0},
    {9, 1, 0},
    {10, sizeof(size_t), 16u << 20},
};
constexpr uint32_t kPerThreadAttribute = 9;
std::mutex g_attribute_mutex;

Attribute* FindAttribute(uint32_t id) {
  for (Attribute& attribute : g_attributes) {
    if (attribute.id == id) return &attribute;
  }
  return nullptr;
}

// 13 starts with per-thread buffers.
void SetUpOnce() {
  static const bool is_set_up = [] {
    SetPerThreadBuffers(ThePersonality().per_thread_buffers);
    FindAttribute(kPerThreadAttribute)->value = ThePersonality().per_thread_buffers ? 1 : 0;
    return true;
  }();
  static_cast<void>(is_set_up);
}

// A flush in a forked child waits for a worker that is not there.
void HangInForkedChild() {
  if (Driver() == nullptr || !Driver()->is_forked_child()) return;
  LogText("cuptiActivityFlushAll hangs in a forked child");
  for (;;) pause();
}

CUptiResult Flush(uint32_t flag) {
  HangInForkedChild();
  if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
  static const int64_t cost_ns = SettingInt("FLUSH", 0);
  static const bool hangs = SettingFlag("FLUSH_HANGS", false);
  while (hangs) pause();
  if (cost_ns > 0) SleepUntil(MonotonicNs() + cost_ns);
  const int64_t start_stamp = HostStampNs();
  FlushBuffers((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  EncodedRecord record;
  if (EncodeOverhead(kOverheadFlush, start_stamp, HostStampNs(), &record)) WriteRecord(record);
  return CUPTI_SUCCESS;
}

// Works without a driver, and on hostile contents: only kinds this generation knows have a size.
CUptiResult NextRecord(uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  size_t offset = 0;
  if (*record != nullptr) {
    const auto* current = reinterpret_cast<const uint8_t*>(*record);
    if (current < buffer || current >= buffer + valid_bytes) return CUPTI_ERROR_INVALID_PARAMETER;
    uint32_t kind = 0;
    memcpy(&kind, current, sizeof(kind));
    if (RecordBytes(kind) == 0) return static_cast<CUptiResult>(ThePersonality().unknown_kind_code);
    offset = static_cast<size_t>(current - buffer) + RecordBytes(kind);
  }
  if (offset + sizeof(uint32_t) > valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  uint32_t kind = 0;
  memcpy(&kind, buffer + offset, sizeof(kind));
  const uint16_t bytes = RecordBytes(kind);
  if (bytes == 0) return static_cast<CUptiResult>(ThePersonality().unknown_kind_code);
  if (offset + bytes > valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + offset);
  return CUPTI_SUCCESS;
}

std::atomic<CUpti_TimestampCallbackFunc> g_timestamp_callback{nullptr};

}  // namespace

SIM_CUPTI(cuptiActivityRegisterCallbacks,
          (CUpti_BuffersCallbackRequestFunc funcBufferRequested,
           CUpti_BuffersCallbackCompleteFunc funcBufferCompleted),
          {
            if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            // Measured: without any driver library this call succeeds.
            if (Link() == DriverState::kNoDriver) return CUPTI_SUCCESS;
            if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
            SetUpOnce();
            RegisterBufferCallbacks(funcBufferRequested, funcBufferCompleted);
            return CUPTI_SUCCESS;
          })

SIM_CUPTI(cuptiActivityFlushAll, (uint32_t flag), return Flush(flag);)
SIM_CUPTI(cuptiActivityFlush, (CUcontext, uint32_t, uint32_t flag), return Flush(flag);)
SIM_CUPTI(cuptiActivityFlushPeriod, (uint32_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableLatencyTimestamps, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableLaunchAttributes, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableDeviceGraph, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableAllocationSource, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableAllSyncRecords, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableCudaEventDeviceTimestamps, (uint8_t), return RequireDriver();)
SIM_CUPTI(cuptiActivityEnableHWTrace, (uint8_t), {
  const CUptiResult result = RequireDriver();
  // Not on the simulated device's architecture.
  return result != CUPTI_SUCCESS ? result : CUPTI_ERROR_NOT_SUPPORTED;
})

SIM_CUPTI(cuptiActivityGetNumDroppedRecords, (CUcontext, uint32_t, size_t* dropped), {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (Link() != DriverState::kReady) {
    *dropped = 0;
    // Measured: 13.0 answers success without a driver.
    return ThePersonality().remembers_errors ? RequireDriver() : CUPTI_SUCCESS;
  }
  *dropped = TakeDroppedCount();
  return CUPTI_SUCCESS;
})

SIM_CUPTI_PURE(cuptiActivityGetNextRecord,
               (uint8_t * buffer, size_t validBufferSizeBytes, CUpti_Activity** record),
               return NextRecord(buffer, validBufferSizeBytes, record);)

SIM_CUPTI(cuptiActivityGetAttribute, (CUpti_ActivityAttribute attr, size_t* valueSize, void* value),
          {
            if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
            SetUpOnce();
            const std::lock_guard lock(g_attribute_mutex);
            const Attribute* attribute = FindAttribute(attr);
            if (attribute == nullptr || valueSize == nullptr || value == nullptr) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            if (*valueSize < attribute->bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
            *valueSize = attribute->bytes;
            memcpy(value, &attribute->value, attribute->bytes);
            return CUPTI_SUCCESS;
          })

SIM_CUPTI(cuptiActivitySetAttribute, (CUpti_ActivityAttribute attr, size_t* valueSize, void* value),
          {
            if (const CUptiResult result = RequireDriver(); result != CUPTI_SUCCESS) return result;
            SetUpOnce();
            const std::lock_guard lock(g_attribute_mutex);
            Attribute* attribute = FindAttribute(attr);
            if (attribute == nullptr || valueSize == nullptr || value == nullptr) {
              return CUPTI_ERROR_INVALID_PARAMETER;
            }
            if (*valueSize < attribute->bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
            attribute->value = 0;
            memcpy(&attribute->value, value, attribute->bytes);
            if (attr == kPerThreadAttribute) SetPerThreadBuffers(attribute->value != 0);
            return CUPTI_SUCCESS;
          })

SIM_CUPTI(cuptiActivityPushExternalCorrelationId, (CUpti_ExternalCorrelationKind kind, uint64_t id),
          {
            const CUptiResult result = RequireDriver();
            return result != CUPTI_SUCCESS ? result : PushExternalId(kind, id);
          })
SIM_CUPTI(cuptiActivityPopExternalCorrelationId,
          (CUpti_ExternalCorrelationKind kind, uint64_t* lastId), {
            const CUptiResult result = RequireDriver();
            return result != CUPTI_SUCCESS ? result : PopExternalId(kind, lastId);
          })

// A second registration corrupts device stamps in the real library.
SIM_CUPTI(cuptiActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc funcTimestamp), {
  if (g_timestamp_callback.exchange(funcTimestamp) != nullptr) {
    Violation("a second timestamp callback was registered");
  }
  return RequireDriver();
})

// Everything stops and is forgotten; the next call initialises again.
SIM_CUPTI(cuptiFinalize, (void), {
  if (Driver() == nullptr) return CUPTI_SUCCESS;
  if (ThePersonality().finalize_crashes_with_graphs && Driver()->graphs_alive() > 0) {
    Violation("cuptiFinalize with %llu graphs alive crashes this generation",
              static_cast<unsigned long long>(Driver()->graphs_alive()));
  }
  DisableAllKinds();
  FlushBuffers(true);
  DropSubscription();
  ForgetBufferCallbacks();
  PoisonNames();
  return CUPTI_SUCCESS;
})
