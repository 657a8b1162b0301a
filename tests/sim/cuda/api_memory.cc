// Exported functions: memory, and what is known about a pointer.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include <cstring>

#include "cuda/memory.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

CUresult AllocateDevice(CUdeviceptr* pointer, size_t bytes) {
  void* memory = nullptr;
  const CUresult result = Allocate(MemoryKind::kDevice, bytes, nullptr, &memory);
  if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

CUresult AllocateOld(CUdeviceptr_v1* pointer, size_t bytes) {
  void* memory = nullptr;
  const CUresult result = Allocate(MemoryKind::kDevice, bytes, nullptr, &memory, true);
  if (result == CUDA_SUCCESS) {
    *pointer = static_cast<CUdeviceptr_v1>(reinterpret_cast<uintptr_t>(memory));
  }
  return result;
}

CUresult AllocateOnStream(CUdeviceptr* pointer, size_t bytes, CUstream handle, bool per_thread) {
  Stream* stream = nullptr;
  if (const CUresult result = ResolveStream(handle, per_thread, &stream); result != CUDA_SUCCESS) {
    return result;
  }
  void* memory = nullptr;
  const CUresult result = Allocate(MemoryKind::kDevice, bytes, stream, &memory);
  if (result == CUDA_SUCCESS) *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

// Freeing waits for the device, as the real cuMemFree does.
CUresult Free(uintptr_t address) {
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  int64_t ready = 0;
  {
    const std::lock_guard lock(EngineLock());
    ready = CurrentContext()->all_ready_ns;
  }
  SleepUntil(ready);
  return Release(reinterpret_cast<void*>(address), nullptr);
}

CUresult FreeOnStream(CUdeviceptr pointer, CUstream handle, bool per_thread) {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(handle, per_thread, &stream);
  return result != CUDA_SUCCESS ? result : Release(reinterpret_cast<void*>(pointer), stream);
}

CUresult AllocatePitched(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return AllocateDevice(pointer, *pitch * height);
}

CUresult MemoryInfo(size_t* free_bytes, size_t* total_bytes) {
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Device& device = *CurrentContext()->device;
  if (free_bytes != nullptr) *free_bytes = device.total_bytes - device.used_bytes;
  if (total_bytes != nullptr) *total_bytes = device.total_bytes;
  return CUDA_SUCCESS;
}

CUresult AddressRange(uintptr_t* base, size_t* bytes, uintptr_t address) {
  const PointerInfo info = LookUp(reinterpret_cast<void*>(address));
  if (info.base == 0) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = info.base;
  if (bytes != nullptr) *bytes = info.bytes;
  return CUDA_SUCCESS;
}

CUresult PointerAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const PointerInfo info = LookUp(reinterpret_cast<void*>(pointer));
  const bool is_known = info.base != 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = reinterpret_cast<CUcontext>(info.context);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          info.kind == MemoryKind::kPinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = info.kind == MemoryKind::kManaged ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = is_known ? info.context->device->ordinal : -2;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = info.base;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = info.bytes;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

SIM_API(cuMemAlloc, (CUdeviceptr_v1 * dptr, unsigned int bytesize), (dptr, bytesize),
        return AllocateOld(dptr, bytesize);)
SIM_API(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize),
        return AllocateDevice(dptr, bytesize);)
SIM_API(cuMemFree, (CUdeviceptr_v1 dptr), (dptr), return Free(dptr);)
SIM_API(cuMemFree_v2, (CUdeviceptr dptr), (dptr), return Free(dptr);)
SIM_API(cuMemAllocPitch_v2,
        (CUdeviceptr * dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
         unsigned int ElementSizeBytes),
        (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
        return AllocatePitched(dptr, pPitch, WidthInBytes, Height);)
SIM_API(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
        (dptr, bytesize, flags), {
          void* memory = nullptr;
          const CUresult result = Allocate(MemoryKind::kManaged, bytesize, nullptr, &memory);
          if (result == CUDA_SUCCESS) *dptr = reinterpret_cast<CUdeviceptr>(memory);
          return result;
        })
SIM_STREAM_API(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
               (dptr, bytesize, hStream),
               return AllocateOnStream(dptr, bytesize, hStream, per_thread);)
SIM_STREAM_API(cuMemAllocFromPoolAsync,
               (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
               (dptr, bytesize, pool, hStream),
               return AllocateOnStream(dptr, bytesize, hStream, per_thread);)
SIM_STREAM_API(cuMemFreeAsync, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream),
               return FreeOnStream(dptr, hStream, per_thread);)
SIM_API(cuMemAllocHost, (void** pp, unsigned int bytesize), (pp, bytesize),
        return Allocate(MemoryKind::kPinned, bytesize, nullptr, pp);)
SIM_API(cuMemAllocHost_v2, (void** pp, size_t bytesize), (pp, bytesize),
        return Allocate(MemoryKind::kPinned, bytesize, nullptr, pp);)
SIM_API(cuMemHostAlloc, (void** pp, size_t bytesize, unsigned int Flags), (pp, bytesize, Flags),
        return Allocate(MemoryKind::kPinned, bytesize, nullptr, pp);)
SIM_API(cuMemFreeHost, (void* p), (p), return Free(reinterpret_cast<uintptr_t>(p));)
SIM_API(cuMemHostRegister, (void* p, size_t bytesize, unsigned int Flags), (p, bytesize, Flags),
        return RegisterHost(p, bytesize);)
SIM_API(cuMemHostRegister_v2, (void* p, size_t bytesize, unsigned int Flags), (p, bytesize, Flags),
        return RegisterHost(p, bytesize);)
SIM_API(cuMemHostUnregister, (void* p), (p), return UnregisterHost(p);)
SIM_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr * pdptr, void* p, unsigned int Flags),
        (pdptr, p, Flags), {
          if (LookUp(p).base == 0) return CUDA_ERROR_INVALID_VALUE;
          *pdptr = reinterpret_cast<CUdeviceptr>(p);
          return CUDA_SUCCESS;
        })
