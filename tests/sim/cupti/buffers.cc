#include "cupti/buffers.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "common/settings.h"
#include "cupti/oddities.h"
#include "cupti/sink.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

struct Callbacks {
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
};
Callbacks g_callbacks;
std::atomic<uint64_t> g_dropped{0};
std::atomic<bool> g_per_thread{false};

struct BufferCounters {
  std::atomic<uint64_t>& requested = Counter("cupti.buffers_requested");
  std::atomic<uint64_t>& outstanding = Counter("cupti.buffers_outstanding");
  std::atomic<uint64_t>& completed = Counter("cupti.buffers_completed");
  std::atomic<uint64_t>& records = Counter("cupti.records");
  std::atomic<uint64_t>& dropped = Counter("cupti.records_dropped");
  std::atomic<uint64_t>& truncated = Counter("cupti.records_truncated");
};
BufferCounters& Count() {
  static auto* counters = new BufferCounters;
  return *counters;
}

}  // namespace

SinkList& Sinks() {
  static auto* list = new SinkList;
  return *list;
}

namespace {

Sink* TakeSink() {
  SinkList& list = Sinks();
  const std::lock_guard lock(list.mutex);
  for (Sink* sink : list.sinks) {
    if (!sink->is_free) continue;
    sink->is_free = false;
    return sink;
  }
  list.sinks.push_back(new Sink);
  return list.sinks.back();
}

// Gives the thread's sink back at its exit; what it holds stays until a flush.
struct ThreadSink {
  Sink* sink = nullptr;
  ~ThreadSink() {
    if (sink == nullptr) return;
    const std::lock_guard lock(Sinks().mutex);
    sink->is_free = true;
  }
};
thread_local ThreadSink t_sink;

Sink& SinkForThisThread() {
  if (!g_per_thread.load(std::memory_order_relaxed)) return Sinks().shared;
  if (t_sink.sink == nullptr) t_sink.sink = TakeSink();
  return *t_sink.sink;
}

void Drop() {
  g_dropped.fetch_add(1, std::memory_order_relaxed);
  Add(Count().dropped);
}

void CheckBuffer(const uint8_t* data, size_t size) {
  if (data == nullptr && ThePersonality().null_buffer_crashes) {
    LogText("crash: NULL activity buffer");
    // The real library of this generation writes to it.
    raise(SIGSEGV);
  }
  if (data != nullptr && size != 0 && reinterpret_cast<uintptr_t>(data) % 8 != 0) {
    Violation("activity buffer %p is not aligned to 8 bytes", static_cast<const void*>(data));
  }
}

std::unique_ptr<ActivityBuffer> RequestBuffer() {
  const auto request = g_callbacks.request.load(std::memory_order_acquire);
  if (request == nullptr) return nullptr;
  auto buffer = std::make_unique<ActivityBuffer>();
  Add(Count().requested);
  {
    const BufferCallbackScope scope;
    request(&buffer->data, &buffer->size, &buffer->record_limit);
  }
  CheckBuffer(buffer->data, buffer->size);
  if (buffer->data == nullptr || buffer->size == 0) return nullptr;
  Add(Count().outstanding);
  return buffer;
}

void Complete(std::unique_ptr<ActivityBuffer> buffer) {
  const auto complete = g_callbacks.complete.load(std::memory_order_acquire);
  if (complete == nullptr) return;
  Add(Count().completed);
  Count().outstanding.fetch_sub(1, std::memory_order_relaxed);
  const BufferCallbackScope scope;
  complete(nullptr, 0, buffer->data, buffer->size, buffer->used);
}

bool HasRoom(const ActivityBuffer& buffer, uint32_t bytes) {
  return buffer.size - buffer.used >= bytes &&
         (buffer.record_limit == 0 || buffer.records < buffer.record_limit);
}

void Truncate(ActivityBuffer* buffer, int64_t now) {
  for (const Unfinished& record : buffer->unfinished) {
    if (record.complete_at_ns <= now || record.end_offset == 0) continue;
    memset(buffer->data + record.offset + record.end_offset, 0, sizeof(uint64_t));
    Add(Count().truncated);
  }
}

}  // namespace

