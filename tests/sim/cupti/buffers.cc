#include "cupti/buffers.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "common/settings.h"
#include "cupti/oddities.h"
#include "cupti/state.h"

namespace stepagent::sim {
namespace {

struct Unfinished {
  uint32_t offset;
  uint32_t end_offset;
  int64_t complete_at_ns;
};

struct ActivityBuffer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t used = 0;
  size_t record_limit = 0;
  size_t records = 0;
  int64_t complete_at_ns = 0;
  std::vector<Unfinished> unfinished;
};

// A place where records go: one per thread, or one for all.
struct Sink {
  std::mutex mutex;
  std::unique_ptr<ActivityBuffer> current;
  std::deque<std::unique_ptr<ActivityBuffer>> full;
  bool is_free = false;  // its thread has gone
};

struct Callbacks {
  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};
};
Callbacks g_callbacks;
std::atomic<uint64_t> g_dropped{0};
std::atomic<bool> g_per_thread{false};

struct BufferCounters {
  std::atomic<uint64_t>& requested = Counter("cupti.buffers_requested");
  std::atomic<uint64_t>& completed = Counter("cupti.buffers_completed");
  std::atomic<uint64_t>& records = Counter("cupti.records");
  std::atomic<uint64_t>& dropped = Counter("cupti.records_dropped");
  std::atomic<uint64_t>& truncated = Counter("cupti.records_truncated");
};
BufferCounters& Count() {
  static auto* counters = new BufferCounters;
  return *counters;
}

struct SinkList {
  std::mutex mutex;
  std::vector<Sink*> sinks;  // never freed
  Sink shared;
};
SinkList& Sinks() {
  static auto* list = new SinkList;
  return *list;
}

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
  return buffer;
}

void Complete(std::unique_ptr<ActivityBuffer> buffer) {
  const auto complete = g_callbacks.complete.load(std::memory_order_acquire);
  if (complete == nullptr) return;
  Add(Count().completed);
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

template <class F>
void ForEachSink(F&& f) {
  std::vector<Sink*> sinks;
  {
    const std::lock_guard lock(Sinks().mutex);
    sinks = Sinks().sinks;
  }
  sinks.push_back(&Sinks().shared);
  for (Sink* sink : sinks) {
    const std::lock_guard lock(sink->mutex);
    f(*sink);
  }
}

// How device records reach the buffers, beyond the personality.
struct Delivery {
  int64_t late_ns = SettingInt("LATE", 0);
  bool is_shuffled = SettingText("ORDER", "fifo") == "random";
};
const Delivery& TheDelivery() {
  static const Delivery delivery;
  return delivery;
}

// The worker: writes device records of older generations and of late or shuffled delivery, and
// returns full buffers when their work has ended.
class Worker {
 public:
  void Start() {
    const std::lock_guard lock(mutex_);
    if (is_started_) return;
    is_started_ = true;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { Run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void Add(const EncodedRecord& record) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({record, MonotonicNs() + TheDelivery().late_ns});
    ++pokes_;
    changed_.notify_one();
  }

  void Poke() {
    const std::lock_guard lock(mutex_);
    ++pokes_;
    changed_.notify_one();
  }

  // Writes what is due; everything when forced.
  void Drain(bool is_forced) {
    const std::lock_guard draining(drain_mutex_);
    for (const EncodedRecord& record : TakeDue(is_forced)) {
      Sink& sink = Sinks().shared;
      const std::lock_guard lock(sink.mutex);
      AppendLocked(sink, record);
    }
  }

 private:
  struct Item {
    EncodedRecord record;
    int64_t due_ns;
  };

  std::vector<EncodedRecord> TakeDue(bool is_forced) {
    const std::lock_guard lock(mutex_);
    std::vector<EncodedRecord> due;
    const int64_t now = MonotonicNs();
    while (!queue_.empty() && (is_forced || queue_.front().due_ns <= now)) {
      due.push_back(queue_.front().record);
      queue_.pop_front();
    }
    if (TheDelivery().is_shuffled) std::shuffle(due.begin(), due.end(), random_);
    return due;
  }

  int64_t NextDue() {
    int64_t next = kNever;
    ForEachSink([&](Sink& sink) {
      for (const auto& buffer : sink.full) next = std::min(next, buffer->complete_at_ns);
    });
    const std::lock_guard lock(mutex_);
    if (!queue_.empty()) next = std::min(next, queue_.front().due_ns);
    return next;
  }

  void Run() {
    pthread_setname_np(pthread_self(), "sim-cupti");
    for (;;) {
      const uint64_t seen = Pokes();
      Drain(false);
      const int64_t now = MonotonicNs();
      ForEachSink([&](Sink& sink) { ReturnFullLocked(sink, now); });
      const int64_t next = NextDue();
      Sleep(seen, next);
    }
  }

  uint64_t Pokes() {
    const std::lock_guard lock(mutex_);
    return pokes_;
  }

  // Until `next`, or until somebody added something after `seen` was read.
  void Sleep(uint64_t seen, int64_t next) {
    std::unique_lock lock(mutex_);
    const auto is_poked = [&] { return pokes_ != seen; };
    if (next == kNever) {
      changed_.wait(lock, is_poked);
    } else if (const int64_t left = next - MonotonicNs(); left > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left), is_poked);
    }
  }

  std::mutex drain_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  uint64_t pokes_ = 0;
  std::mt19937 random_{static_cast<uint32_t>(SettingInt("SEED", 1))};
  bool is_started_ = false;
};
Worker& TheWorker() {
  static auto* worker = new Worker;
  return *worker;
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
      record.is_device_work && (!HasPerThreadBuffers() || TheDelivery().late_ns > 0 ||
                                TheDelivery().is_shuffled);
  if (goes_to_worker) {
    TheWorker().Add(record);
    return;
  }
  Sink& sink = SinkForThisThread();
  bool has_full = false;
  {
    const std::lock_guard lock(sink.mutex);
    AppendLocked(sink, record);
    has_full = !sink.full.empty();
  }
  if (has_full) TheWorker().Poke();
}

void FlushBuffers(bool is_forced) {
  TheWorker().Drain(is_forced);
  ForEachSink([&](Sink& sink) { FlushLocked(sink, is_forced); });
}

void DropOneRecord() { Drop(); }

uint64_t TakeDroppedCount() { return g_dropped.exchange(0, std::memory_order_relaxed); }

void StartWorker() { TheWorker().Start(); }

}  // namespace stepagent::sim