SIM_API(cuMemHostGetFlags, (unsigned int* pFlags, void* p), (pFlags, p), {
  if (LookUp(p).base == 0) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = 0;
  return CUDA_SUCCESS;
})
SIM_API(cuMemGetInfo, (unsigned int* free, unsigned int* total), (free, total), {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const CUresult result = MemoryInfo(&free_bytes, &total_bytes);
  *free = static_cast<unsigned>(free_bytes > 0xFFFFFFFFu ? 0xFFFFFFFFu : free_bytes);
  *total = static_cast<unsigned>(total_bytes > 0xFFFFFFFFu ? 0xFFFFFFFFu : total_bytes);
  return result;
})
SIM_API(cuMemGetInfo_v2, (size_t * free, size_t* total), (free, total),
        return MemoryInfo(free, total);)
SIM_API(cuMemGetAddressRange_v2, (CUdeviceptr * pbase, size_t* psize, CUdeviceptr dptr),
        (pbase, psize, dptr), {
          uintptr_t base = 0;
          const CUresult result = AddressRange(&base, psize, dptr);
          if (result == CUDA_SUCCESS && pbase != nullptr) *pbase = base;
          return result;
        })
SIM_API(cuPointerGetAttribute, (void* data, CUpointer_attribute attribute, CUdeviceptr ptr),
        (data, attribute, ptr), return PointerAttribute(data, attribute, ptr);)
SIM_API(cuPointerGetAttributes,
        (unsigned int numAttributes, CUpointer_attribute* attributes, void** data, CUdeviceptr ptr),
        (numAttributes, attributes, data, ptr), {
          for (unsigned i = 0; i < numAttributes; ++i) {
            // Unlike the single form, unknown pointers answer zeros and success.
            const CUresult result = PointerAttribute(data[i], attributes[i], ptr);
            if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
          }
          return CUDA_SUCCESS;
        })
// One pool per device, which is all that programs ask of the defaults.
SIM_API(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool_out, CUdevice dev), (pool_out, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool_out = reinterpret_cast<CUmemoryPool>(DeviceAt(dev));
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice dev), (pool, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = reinterpret_cast<CUmemoryPool>(DeviceAt(dev));
  return CUDA_SUCCESS;
})
SIM_API(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attr, void* value),
        (pool, attr, value), return CUDA_SUCCESS;)
SIM_API(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attr, void* value),
        (pool, attr, value), {
          *static_cast<uint64_t*>(value) = 0;
          return CUDA_SUCCESS;
        })
SIM_API(cuMemPoolTrimTo, (CUmemoryPool pool, size_t minBytesToKeep), (pool, minBytesToKeep),
        return CUDA_SUCCESS;)
// Memory of other processes is not modelled; but numba looks this one up before all else.
SIM_API(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
        (pdptr, handle, Flags), return CUDA_ERROR_NOT_SUPPORTED;)
SIM_API(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
        (pdptr, handle, Flags), return CUDA_ERROR_NOT_SUPPORTED;)
