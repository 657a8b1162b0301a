// CUPTI's own thread.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <random>
#include <thread>

#include "common/settings.h"
#include "cupti/sink.h"

namespace stepagent::sim {
namespace {

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

const Delivery& TheDelivery() {
  static const Delivery delivery{SettingInt("LATE", 0), SettingText("ORDER", "fifo") == "random"};
  return delivery;
}

void GiveToWorker(const EncodedRecord& record) { TheWorker().Add(record); }
void PokeWorker() { TheWorker().Poke(); }
void DrainWorker(bool is_forced) { TheWorker().Drain(is_forced); }
void StartWorker() { TheWorker().Start(); }

}  // namespace stepagent::sim
