// Exported functions of the runtime: devices, errors, streams, events.
#include <cstring>

#include "cudart/runtime.h"
// Has no include guard: once per file, after the types it needs.
#include <generated_cuda_runtime_api_meta.h>

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

CUresult FillProperties(const DriverFunctions& driver, cudaDeviceProp* properties, int device) {
  *properties = {};
  CUresult result = driver.cuDeviceGetName(properties->name, sizeof(properties->name), device);
  if (result != CUDA_SUCCESS) return result;
  static_assert(sizeof(properties->uuid) == sizeof(CUuuid));
  driver.cuDeviceGetUuid_v2(reinterpret_cast<CUuuid*>(&properties->uuid), device);
  driver.cuDeviceTotalMem_v2(&properties->totalGlobalMem, device);
  struct Field {
    int* target;
    CUdevice_attribute attribute;
  };
  const Field fields[] = {
      {&properties->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
      {&properties->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
      {&properties->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
      {&properties->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
      {&properties->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&properties->maxThreadsPerMultiProcessor,
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
      {&properties->regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
      {&properties->regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
      {&properties->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
      {&properties->concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
      {&properties->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
      {&properties->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
      {&properties->pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
  };
  for (const Field& field : fields) {
    driver.cuDeviceGetAttribute(field.target, field.attribute, device);
  }
  int shared = 0;
  driver.cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
  properties->sharedMemPerBlock = static_cast<size_t>(shared);
  return CUDA_SUCCESS;
}

CUstream Or(cudaStream_t stream, CUstream fallback) {
  return stream == nullptr ? fallback : stream;
}

}  // namespace

// These need no context, nor a device.
extern "C" cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
extern "C" cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = 0;
  const DriverFunctions* driver = nullptr;
  if (LoadDriver(&driver) == CUDA_SUCCESS) driver->cuDriverGetVersion(version);
  return cudaSuccess;
}
extern "C" cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  cudaGetDeviceCount_v3020_params params{count};
  *count = 0;
  return RuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaGetDeviceCount_v3020, "cudaGetDeviceCount",
                     &params, nullptr,
                     [&](const DriverFunctions& driver) { return driver.cuDeviceGetCount(count); });
}
extern "C" cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  cudaGetDevice_v3020_params params{device};
  return RuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, "cudaGetDevice", &params,
                     nullptr, [&](const DriverFunctions&) {
                       *device = CurrentDevice();
                       return CUDA_SUCCESS;
                     });
}
extern "C" cudaError_t CUDARTAPI cudaSetDevice(int device) {
  cudaSetDevice_v3020_params params{device};
  return RuntimeCall(CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020, "cudaSetDevice", &params,
                     nullptr,
                     [&](const DriverFunctions& driver) { return SelectDevice(driver, device); });
}
extern "C" cudaError_t CUDARTAPI cudaGetLastError(void) { return LastRuntimeError(true); }
extern "C" cudaError_t CUDARTAPI cudaPeekAtLastError(void) { return LastRuntimeError(false); }

extern "C" const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStubLibrary:
      return "cudaErrorStubLibrary";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    default:
      return "cudaErrorUnknown";
  }
}
extern "C" const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}

#if CUDART_VERSION >= 13000
SIM_RT(cudaGetDeviceProperties, v12000, (cudaDeviceProp * prop, int device), (prop, device),
       return FillProperties(driver, prop, device);)
#endif
SIM_RT(cudaDeviceGetAttribute, v5000, (int* value, cudaDeviceAttr attr, int device),
       (value, attr, device),
       return driver.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), device);)
SIM_RT0(cudaDeviceSynchronize, v3020, return driver.cuCtxSynchronize();)
SIM_RT0(cudaDeviceReset, v3020, return driver.cuCtxSynchronize();)
SIM_RT(cudaDeviceCanAccessPeer, v4000, (int* canAccessPeer, int device, int peerDevice),
       (canAccessPeer, device, peerDevice),
       return driver.cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice);)
SIM_RT(cudaDeviceEnablePeerAccess, v4000, (int peerDevice, unsigned int flags), (peerDevice, flags),
       {
         CUcontext peer = nullptr;
         const CUresult result = PrimaryContext(driver, peerDevice, &peer);
         return result != CUDA_SUCCESS ? result : driver.cuCtxEnablePeerAccess(peer, flags);
       })
