// Copies and sets: how long they take, and what they do to memory.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <queue>
#include <thread>

#include "common/settings.h"
#include "cuda/memory.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

// Rates in bytes per microsecond (MB/s), of the order of a PCIe 4 card; each can be set.
struct Rates {
  int64_t pageable = SettingInt("RATE_PAGEABLE", 6000);
  int64_t pinned = SettingInt("RATE_PINNED", 24000);
  int64_t device = SettingInt("RATE_DEVICE", 800000);
  int64_t peer = SettingInt("RATE_PEER", 40000);
  int64_t fixed_ns = SettingInt("COPY_FIXED", 1200);
};
const Rates& TheRates() {
  static const Rates rates;
  return rates;
}

int64_t DurationFor(uint64_t bytes, int64_t rate) {
  return TheRates().fixed_ns + static_cast<int64_t>(bytes * 1000 / static_cast<uint64_t>(rate));
}

bool IsDeviceKind(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
}

uint8_t CopyKind(MemoryKind source, MemoryKind target) {
  const bool from_device = IsDeviceKind(source);
  const bool to_device = IsDeviceKind(target);
  if (from_device && to_device) return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  if (from_device) return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  if (to_device) return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  return CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
}

int64_t RateFor(const DeviceOp& op) {
  if (op.type == OpType::kMemcpyPeer) return TheRates().peer;
  if (op.copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD) return TheRates().device;
  const auto pageable = static_cast<uint8_t>(MemoryKind::kPageable);
  return op.source_kind == pageable || op.target_kind == pageable ? TheRates().pageable
                                                                  : TheRates().pinned;
}

void CopyRows(const Effect& effect) {
  auto* target = static_cast<char*>(effect.target);
  const auto* source = static_cast<const char*>(effect.source);
  for (size_t row = 0; row < effect.rows; ++row) {
    memmove(target, source, effect.bytes);
    target += effect.target_pitch;
    source += effect.source_pitch;
  }
}

template <class T>
void SetRows(const Effect& effect) {
  auto* row = static_cast<char*>(effect.target);
  for (size_t i = 0; i < effect.rows; ++i, row += effect.target_pitch) {
    auto* element = reinterpret_cast<T*>(row);
    std::fill(element, element + effect.bytes, static_cast<T>(effect.value));
  }
}

// Runs host functions when the stream reaches them. One thread, started by the first of them;
// work behind a host function does not wait for it to return.
class HostCalls {
 public:
  void Add(int64_t due_ns, CUhostFn call, void* data) {
    const std::lock_guard lock(mutex_);
    calls_.push({due_ns, sequence_++, call, data});
    if (!is_started_) {
      is_started_ = true;
      std::thread([this] { Run(); }).detach();
    }
    changed_.notify_one();
  }

 private:
  struct Item {
    int64_t due_ns;
    uint64_t sequence;
    CUhostFn call;
    void* data;
    bool operator<(const Item& other) const {
      return due_ns != other.due_ns ? due_ns > other.due_ns : sequence > other.sequence;
    }
  };

  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (calls_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const int64_t left_ns = calls_.top().due_ns - MonotonicNs();
      if (left_ns > 0) {
        changed_.wait_for(lock, std::chrono::nanoseconds(std::min<int64_t>(left_ns, 1000000000)));
        continue;
      }
      const Item item = calls_.top();
      calls_.pop();
      lock.unlock();
      item.call(item.data);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Item> calls_;
  uint64_t sequence_ = 0;
  bool is_started_ = false;
};

DeviceOp CopyOp(const CopyRequest& request) {
  const PointerInfo source = LookUp(request.source);
  const PointerInfo target = LookUp(request.target);
  DeviceOp op{};
  op.type = OpType::kMemcpy;
  op.copy_kind = CopyKind(source.kind, target.kind);
  op.source_kind = static_cast<uint8_t>(source.kind);
  op.target_kind = static_cast<uint8_t>(target.kind);
  op.flags = request.is_synchronous ? 0 : 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC
  op.bytes = request.row_bytes * request.rows;
  Context* from = request.source_context != nullptr ? request.source_context : source.context;
  Context* to = request.target_context != nullptr ? request.target_context : target.context;
  const bool crosses = op.copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD && from != nullptr &&
                       to != nullptr && from->device != to->device;
  if (!request.is_peer && !crosses) return op;
  if (from == nullptr || to == nullptr || from->device == to->device) return op;
  op.type = OpType::kMemcpyPeer;
  op.copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  op.source_device_id = static_cast<uint32_t>(from->device->ordinal);
  op.source_context_id = from->uid;
  op.target_device_id = static_cast<uint32_t>(to->device->ordinal);
  op.target_context_id = to->uid;
  return op;
}

}  // namespace

