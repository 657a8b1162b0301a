// Exported functions: streams and events.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include <algorithm>

#include "cuda/engine.h"
#include "cuda/graph.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

// A host wait, told to tools as a SYNC record of its kind.
struct WaitSpan {
  int64_t start_stamp = ToolsWantOps() ? HostStampNs() : 0;
  void Announce(SyncType type, const Context& context, uint32_t stream_id, uint32_t event_id,
                int result) const {
    // A wait that nobody listened to when it began has no begin to tell.
    if (!ToolsWantOps() || start_stamp == 0) return;
    AnnounceSync({.type = type,
                  .correlation_id = CurrentCorrelationId(),
                  .context_id = context.uid,
                  .stream_id = stream_id,
                  .event_id = event_id,
                  .result = result,
                  .start_stamp = start_stamp,
                  .end_stamp = HostStampNs()});
  }
};
constexpr uint32_t kNoId = 0xFFFFFFFFu;

CUresult SynchronizeStream(CUstream handle, bool per_thread) {
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(handle, per_thread, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  Add(Counters().syncs);
  const WaitSpan span;
  int64_t ready = 0;
  {
    const std::lock_guard lock(EngineLock());
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    ready = ReadyLocked(*stream);
  }
  SleepUntil(ready);
  span.Announce(SyncType::kStream, *stream->context, stream->id, kNoId, 0);
  AnnounceSynchronized(CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED,
                       Describe(*stream->context).handle, handle);
  return CUDA_SUCCESS;
}

CUresult QueryStream(CUstream handle, bool per_thread) {
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(handle, per_thread, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  const std::lock_guard lock(EngineLock());
  return ReadyLocked(*stream) <= MonotonicNs() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult WaitEvent(CUstream stream_handle, CUevent event_handle, bool per_thread) {
  auto* event = HandleCast<Event>(event_handle, kEventMagic);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(stream_handle, per_thread, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (CaptureWaitEvent(*stream, *event)) return CUDA_SUCCESS;
  const WaitSpan span;
  {
    const std::lock_guard lock(EngineLock());
    if (event->is_recorded) {
      stream->ready_ns = std::max(stream->ready_ns, event->at_ns);
      NoteReadyLocked(*stream);
    }
  }
  span.Announce(SyncType::kStreamWaitEvent, *stream->context, stream->id, event->id, 0);
  return CUDA_SUCCESS;
}

CUresult NewEvent(CUevent* handle, unsigned flags) {
  static std::atomic<uint32_t> next_id{1};
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* event = new Event;
  event->context = CurrentContext();
  event->id = next_id.fetch_add(1, std::memory_order_relaxed);
  event->flags = flags;
  *handle = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

// The object is kept (64 bytes): captures and late users may still name it.
CUresult DestroyEvent(CUevent handle) {
  auto* event = HandleCast<Event>(handle, kEventMagic);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  event->magic = 0;
  return CUDA_SUCCESS;
}

CUresult RecordEvent(CUevent event_handle, CUstream stream_handle, bool per_thread) {
  auto* event = HandleCast<Event>(event_handle, kEventMagic);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(stream_handle, per_thread, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (CaptureRecordEvent(*stream, *event)) return CUDA_SUCCESS;
  int64_t at_ns = 0;
  {
    const std::lock_guard lock(EngineLock());
    event->capture = nullptr;
    event->is_recorded = true;
    event->at_ns = at_ns = std::max(ReadyLocked(*stream), MonotonicNs());
  }
  if (ToolsWantOps()) {
    AnnounceEvent({.correlation_id = CurrentCorrelationId(),
                   .context_id = stream->context->uid,
                   .stream_id = stream->id,
                   .event_id = event->id,
                   .device_id = static_cast<uint32_t>(stream->context->device->ordinal),
                   .at_ns = at_ns});
  }
  return CUDA_SUCCESS;
}

CUresult QueryEvent(CUevent handle) {
  const auto* event = HandleCast<Event>(handle, kEventMagic);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return !event->is_recorded || event->at_ns <= MonotonicNs() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult SynchronizeEvent(CUevent handle) {
  const auto* event = HandleCast<Event>(handle, kEventMagic);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  Add(Counters().syncs);
  const WaitSpan span;
  if (event->is_recorded) SleepUntil(event->at_ns);
  span.Announce(SyncType::kEvent, *event->context, kNoId, event->id, 0);
  return CUDA_SUCCESS;
}

CUresult ElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  const auto* start = HandleCast<Event>(start_handle, kEventMagic);
  const auto* end = HandleCast<Event>(end_handle, kEventMagic);
  if (start == nullptr || end == nullptr || !start->is_recorded || !end->is_recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (std::max(start->at_ns, end->at_ns) > MonotonicNs()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(end->at_ns - start->at_ns) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult LaunchHost(CUstream handle, CUhostFn call, void* data, bool per_thread) {
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(handle, per_thread, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  DeviceOp op{};
  op.type = OpType::kHost;
  const Effect effect{.kind = Effect::Kind::kHostCall, .call = call, .call_data = data};
  int64_t end_ns = 0;
  return SubmitOp(*stream, op, 0, effect, &end_ns);
}

struct StreamCallback {
  CUstreamCallback call;
  CUstream stream;
  void* data;
};
void RunStreamCallback(void* data) {
  auto* callback = static_cast<StreamCallback*>(data);
  callback->call(callback->stream, CUDA_SUCCESS, callback->data);
  delete callback;
}

}  // namespace

SIM_API(cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags),
        return NewStream(Flags, 0, phStream);)
SIM_API(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
        (phStream, flags, priority),
        return NewStream(flags, std::clamp(priority, -5, 0), phStream);)
SIM_API(cuStreamDestroy, (CUstream hStream), (hStream), return DestroyStream(hStream);)
SIM_API(cuStreamDestroy_v2, (CUstream hStream), (hStream), return DestroyStream(hStream);)
SIM_STREAM_API(cuStreamSynchronize, (CUstream hStream), (hStream),
               return SynchronizeStream(hStream, per_thread);)
SIM_STREAM_API(cuStreamQuery, (CUstream hStream), (hStream),
               return QueryStream(hStream, per_thread);)
SIM_STREAM_API(cuStreamWaitEvent, (CUstream hStream, CUevent hEvent, unsigned int Flags),
               (hStream, hEvent, Flags), return WaitEvent(hStream, hEvent, per_thread);)
SIM_STREAM_API(cuStreamGetPriority, (CUstream hStream, int* priority), (hStream, priority), {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(hStream, per_thread, &stream);
  if (result == CUDA_SUCCESS) *priority = stream->priority;
  return result;
})
SIM_STREAM_API(cuStreamGetFlags, (CUstream hStream, unsigned int* flags), (hStream, flags), {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(hStream, per_thread, &stream);
  if (result == CUDA_SUCCESS) *flags = stream->flags;
  return result;
})
#if CUDA_VERSION >= 12000
SIM_STREAM_API(cuStreamGetId, (CUstream hStream, unsigned long long* streamId), (hStream, streamId),
               {
                 Stream* stream = nullptr;
                 const CUresult result = ResolveStream(hStream, per_thread, &stream);
                 if (result == CUDA_SUCCESS) *streamId = stream->id;
                 return result;
               })
#endif
SIM_STREAM_API(cuStreamGetCtx, (CUstream hStream, CUcontext* pctx), (hStream, pctx), {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(hStream, per_thread, &stream);
  if (result == CUDA_SUCCESS) *pctx = Describe(*stream->context).handle;
  return result;
})
SIM_STREAM_API(cuLaunchHostFunc, (CUstream hStream, CUhostFn fn, void* userData),
               (hStream, fn, userData), return LaunchHost(hStream, fn, userData, per_thread);)
SIM_STREAM_API(cuStreamAddCallback,
               (CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags),
               (hStream, callback, userData, flags), {
                 auto* item = new StreamCallback{callback, hStream, userData};
                 return LaunchHost(hStream, RunStreamCallback, item, per_thread);
               })

SIM_API(cuEventCreate, (CUevent * phEvent, unsigned int Flags), (phEvent, Flags),
        return NewEvent(phEvent, Flags);)
SIM_API(cuEventDestroy, (CUevent hEvent), (hEvent), return DestroyEvent(hEvent);)
SIM_API(cuEventDestroy_v2, (CUevent hEvent), (hEvent), return DestroyEvent(hEvent);)
SIM_STREAM_API(cuEventRecord, (CUevent hEvent, CUstream hStream), (hEvent, hStream),
               return RecordEvent(hEvent, hStream, per_thread);)
SIM_STREAM_API(cuEventRecordWithFlags, (CUevent hEvent, CUstream hStream, unsigned int flags),
               (hEvent, hStream, flags), return RecordEvent(hEvent, hStream, per_thread);)
SIM_API(cuEventQuery, (CUevent hEvent), (hEvent), return QueryEvent(hEvent);)
SIM_API(cuEventSynchronize, (CUevent hEvent), (hEvent), return SynchronizeEvent(hEvent);)
SIM_API(cuEventElapsedTime, (float* pMilliseconds, CUevent hStart, CUevent hEnd),
        (pMilliseconds, hStart, hEnd), return ElapsedTime(pMilliseconds, hStart, hEnd);)
#if CUDA_VERSION >= 12080
SIM_API(cuEventElapsedTime_v2, (float* pMilliseconds, CUevent hStart, CUevent hEnd),
        (pMilliseconds, hStart, hEnd), return ElapsedTime(pMilliseconds, hStart, hEnd);)
#endif
