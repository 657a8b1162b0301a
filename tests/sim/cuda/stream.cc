// Streams, and the placing of work on the device clock.
#include <algorithm>
#include <cstring>

#include "common/settings.h"
#include "cuda/engine.h"
#include "cuda/graph.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

std::atomic<bool> g_serialized{false};
thread_local uint64_t t_next_duration = 0;
thread_local bool t_has_next_duration = false;

struct PlacingSettings {
  // Submission to start on an idle device; 3 us is the order of real launches. LAG is on top.
  int64_t latency_ns = SettingInt("LATENCY", 3000) + SettingInt("LAG", 0);
  // A real launch waits when about a thousand are queued.
  size_t queue_depth = static_cast<size_t>(SettingInt("QUEUE_DEPTH", 1024));
};
const PlacingSettings& Placing() {
  static const PlacingSettings settings;
  return settings;
}

Stream* MakeStream(Context* context, unsigned flags, int priority) {
  auto* stream = new Stream;
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  const std::lock_guard lock(EngineLock());
  stream->id = context->next_stream_id++;
  context->streams.insert(stream);
  return stream;
}

void AnnounceNewStream(const Stream& stream) {
  AnnounceStream({.handle = reinterpret_cast<CUstream>(const_cast<Stream*>(&stream)),
                  .context_handle = Describe(*stream.context).handle,
                  .context_id = stream.context->uid,
                  .stream_id = stream.id,
                  .priority = stream.priority,
                  .flags = stream.flags,
                  .correlation_id = CurrentCorrelationId()});
  ResourceEvent event{};
  event.context = Describe(*stream.context).handle;
  event.stream = reinterpret_cast<CUstream>(const_cast<Stream*>(&stream));
  AnnounceResource(CUPTI_CBID_RESOURCE_STREAM_CREATED, event);
}

Stream* PerThreadStream(Context* context) {
  struct Entry {
    Context* context;
    Stream* stream;
  };
  thread_local std::vector<Entry> entries;
  for (const Entry& entry : entries) {
    if (entry.context == context) return entry.stream;
  }
  Stream* stream = MakeStream(context, CU_STREAM_DEFAULT, 0);
  entries.push_back({context, stream});
  AnnounceNewStream(*stream);
  return stream;
}

bool IsBlocking(const Stream& stream) { return (stream.flags & CU_STREAM_NON_BLOCKING) == 0; }

// Finished work leaves the queue; answers when there is room, or 0 if there is now.
int64_t RoomLocked(Stream& stream, int64_t now) {
  while (!stream.in_flight.empty() && stream.in_flight.front() <= now) stream.in_flight.pop_front();
  const size_t depth = Placing().queue_depth;
  if (depth == 0 || stream.in_flight.size() < depth) return 0;
  return stream.in_flight[stream.in_flight.size() - depth];
}

void FillOp(const Stream& stream, DeviceOp* op) {
  op->device_id = static_cast<uint32_t>(stream.context->device->ordinal);
  op->context_id = stream.context->uid;
  op->stream_id = stream.id;
}

}  // namespace

CUresult ResolveStream(CUstream handle, bool per_thread, Stream** stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    Context* context = CurrentContext();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const bool is_per_thread = handle == CU_STREAM_PER_THREAD || (handle == nullptr && per_thread);
    *stream = is_per_thread ? PerThreadStream(context) : &context->legacy;
    return CUDA_SUCCESS;
  }
  *stream = HandleCast<Stream>(handle, kStreamMagic);
  return *stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult NewStream(unsigned flags, int priority, CUstream* handle) {
  Context* context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = MakeStream(context, flags, priority);
  AnnounceNewStream(*stream);
  *handle = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

// Queued work goes on after the destruction, as on a real device; the object is kept so that a
// stale handle answers an error.
CUresult DestroyStream(CUstream handle) {
  auto* stream = HandleCast<Stream>(handle, kStreamMagic);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  ResourceEvent event{};
  event.context = Describe(*stream->context).handle;
  event.stream = handle;
  AnnounceResource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, event);
  const std::lock_guard lock(EngineLock());
  stream->magic = 0;
  stream->context->streams.erase(stream);
  return CUDA_SUCCESS;
}

CUresult StreamIdOf(CUcontext context_handle, CUstream handle, bool per_thread, uint32_t* id) {
  Context* context = ToContext(context_handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle == nullptr && !per_thread) {
    *id = context->legacy.id;
    return CUDA_SUCCESS;
  }
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(handle, per_thread, &stream);
  if (result == CUDA_SUCCESS) *id = stream->id;
  return result;
}

int64_t ReadyLocked(const Stream& stream) {
  if (stream.is_legacy) return std::max(stream.ready_ns, stream.context->blocking_ready_ns);
  if (IsBlocking(stream)) return std::max(stream.ready_ns, stream.context->legacy.ready_ns);
  return stream.ready_ns;
}

void NoteReadyLocked(Stream& stream) {
  Context& context = *stream.context;
  context.all_ready_ns = std::max(context.all_ready_ns, stream.ready_ns);
  if (!stream.is_legacy && IsBlocking(stream)) {
    context.blocking_ready_ns = std::max(context.blocking_ready_ns, stream.ready_ns);
  }
}

Placement PlaceLocked(Stream& stream, int64_t now, int64_t duration_ns) {
  int64_t start = std::max(ReadyLocked(stream), now + Placing().latency_ns);
  if (g_serialized.load(std::memory_order_relaxed)) {
    start = std::max(start, stream.context->all_ready_ns);
  }
  const bool ends = start != kNever && duration_ns != kNever;
  const int64_t end = ends ? start + RoundToTick(duration_ns) : kNever;
  stream.ready_ns = end;
  stream.in_flight.push_back(end);
  NoteReadyLocked(stream);
  return {start, end};
}

void SetSerialized(bool on) { g_serialized.store(on, std::memory_order_relaxed); }

void SetNextDuration(uint64_t duration_ns) {
  t_next_duration = duration_ns;
  t_has_next_duration = true;
}

int64_t TakeDuration(int64_t fallback) {
  if (!t_has_next_duration) return fallback;
  t_has_next_duration = false;
  return t_next_duration >= static_cast<uint64_t>(kNever) ? kNever
                                                          : static_cast<int64_t>(t_next_duration);
}

CUresult SubmitOp(Stream& stream, DeviceOp op, int64_t duration_ns, const Effect& effect,
                  int64_t* end_ns) {
  FillOp(stream, &op);
  std::unique_lock lock(EngineLock());
  if (stream.capture != nullptr) {
    lock.unlock();
    *end_ns = 0;
    Add(Counters().captured);
    return CaptureOp(stream, op, duration_ns, effect);
  }
  int64_t now = MonotonicNs();
  while (const int64_t room_at = RoomLocked(stream, now)) {
    lock.unlock();
    SleepUntil(room_at);
    lock.lock();
    now = MonotonicNs();
  }
  const Placement placement = PlaceLocked(stream, now, duration_ns);
  lock.unlock();
  *end_ns = placement.end_ns;
  if (effect.kind != Effect::Kind::kNone) Apply(effect, placement.end_ns);
  if (op.type == OpType::kKernel) Add(Counters().kernels);
  if (ToolsWantOps() && op.type != OpType::kHost) {
    op.correlation_id = CurrentCorrelationId();
    op.submit_ns = now;
    op.start_ns = placement.start_ns;
    op.end_ns = placement.end_ns;
    AnnounceOp(op);
  }
  return CUDA_SUCCESS;
}

}  // namespace stepagent::sim