void Apply(const Effect& effect, int64_t due_ns) {
  static auto* host_calls = new HostCalls;
  switch (effect.kind) {
    case Effect::Kind::kNone:
      break;
    case Effect::Kind::kCopy:
      memmove(effect.target, effect.source, effect.bytes);
      break;
    case Effect::Kind::kCopyRows:
      CopyRows(effect);
      break;
    case Effect::Kind::kSet8:
      SetRows<uint8_t>(effect);
      break;
    case Effect::Kind::kSet16:
      SetRows<uint16_t>(effect);
      break;
    case Effect::Kind::kSet32:
      SetRows<uint32_t>(effect);
      break;
    case Effect::Kind::kHostCall:
      host_calls->Add(due_ns, effect.call, effect.call_data);
      break;
  }
}

void DescribeCopy(const CopyRequest& request, DeviceOp* op, Effect* effect, int64_t* duration_ns) {
  *op = CopyOp(request);
  *effect = {.kind = request.rows == 1 ? Effect::Kind::kCopy : Effect::Kind::kCopyRows,
             .target = request.target,
             .source = request.source,
             .bytes = request.row_bytes,
             .rows = request.rows,
             .target_pitch = request.target_pitch,
             .source_pitch = request.source_pitch};
  *duration_ns = TakeDuration(DurationFor(op->bytes, RateFor(*op)));
}

CUresult Copy(const CopyRequest& request) {
  if (request.target == nullptr || request.source == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Add(Counters().copies);
  Add(Counters().copy_bytes, request.row_bytes * request.rows);
  DeviceOp op{};
  Effect effect;
  int64_t duration_ns = 0;
  DescribeCopy(request, &op, &effect, &duration_ns);
  int64_t end_ns = 0;
  const CUresult result = SubmitOp(*request.stream, op, duration_ns, effect, &end_ns);
  if (result != CUDA_SUCCESS) return result;
  // A copy to pageable memory makes even the asynchronous call wait, as on real devices.
  const bool waits =
      request.is_synchronous || (op.copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH &&
                                 op.target_kind == static_cast<uint8_t>(MemoryKind::kPageable));
  if (waits) SleepUntil(end_ns);
  return CUDA_SUCCESS;
}

void DescribeSet(const SetRequest& request, DeviceOp* op, Effect* effect, int64_t* duration_ns) {
  *op = {};
  op->type = OpType::kMemset;
  op->value = request.value;
  op->bytes = request.count * request.element_bytes * request.rows;
  op->flags = request.is_synchronous ? 0 : 1;
  op->target_kind = static_cast<uint8_t>(LookUp(request.target).kind);
  const Effect::Kind kind = request.element_bytes == 1   ? Effect::Kind::kSet8
                            : request.element_bytes == 2 ? Effect::Kind::kSet16
                                                         : Effect::Kind::kSet32;
  *effect = {.kind = kind,
             .target = request.target,
             .bytes = request.count,
             .rows = request.rows,
             .target_pitch = request.pitch,
             .value = request.value};
  *duration_ns = TakeDuration(DurationFor(op->bytes, TheRates().device));
}

CUresult Set(const SetRequest& request) {
  if (request.target == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // As with copies: an empty one succeeds and reaches no device (recorded workloads hold many).
  if (request.count * request.rows == 0) return CUDA_SUCCESS;
  Add(Counters().sets);
  DeviceOp op{};
  Effect effect;
  int64_t duration_ns = 0;
  DescribeSet(request, &op, &effect, &duration_ns);
  int64_t end_ns = 0;
  // cuMemsetD8 and its kin return before the device has done it, as on real devices.
  return SubmitOp(*request.stream, op, duration_ns, effect, &end_ns);
}

}  // namespace stepagent::sim
