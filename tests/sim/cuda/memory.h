// Memory of the simulated device, and what a pointer points to.
//
// Device memory is ordinary host memory, so a device pointer is an address in this process.
// Threads: any; one lock of its own. Failure: OUT_OF_MEMORY when the device's size is used up.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "cuda/engine.h"

namespace stepagent::sim {

// CUpti_ActivityMemoryKind.
enum class MemoryKind : uint8_t {
  kUnknown = 0,
  kPageable = 1,
  kPinned = 2,
  kDevice = 3,
  kManaged = 5
};

struct PointerInfo {
  MemoryKind kind = MemoryKind::kPageable;
  uintptr_t base = 0;
  size_t bytes = 0;
  Context* context = nullptr;
  bool is_registered = false;
};

// `is_low`: below 4 GiB, for the oldest entry points, whose device pointers have 32 bits.
CUresult Allocate(MemoryKind kind, size_t bytes, Stream* async_stream, void** pointer,
                  bool is_low = false);
CUresult Release(const void* pointer, Stream* async_stream);
CUresult RegisterHost(void* pointer, size_t bytes);
CUresult UnregisterHost(void* pointer);
[[nodiscard]] PointerInfo LookUp(const void* pointer);

// One copy of `rows` rows. `is_synchronous`: the call returns when it has ended.
struct CopyRequest {
  void* target = nullptr;
  const void* source = nullptr;
  size_t row_bytes = 0;
  size_t rows = 1;
  size_t target_pitch = 0;
  size_t source_pitch = 0;
  Stream* stream = nullptr;
  bool is_synchronous = false;
  bool is_peer = false;
  Context* source_context = nullptr;  // peer copies
  Context* target_context = nullptr;
};
CUresult Copy(const CopyRequest& request);

// Sets `count` elements of 1, 2 or 4 bytes per row.
struct SetRequest {
  void* target = nullptr;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  size_t count = 0;
  size_t rows = 1;
  size_t pitch = 0;
  Stream* stream = nullptr;
  bool is_synchronous = false;
};
CUresult Set(const SetRequest& request);

// The same as a graph node needs it.
void DescribeCopy(const CopyRequest& request, DeviceOp* op, Effect* effect, int64_t* duration_ns);
void DescribeSet(const SetRequest& request, DeviceOp* op, Effect* effect, int64_t* duration_ns);

}  // namespace stepagent::sim
