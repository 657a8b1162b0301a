// Exported functions of the runtime: memory, copies, launches, graphs.
#include "cudart/runtime.h"
// Has no include guard: once per file, after the types it needs.
#include <generated_cuda_runtime_api_meta.h>

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUstream Or(cudaStream_t stream, CUstream fallback) {
  return stream == nullptr ? fallback : stream;
}

// The real runtime calls the driver function of the direction it was told.
CUresult CopyOn(const DriverFunctions& driver, void* dst, const void* src, size_t count,
                cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoDAsync_v2(Address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoHAsync_v2(dst, Address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoDAsync_v2(Address(dst), Address(src), count, stream);
    default:
      return driver.cuMemcpyAsync(Address(dst), Address(src), count, stream);
  }
}

CUresult CopyNow(const DriverFunctions& driver, void* dst, const void* src, size_t count,
                 cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoD_v2(Address(dst), src, count);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoH_v2(dst, Address(src), count);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoD_v2(Address(dst), Address(src), count);
    default:
      return driver.cuMemcpy(Address(dst), Address(src), count);
  }
}

CUDA_MEMCPY2D Rows(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                   size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy{};
  const bool from_host = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
  const bool to_host = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
  copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.srcHost = src;
  copy.srcDevice = Address(src);
  copy.srcPitch = spitch;
  copy.dstHost = dst;
  copy.dstDevice = Address(dst);
  copy.dstPitch = dpitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUresult CopyBetween(const DriverFunctions& driver, void* dst, int dst_device, const void* src,
                     int src_device, size_t count, CUstream stream, bool is_async) {
  CUcontext target = nullptr;
  CUcontext source = nullptr;
  CUresult result = PrimaryContext(driver, dst_device, &target);
  if (result == CUDA_SUCCESS) result = PrimaryContext(driver, src_device, &source);
  if (result != CUDA_SUCCESS) return result;
  return is_async
             ? driver.cuMemcpyPeerAsync(Address(dst), target, Address(src), source, count, stream)
             : driver.cuMemcpyPeer(Address(dst), target, Address(src), source, count);
}

CUresult Launch(const DriverFunctions& driver, const void* func, dim3 grid, dim3 block, void** args,
                size_t shared_bytes, CUstream stream, bool is_cooperative) {
  CUfunction function = nullptr;
  const CUresult result = ResolveKernel(driver, func, &function);
  if (result != CUDA_SUCCESS) return result;
  const auto shared = static_cast<unsigned>(shared_bytes);
  return is_cooperative
             ? driver.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                                block.z, shared, stream, args)
             : driver.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     shared, stream, args, nullptr);
}

CUresult LaunchEx(const DriverFunctions& driver, const cudaLaunchConfig_t& config, const void* func,
                  void** args, CUstream fallback) {
  CUfunction function = nullptr;
  const CUresult result = ResolveKernel(driver, func, &function);
  if (result != CUDA_SUCCESS) return result;
  CUlaunchConfig driver_config{};
  driver_config.gridDimX = config.gridDim.x;
  driver_config.gridDimY = config.gridDim.y;
  driver_config.gridDimZ = config.gridDim.z;
  driver_config.blockDimX = config.blockDim.x;
  driver_config.blockDimY = config.blockDim.y;
  driver_config.blockDimZ = config.blockDim.z;
  driver_config.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  driver_config.hStream = Or(config.stream, fallback);
  // The attributes have the driver's own layout and numbers.
  driver_config.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  driver_config.numAttrs = config.numAttrs;
  return driver.cuLaunchKernelEx(&driver_config, function, args, nullptr);
}

