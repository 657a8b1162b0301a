// Exported functions: devices and contexts.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include <cstdio>
#include <cstring>

#include "cuda/engine.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

struct Attribute {
  CUdevice_attribute id;
  int value;
};
constexpr Attribute kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 166912},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 167936},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1215000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 41943040},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 108},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
};

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

CUresult CreateContext(CUcontext* handle, unsigned flags, CUdevice ordinal) {
  Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = NewContext(device, flags);
  ContextStack().push_back(context);
  *handle = Handle(context);
  return CUDA_SUCCESS;
}

CUresult DestroyContextHandle(CUcontext handle) {
  Context* context = ToContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (CurrentContext() == context) ContextStack().pop_back();
  DestroyContext(context);
  return CUDA_SUCCESS;
}

CUresult PushContext(CUcontext handle) {
  Context* context = ToContext(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  ContextStack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult PopContext(CUcontext* handle) {
  if (ContextStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = Handle(ContextStack().back());
  ContextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult ReleasePrimary(CUdevice ordinal) {
  Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Context* last = nullptr;
  {
    const std::lock_guard lock(EngineLock());
    if (device->primary == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->primary_refs > 0) return CUDA_SUCCESS;
    last = device->primary;
    device->primary = nullptr;
  }
  DestroyContext(last);
  return CUDA_SUCCESS;
}

CUresult ResetPrimary(CUdevice ordinal) {
  Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  {
    const std::lock_guard lock(EngineLock());
    if (device->primary == nullptr) return CUDA_SUCCESS;
    device->primary_refs = 1;
  }
  return ReleasePrimary(ordinal);
}

CUresult SynchronizeContext(Context* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Add(Counters().syncs);
  const int64_t start_stamp = HostStampNs();
  int64_t ready = 0;
  {
    const std::lock_guard lock(EngineLock());
    ready = context->all_ready_ns;
  }
  SleepUntil(ready);
  if (ToolsWantOps()) {
    AnnounceSync({.type = SyncType::kContext,
                  .correlation_id = CurrentCorrelationId(),
                  .context_id = context->uid,
                  .stream_id = 0xFFFFFFFFu,
                  .event_id = 0xFFFFFFFFu,
                  .start_stamp = start_stamp,
                  .end_stamp = HostStampNs()});
  }
  AnnounceSynchronized(CUPTI_CBID_SYNCHRONIZE_CONTEXT_SYNCHRONIZED, Handle(context), nullptr);
  return CUDA_SUCCESS;
}

CUresult CopyUuid(CUuuid* uuid, CUdevice ordinal) {
  const Device* device = DeviceAt(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = device->uuid;
  return CUDA_SUCCESS;
}

}  // namespace

SIM_API(cuDeviceGetCount, (int* count), (count), {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(Devices().size());
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal), {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (DeviceAt(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetName, (char* name, int len, CUdevice dev), (name, len, dev), {
  const Device* device = DeviceAt(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, static_cast<size_t>(len), "%s", device->name.c_str());
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetUuid, (CUuuid * uuid, CUdevice dev), (uuid, dev), return CopyUuid(uuid, dev);)
SIM_API(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice dev), (uuid, dev), return CopyUuid(uuid, dev);)
SIM_API(cuDeviceTotalMem, (unsigned int* bytes, CUdevice dev), (bytes, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = 0xFFFFFFFFu;  // the oldest form cannot say more than 4 GiB
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), (bytes, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = DeviceAt(dev)->total_bytes;
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetAttribute, (int* pi, CUdevice_attribute attrib, CUdevice dev), (pi, attrib, dev),
        {
          if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
          if (pi == nullptr) return CUDA_ERROR_INVALID_VALUE;
          *pi = 0;
          for (const Attribute& attribute : kAttributes) {
            if (attribute.id == attrib) *pi = attribute.value;
          }
          if (attrib == CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) *pi = dev;
          return CUDA_SUCCESS;
        })
SIM_API(cuDeviceComputeCapability, (int* major, int* minor, CUdevice dev), (major, minor, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *major = 8;
  *minor = 0;
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetPCIBusId, (char* pciBusId, int len, CUdevice dev), (pciBusId, len, dev), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(pciBusId, static_cast<size_t>(len), "0000:01:%02x.0", static_cast<unsigned>(dev));
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceGetByPCIBusId, (CUdevice * dev, const char* pciBusId), (dev, pciBusId), {
  unsigned slot = 0;
  if (sscanf(pciBusId, "0000:01:%x.0", &slot) != 1 || DeviceAt(static_cast<int>(slot)) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *dev = static_cast<CUdevice>(slot);
  return CUDA_SUCCESS;
})
SIM_API(cuDeviceCanAccessPeer, (int* canAccessPeer, CUdevice dev, CUdevice peerDev),
        (canAccessPeer, dev, peerDev), {
          if (DeviceAt(dev) == nullptr || DeviceAt(peerDev) == nullptr) {
            return CUDA_ERROR_INVALID_DEVICE;
          }
          *canAccessPeer = dev != peerDev ? 1 : 0;
          return CUDA_SUCCESS;
        })
SIM_API(cuDevicePrimaryCtxRetain, (CUcontext * pctx, CUdevice dev), (pctx, dev), {
  Device* device = DeviceAt(dev);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (device->primary == nullptr) {
    Context* context = NewContext(device, device->primary_flags);
    const std::lock_guard engine(EngineLock());
    device->primary = context;
    device->primary_refs = 0;
  }
  const std::lock_guard engine(EngineLock());
  ++device->primary_refs;
  *pctx = Handle(device->primary);
  return CUDA_SUCCESS;
})
SIM_API(cuDevicePrimaryCtxRelease, (CUdevice dev), (dev), return ReleasePrimary(dev);)
SIM_API(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev), return ReleasePrimary(dev);)
SIM_API(cuDevicePrimaryCtxReset, (CUdevice dev), (dev), return ResetPrimary(dev);)
SIM_API(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev), return ResetPrimary(dev);)
SIM_API(cuDevicePrimaryCtxSetFlags, (CUdevice dev, unsigned int flags), (dev, flags), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  DeviceAt(dev)->primary_flags = flags;
  return CUDA_SUCCESS;
})
SIM_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), (dev, flags), {
  if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  DeviceAt(dev)->primary_flags = flags;
  return CUDA_SUCCESS;
})
SIM_API(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int* flags, int* active),
        (dev, flags, active), {
          if (DeviceAt(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
          *flags = DeviceAt(dev)->primary_flags;
          *active = DeviceAt(dev)->primary != nullptr ? 1 : 0;
          return CUDA_SUCCESS;
        })

SIM_API(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev),
        return CreateContext(pctx, flags, dev);)
SIM_API(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev),
        return CreateContext(pctx, flags, dev);)
SIM_API(cuCtxCreate_v3,
        (CUcontext * pctx, CUexecAffinityParam* paramsArray, int numParams, unsigned int flags,
         CUdevice dev),
        (pctx, paramsArray, numParams, flags, dev), return CreateContext(pctx, flags, dev);)
#if CUDA_VERSION >= 12050
SIM_API(cuCtxCreate_v4,
        (CUcontext * pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev),
        (pctx, ctxCreateParams, flags, dev), return CreateContext(pctx, flags, dev);)
#endif
SIM_API(cuCtxDestroy, (CUcontext ctx), (ctx), return DestroyContextHandle(ctx);)
SIM_API(cuCtxDestroy_v2, (CUcontext ctx), (ctx), return DestroyContextHandle(ctx);)
SIM_API(cuCtxPushCurrent, (CUcontext ctx), (ctx), return PushContext(ctx);)
SIM_API(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx), return PushContext(ctx);)
SIM_API(cuCtxPopCurrent, (CUcontext * pctx), (pctx), return PopContext(pctx);)
SIM_API(cuCtxPopCurrent_v2, (CUcontext * pctx), (pctx), return PopContext(pctx);)
SIM_API(cuCtxSetCurrent, (CUcontext ctx), (ctx), {
  if (ctx != nullptr && ToContext(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!ContextStack().empty()) ContextStack().pop_back();
  if (ctx != nullptr) ContextStack().push_back(ToContext(ctx));
  return CUDA_SUCCESS;
})
SIM_API(cuCtxGetCurrent, (CUcontext * pctx), (pctx), {
  *pctx = Handle(CurrentContext());
  return CUDA_SUCCESS;
})
SIM_API(cuCtxGetDevice, (CUdevice * device), (device), {
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = CurrentContext()->device->ordinal;
  return CUDA_SUCCESS;
})
#if CUDA_VERSION >= 13000
SIM_API(cuCtxGetDevice_v2, (CUdevice * device, CUcontext ctx), (device, ctx), {
  const Context* context = ctx == nullptr ? CurrentContext() : ToContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
})
SIM_API(cuCtxSynchronize_v2, (CUcontext ctx), (ctx),
        return SynchronizeContext(ctx == nullptr ? CurrentContext() : ToContext(ctx));)
#endif
#if CUDA_VERSION >= 12000
SIM_API(cuCtxGetId, (CUcontext ctx, unsigned long long* ctxId), (ctx, ctxId), {
  const Context* context = ctx == nullptr ? CurrentContext() : ToContext(ctx);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *ctxId = context->uid;
  return CUDA_SUCCESS;
})
#endif
SIM_API(cuCtxGetApiVersion, (CUcontext ctx, unsigned int* version), (ctx, version), {
  if (ctx != nullptr && ToContext(ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
})
SIM_API(cuCtxGetFlags, (unsigned int* flags), (flags), {
  if (CurrentContext() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = CurrentContext()->flags;
  return CUDA_SUCCESS;
})
SIM_API0(cuCtxSynchronize, return SynchronizeContext(CurrentContext());)
SIM_API(cuCtxGetStreamPriorityRange, (int* leastPriority, int* greatestPriority),
        (leastPriority, greatestPriority), {
          if (leastPriority != nullptr) *leastPriority = 0;
          if (greatestPriority != nullptr) *greatestPriority = -5;
          return CUDA_SUCCESS;
        })
SIM_API(cuCtxGetLimit, (size_t * pvalue, CUlimit limit), (pvalue, limit), {
  *pvalue = 1024;
  return CUDA_SUCCESS;
})
SIM_API(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value), return CUDA_SUCCESS;)
SIM_API(cuCtxSetCacheConfig, (CUfunc_cache config), (config), return CUDA_SUCCESS;)
SIM_API(cuCtxEnablePeerAccess, (CUcontext peerContext, unsigned int Flags), (peerContext, Flags),
        { return ToContext(peerContext) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS; })
SIM_API(cuCtxDisablePeerAccess, (CUcontext peerContext), (peerContext),
        { return ToContext(peerContext) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS; })
SIM_API0(cuProfilerStart,
         return CurrentContext() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;)
SIM_API0(cuProfilerStop,
         return CurrentContext() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;)