void ReturnFullLocked(Sink& sink, int64_t now) {
  for (auto it = sink.full.begin(); it != sink.full.end();) {
    if ((*it)->complete_at_ns > now) {
      ++it;
      continue;
    }
    std::unique_ptr<ActivityBuffer> buffer = std::move(*it);
    it = sink.full.erase(it);
    Complete(std::move(buffer));
  }
}

namespace {

void AppendBytes(ActivityBuffer& buffer, const EncodedRecord& record) {
  memcpy(buffer.data + buffer.used, record.bytes, record.size);
  buffer.used += record.size;
  ++buffer.records;
  Add(Count().records);
}

// The cost of asking for this very buffer is its first record.
void AppendOverheadLocked(ActivityBuffer& buffer, int64_t start_stamp) {
  EncodedRecord record;
  if (!EncodeOverhead(kOverheadBufferRequest, start_stamp, HostStampNs(), &record)) return;
  if (HasRoom(buffer, record.size)) AppendBytes(buffer, record);
}

bool MakeRoomLocked(Sink& sink, uint32_t bytes) {
  if (sink.current != nullptr && HasRoom(*sink.current, bytes)) return true;
  if (sink.current != nullptr) {
    sink.full.push_back(std::move(sink.current));
    ReturnFullLocked(sink, MonotonicNs());
  }
  const int64_t start_stamp = HostStampNs();
  sink.current = RequestBuffer();
  if (sink.current != nullptr) AppendOverheadLocked(*sink.current, start_stamp);
  return sink.current != nullptr && HasRoom(*sink.current, bytes);
}

}  // namespace

void AppendLocked(Sink& sink, const EncodedRecord& record) {
  if (!MakeRoomLocked(sink, record.size)) {
    Drop();
    return;
  }
  ActivityBuffer& buffer = *sink.current;
  if (record.is_device_work) {
    buffer.unfinished.push_back(
        {static_cast<uint32_t>(buffer.used), record.end_offset, record.complete_at_ns});
    buffer.complete_at_ns = std::max(buffer.complete_at_ns, record.complete_at_ns);
  }
  AppendBytes(buffer, record);
}

namespace {

void FlushLocked(Sink& sink, bool is_forced) {
  const int64_t now = MonotonicNs();
  if (is_forced) {
    for (auto& buffer : sink.full) {
      Truncate(buffer.get(), now);
      buffer->complete_at_ns = 0;
    }
    if (sink.current != nullptr) {
      Truncate(sink.current.get(), now);
      sink.current->complete_at_ns = 0;
    }
  }
  ReturnFullLocked(sink, now);
  if (sink.current == nullptr || sink.current->complete_at_ns > now) return;
  // A buffer without records comes back too, with a valid size of 0.
  Complete(std::move(sink.current));
}

}  // namespace

void RegisterBufferCallbacks(CUpti_BuffersCallbackRequestFunc request,
                             CUpti_BuffersCallbackCompleteFunc complete) {
  g_callbacks.complete.store(complete, std::memory_order_release);
  g_callbacks.request.store(request, std::memory_order_release);
}

bool HasBufferCallbacks() { return g_callbacks.request.load(std::memory_order_relaxed) != nullptr; }

void ForgetBufferCallbacks() { RegisterBufferCallbacks(nullptr, nullptr); }

void SetPerThreadBuffers(bool on) { g_per_thread.store(on, std::memory_order_relaxed); }
bool HasPerThreadBuffers() { return g_per_thread.load(std::memory_order_relaxed); }

void WriteRecord(const EncodedRecord& record) {
  if (!HasBufferCallbacks()) return;
  const bool goes_to_worker =
      record.is_device_work &&
      (!HasPerThreadBuffers() || TheDelivery().late_ns > 0 || TheDelivery().is_shuffled);
  if (goes_to_worker) {
    GiveToWorker(record);
    return;
  }
  Sink& sink = SinkForThisThread();
  bool has_full = false;
  {
    const std::lock_guard lock(sink.mutex);
    AppendLocked(sink, record);
    has_full = !sink.full.empty();
  }
  if (has_full) PokeWorker();
}

void FlushBuffers(bool is_forced) {
  DrainWorker(is_forced);
  ForEachSink([&](Sink& sink) { FlushLocked(sink, is_forced); });
}

void DropOneRecord() { Drop(); }

uint64_t TakeDroppedCount() { return g_dropped.exchange(0, std::memory_order_relaxed); }

}  // namespace stepagent::sim