CUresult FillAttributes(const DriverFunctions& driver, cudaFuncAttributes* attributes,
                        const void* func) {
  CUfunction function = nullptr;
  const CUresult result = ResolveKernel(driver, func, &function);
  if (result != CUDA_SUCCESS) return result;
  *attributes = {};
  driver.cuFuncGetAttribute(&attributes->maxThreadsPerBlock,
                            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  driver.cuFuncGetAttribute(&attributes->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  driver.cuFuncGetAttribute(&attributes->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
  return CUDA_SUCCESS;
}

CUresult FillPointer(const DriverFunctions& driver, cudaPointerAttributes* attributes,
                     const void* pointer) {
  unsigned type = 0;
  int device = -1;
  unsigned is_managed = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&type, &device, &is_managed};
  const CUresult result = driver.cuPointerGetAttributes(3, names, values, Address(pointer));
  if (result != CUDA_SUCCESS) return result;
  *attributes = {};
  attributes->device = device;
  if (device < 0) {
    attributes->type = cudaMemoryTypeUnregistered;
  } else if (is_managed != 0) {
    attributes->type = cudaMemoryTypeManaged;
  } else {
    attributes->type = type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  }
  attributes->devicePointer = device < 0 ? nullptr : const_cast<void*>(pointer);
  attributes->hostPointer = type == CU_MEMORYTYPE_DEVICE ? nullptr : const_cast<void*>(pointer);
  return CUDA_SUCCESS;
}

CUdeviceptr* Out(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

}  // namespace

SIM_RT(cudaMalloc, v3020, (void** devPtr, size_t size), (devPtr, size),
       return driver.cuMemAlloc_v2(Out(devPtr), size);)
SIM_RT(cudaFree, v3020, (void* devPtr), (devPtr),
       return devPtr == nullptr ? CUDA_SUCCESS : driver.cuMemFree_v2(Address(devPtr));)
SIM_RT_STREAM(cudaMallocAsync, v11020, v11020, (void** devPtr, size_t size, cudaStream_t hStream),
              (devPtr, size, hStream),
              return driver.cuMemAllocAsync(Out(devPtr), size, Or(hStream, DefaultStream));)
SIM_RT_STREAM(cudaFreeAsync, v11020, v11020, (void* devPtr, cudaStream_t hStream),
              (devPtr, hStream),
              return driver.cuMemFreeAsync(Address(devPtr), Or(hStream, DefaultStream));)
SIM_RT(cudaMallocHost, v3020, (void** ptr, size_t size), (ptr, size),
       return driver.cuMemHostAlloc(ptr, size, 0);)
SIM_RT(cudaHostAlloc, v3020, (void** pHost, size_t size, unsigned int flags), (pHost, size, flags),
       return driver.cuMemHostAlloc(pHost, size, flags);)
SIM_RT(cudaFreeHost, v3020, (void* ptr), (ptr),
       return ptr == nullptr ? CUDA_SUCCESS : driver.cuMemFreeHost(ptr);)
SIM_RT(cudaHostRegister, v4000, (void* ptr, size_t size, unsigned int flags), (ptr, size, flags),
       return driver.cuMemHostRegister_v2(ptr, size, flags);)
SIM_RT(cudaHostUnregister, v4000, (void* ptr), (ptr), return driver.cuMemHostUnregister(ptr);)
SIM_RT(cudaMallocManaged, v6000, (void** devPtr, size_t size, unsigned int flags),
       (devPtr, size, flags), return driver.cuMemAllocManaged(Out(devPtr), size, flags);)
SIM_RT(cudaMemGetInfo, v3020, (size_t * free, size_t* total), (free, total),
       return driver.cuMemGetInfo_v2(free, total);)
SIM_RT(cudaPointerGetAttributes, v4000, (cudaPointerAttributes * attributes, const void* ptr),
       (attributes, ptr), return FillPointer(driver, attributes, ptr);)

SIM_RT(cudaMemcpy, v3020, (void* dst, const void* src, size_t count, cudaMemcpyKind kind),
       (dst, src, count, kind), return CopyNow(driver, dst, src, count, kind);)
SIM_RT_STREAM(cudaMemcpyAsync, v3020, v7000,
              (void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream),
              (dst, src, count, kind, stream),
              return CopyOn(driver, dst, src, count, kind, Or(stream, DefaultStream));)
SIM_RT(cudaMemcpy2D, v3020,
       (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
        cudaMemcpyKind kind),
       (dst, dpitch, src, spitch, width, height, kind), {
         const CUDA_MEMCPY2D copy = Rows(dst, dpitch, src, spitch, width, height, kind);
         return driver.cuMemcpy2D_v2(&copy);
       })
SIM_RT_STREAM(cudaMemcpy2DAsync, v3020, v7000,
              (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
               size_t height, cudaMemcpyKind kind, cudaStream_t stream),
              (dst, dpitch, src, spitch, width, height, kind, stream), {
                const CUDA_MEMCPY2D copy = Rows(dst, dpitch, src, spitch, width, height, kind);
                return driver.cuMemcpy2DAsync_v2(&copy, Or(stream, DefaultStream));
              })
SIM_RT(cudaMemcpyPeer, v4000,
       (void* dst, int dstDevice, const void* src, int srcDevice, size_t count),
       (dst, dstDevice, src, srcDevice, count),
       return CopyBetween(driver, dst, dstDevice, src, srcDevice, count, nullptr, false);)
SIM_RT(cudaMemcpyPeerAsync, v4000,
       (void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
        cudaStream_t stream),
       (dst, dstDevice, src, srcDevice, count, stream),
       return CopyBetween(driver, dst, dstDevice, src, srcDevice, count, stream, true);)
SIM_RT(cudaMemset, v3020, (void* devPtr, int value, size_t count), (devPtr, value, count),
       return driver.cuMemsetD8_v2(Address(devPtr), static_cast<unsigned char>(value), count);)
SIM_RT_STREAM(cudaMemsetAsync, v3020, v7000,
              (void* devPtr, int value, size_t count, cudaStream_t stream),
              (devPtr, value, count, stream),
              return driver.cuMemsetD8Async(Address(devPtr), static_cast<unsigned char>(value),
                                            count, Or(stream, DefaultStream));)

SIM_RT_STREAM_FUNC(cudaLaunchKernel, v7000, v7000, func,
                   (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                    cudaStream_t stream),
                   (func, gridDim, blockDim, args, sharedMem, stream),
                   return Launch(driver, func, gridDim, blockDim, args, sharedMem,
                                 Or(stream, DefaultStream), false);)
SIM_RT_STREAM_FUNC(cudaLaunchCooperativeKernel, v9000, v9000, func,
                   (const void* func, dim3 gridDim, dim3 blockDim, void** args, size_t sharedMem,
                    cudaStream_t stream),
                   (func, gridDim, blockDim, args, sharedMem, stream),
                   return Launch(driver, func, gridDim, blockDim, args, sharedMem,
                                 Or(stream, DefaultStream), true);)
SIM_RT_STREAM_FUNC(cudaLaunchKernelExC, v11060, v11060, func,
                   (const cudaLaunchConfig_t* config, const void* func, void** args),
                   (config, func, args), {
                     if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     return LaunchEx(driver, *config, func, args, DefaultStream);
                   })
SIM_RT(cudaFuncGetAttributes, v3020, (cudaFuncAttributes * attr, const void* func), (attr, func),
       return FillAttributes(driver, attr, func);)
SIM_RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, v7000,
       (int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize,
        unsigned int flags),
       (numBlocks, func, blockSize, dynamicSMemSize, flags), {
         CUfunction function = nullptr;
         const CUresult result = ResolveKernel(driver, func, &function);
         if (result != CUDA_SUCCESS) return result;
         return driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
             numBlocks, function, blockSize, dynamicSMemSize, flags);
       })