SIM_RT(cudaDeviceGetStreamPriorityRange, v5050, (int* leastPriority, int* greatestPriority),
       (leastPriority, greatestPriority),
       return driver.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority);)

SIM_RT(cudaStreamCreate, v3020, (cudaStream_t * pStream), (pStream),
       return driver.cuStreamCreateWithPriority(pStream, CU_STREAM_DEFAULT, 0);)
SIM_RT(cudaStreamCreateWithFlags, v5000, (cudaStream_t * pStream, unsigned int flags),
       (pStream, flags), return driver.cuStreamCreateWithPriority(pStream, flags, 0);)
SIM_RT(cudaStreamCreateWithPriority, v5050,
       (cudaStream_t * pStream, unsigned int flags, int priority), (pStream, flags, priority),
       return driver.cuStreamCreateWithPriority(pStream, flags, priority);)
SIM_RT(cudaStreamDestroy, v5050, (cudaStream_t stream), (stream),
       return driver.cuStreamDestroy_v2(stream);)
SIM_RT_STREAM(cudaStreamSynchronize, v3020, v7000, (cudaStream_t stream), (stream),
              return driver.cuStreamSynchronize(Or(stream, DefaultStream));)
SIM_RT_STREAM(cudaStreamQuery, v3020, v7000, (cudaStream_t stream), (stream),
              return driver.cuStreamQuery(Or(stream, DefaultStream));)
SIM_RT_STREAM(cudaStreamWaitEvent, v3020, v7000,
              (cudaStream_t stream, cudaEvent_t event, unsigned int flags), (stream, event, flags),
              return driver.cuStreamWaitEvent(Or(stream, DefaultStream), event, flags);)
SIM_RT_STREAM(cudaStreamGetPriority, v5050, v7000, (cudaStream_t hStream, int* priority),
              (hStream, priority),
              return driver.cuStreamGetPriority(Or(hStream, DefaultStream), priority);)
SIM_RT_STREAM(cudaLaunchHostFunc, v10000, v10000,
              (cudaStream_t stream, cudaHostFn_t fn, void* userData), (stream, fn, userData),
              return driver.cuLaunchHostFunc(Or(stream, DefaultStream), fn, userData);)

SIM_RT(cudaEventCreate, v3020, (cudaEvent_t * event), (event),
       return driver.cuEventCreate(event, CU_EVENT_DEFAULT);)
SIM_RT(cudaEventCreateWithFlags, v3020, (cudaEvent_t * event, unsigned int flags), (event, flags),
       return driver.cuEventCreate(event, flags);)
SIM_RT(cudaEventDestroy, v3020, (cudaEvent_t event), (event),
       return driver.cuEventDestroy_v2(event);)
SIM_RT_STREAM(cudaEventRecord, v3020, v7000, (cudaEvent_t event, cudaStream_t stream),
              (event, stream), return driver.cuEventRecord(event, Or(stream, DefaultStream));)
SIM_RT_STREAM(cudaEventRecordWithFlags, v11010, v11010,
              (cudaEvent_t event, cudaStream_t stream, unsigned int flags), (event, stream, flags),
              return driver.cuEventRecordWithFlags(event, Or(stream, DefaultStream), flags);)
SIM_RT(cudaEventQuery, v3020, (cudaEvent_t event), (event), return driver.cuEventQuery(event);)
SIM_RT(cudaEventSynchronize, v3020, (cudaEvent_t event), (event),
       return driver.cuEventSynchronize(event);)
#if CUDART_VERSION >= 12080
SIM_RT(cudaEventElapsedTime, v12080, (float* ms, cudaEvent_t start, cudaEvent_t end),
       (ms, start, end), return driver.cuEventElapsedTime(ms, start, end);)
#else
SIM_RT(cudaEventElapsedTime, v3020, (float* ms, cudaEvent_t start, cudaEvent_t end),
       (ms, start, end), return driver.cuEventElapsedTime(ms, start, end);)
#endif

SIM_RT0(cudaProfilerStart, v4000, return driver.cuProfilerStart();)
SIM_RT0(cudaProfilerStop, v4000, return driver.cuProfilerStop();)
