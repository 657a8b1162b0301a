#include "cuda/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>

#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

constexpr size_t kPageBytes = 4096;

struct Pool {
  std::mutex mutex;
  std::map<uintptr_t, PointerInfo> ranges;  // by base
};
Pool& ThePool() {
  static auto* pool = new Pool;
  return *pool;
}

size_t WholePages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

MemoryOp OpFor(uint32_t operation, const PointerInfo& info, const Stream* stream) {
  MemoryOp op{};
  op.operation = operation;
  op.kind = static_cast<uint32_t>(info.kind);
  op.correlation_id = CurrentCorrelationId();
  op.address = info.base;
  op.bytes = info.bytes;
  op.device_id = static_cast<uint32_t>(info.context->device->ordinal);
  op.context_id = info.context->uid;
  op.stream_id = stream != nullptr ? stream->id : 0xFFFFFFFFu;
  op.is_async = stream != nullptr;
  return op;
}

bool IsOnDevice(MemoryKind kind) { return kind != MemoryKind::kPinned; }

}  // namespace

CUresult Allocate(MemoryKind kind, size_t bytes, Stream* async_stream, void** pointer,
                  bool is_low) {
  Context* context = async_stream != nullptr ? async_stream->context : CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0 || pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Pool& pool = ThePool();
  PointerInfo info{.kind = kind, .bytes = bytes, .context = context};
  {
    const std::lock_guard lock(pool.mutex);
    Device& device = *context->device;
    if (IsOnDevice(kind) && bytes > device.total_bytes - device.used_bytes) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef MAP_32BIT
    if (is_low) flags |= MAP_32BIT;
#else
    if (is_low) return CUDA_ERROR_NOT_SUPPORTED;
#endif
    void* memory = mmap(nullptr, WholePages(bytes), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (IsOnDevice(kind)) device.used_bytes += bytes;
    info.base = reinterpret_cast<uintptr_t>(memory);
    pool.ranges[info.base] = info;
    *pointer = memory;
  }
  if (ToolsWantOps()) {
    AnnounceMemory(OpFor(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, info, async_stream));
  }
  return CUDA_SUCCESS;
}

CUresult Release(const void* pointer, Stream* async_stream) {
  if (pointer == nullptr) return CUDA_SUCCESS;
  Pool& pool = ThePool();
  PointerInfo info;
  {
    const std::lock_guard lock(pool.mutex);
    const auto found = pool.ranges.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == pool.ranges.end() || found->second.is_registered) return CUDA_ERROR_INVALID_VALUE;
    info = found->second;
    if (IsOnDevice(info.kind)) info.context->device->used_bytes -= info.bytes;
    pool.ranges.erase(found);
  }
  if (ToolsWantOps()) {
    AnnounceMemory(OpFor(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, info, async_stream));
  }
  munmap(reinterpret_cast<void*>(info.base), WholePages(info.bytes));
  return CUDA_SUCCESS;
}

CUresult RegisterHost(void* pointer, size_t bytes) {
  Context* context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  const auto base = reinterpret_cast<uintptr_t>(pointer);
  if (pool.ranges.contains(base)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  pool.ranges[base] = {.kind = MemoryKind::kPinned,
                       .base = base,
                       .bytes = bytes,
                       .context = context,
                       .is_registered = true};
  return CUDA_SUCCESS;
}

CUresult UnregisterHost(void* pointer) {
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  const auto found = pool.ranges.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == pool.ranges.end() || !found->second.is_registered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  pool.ranges.erase(found);
  return CUDA_SUCCESS;
}

PointerInfo LookUp(const void* pointer) {
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto found = pool.ranges.upper_bound(address);
  if (found == pool.ranges.begin()) return {};
  --found;
  const PointerInfo& info = found->second;
  return address < info.base + info.bytes ? info : PointerInfo{};
}

}  // namespace stepagent::sim