SIM_RT_STREAM(cudaStreamBeginCapture, v10000, v10000,
              (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode),
              return driver.cuStreamBeginCapture_v2(Or(stream, DefaultStream),
                                                    static_cast<CUstreamCaptureMode>(mode));)
SIM_RT_STREAM(cudaStreamEndCapture, v10000, v10000, (cudaStream_t stream, cudaGraph_t* pGraph),
              (stream, pGraph),
              return driver.cuStreamEndCapture(Or(stream, DefaultStream), pGraph);)
SIM_RT_STREAM(
    cudaStreamIsCapturing, v10000, v10000,
    (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus), (stream, pCaptureStatus),
    return driver.cuStreamIsCapturing(Or(stream, DefaultStream),
                                      reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus));)
SIM_RT(cudaGraphCreate, v10000, (cudaGraph_t * pGraph, unsigned int flags), (pGraph, flags),
       return driver.cuGraphCreate(pGraph, flags);)
SIM_RT(cudaGraphDestroy, v10000, (cudaGraph_t graph), (graph), return driver.cuGraphDestroy(graph);)
SIM_RT(cudaGraphGetNodes, v10000, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes),
       (graph, nodes, numNodes), return driver.cuGraphGetNodes(graph, nodes, numNodes);)
#if CUDART_VERSION >= 12000
SIM_RT(cudaGraphInstantiate, v12000,
       (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags),
       return driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags);)
#endif
SIM_RT(cudaGraphInstantiateWithFlags, v11040,
       (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags),
       return driver.cuGraphInstantiateWithFlags(pGraphExec, graph, flags);)
SIM_RT_STREAM(cudaGraphUpload, v10000, v10000, (cudaGraphExec_t graphExec, cudaStream_t stream),
              (graphExec, stream),
              return driver.cuGraphUpload(graphExec, Or(stream, DefaultStream));)
SIM_RT_STREAM(cudaGraphLaunch, v10000, v10000, (cudaGraphExec_t graphExec, cudaStream_t stream),
              (graphExec, stream),
              return driver.cuGraphLaunch(graphExec, Or(stream, DefaultStream));)
SIM_RT(cudaGraphExecDestroy, v10000, (cudaGraphExec_t graphExec), (graphExec),
       return driver.cuGraphExecDestroy(graphExec);)
