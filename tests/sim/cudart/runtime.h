// A small runtime of our own over the public driver API, so that runtime-API programs exist on the
// simulated device. It runs on a real driver too, minus the announcement of its own calls.
//
// Threads: any. Failure: cudaError_t codes, which have the numbers of the driver's; a process with
// no driver library answers cudaErrorInsufficientDriver, as the real runtime does.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti_runtime_cbid.h>

#include "tool_interface.h"

// Declared here: their header comes in a package of its own.
extern "C" CUresult CUDAAPI cuProfilerStart(void);
extern "C" CUresult CUDAAPI cuProfilerStop(void);

namespace stepagent::sim {

// The driver functions in use, found by name in libcuda.so.1.
#define SIM_DRIVER_FUNCTIONS(X)                                                                   \
  X(cuInit)                                                                                       \
  X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(                  \
      cuDeviceTotalMem_v2) X(cuDeviceGetAttribute) X(cuDeviceGetUuid_v2) X(cuDeviceCanAccessPeer) \
      X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset_v2) X(cuCtxSetCurrent) X(             \
          cuCtxGetCurrent) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess)                           \
          X(cuCtxGetStreamPriorityRange) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemAllocAsync) X(   \
              cuMemFreeAsync) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister_v2)          \
              X(cuMemHostUnregister) X(cuMemAllocManaged) X(cuMemGetInfo_v2) X(                   \
                  cuPointerGetAttributes) X(cuMemcpy) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2)       \
                  X(cuMemcpyDtoD_v2) X(cuMemcpyAsync) X(cuMemcpyHtoDAsync_v2) X(                  \
                      cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpy2D_v2)              \
                      X(cuMemcpy2DAsync_v2) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(               \
                          cuMemsetD8_v2) X(cuMemsetD8Async) X(cuStreamCreateWithPriority)         \
                          X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamQuery) X(        \
                              cuStreamWaitEvent) X(cuStreamGetPriority) X(cuEventCreate)          \
                              X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventRecordWithFlags) X(  \
                                  cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime)       \
                                  X(cuModuleLoadData) X(cuModuleGetFunction) X(                   \
                                      cuFuncGetAttribute) X(cuLaunchKernel) X(cuLaunchKernelEx)   \
                                      X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) X(         \
                                          cuStreamBeginCapture_v2) X(cuStreamEndCapture)          \
                                          X(cuStreamIsCapturing) X(cuGraphCreate) X(              \
                                              cuGraphDestroy) X(cuGraphInstantiateWithFlags)      \
                                              X(cuGraphLaunch) X(cuGraphUpload) X(                \
                                                  cuGraphExecDestroy) X(cuGraphGetNodes)          \
                                                  X(cuProfilerStart) X(cuProfilerStop) X(         \
                                                      cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)

struct DriverFunctions {
#define SIM_FUNCTION_FIELD(name) decltype(&::name) name = nullptr;
  SIM_DRIVER_FUNCTIONS(SIM_FUNCTION_FIELD)
#undef SIM_FUNCTION_FIELD
  const DriverTable* table = nullptr;  // NULL on a real driver
};

// The driver, loaded and initialised on the first call; `driver` stays NULL on failure.
CUresult LoadDriver(const DriverFunctions** driver);
// Makes the calling thread's device current, retaining its primary context on first use.
CUresult UseDevice(const DriverFunctions& driver);
CUresult PrimaryContext(const DriverFunctions& driver, int device, CUcontext* context);
int CurrentDevice();
CUresult SelectDevice(const DriverFunctions& driver, int device);
void ForgetDevice();

// A kernel from what programs pass as `func`.
CUresult ResolveKernel(const DriverFunctions& driver, const void* func, CUfunction* function);

void RememberRuntimeError(cudaError_t error);
cudaError_t LastRuntimeError(bool clear);

// Announces the call to the simulated driver's tools around `body(driver)`.
class RuntimeFrame {
 public:
  RuntimeFrame(const DriverFunctions& driver, uint32_t cbid, const char* name, const void* params,
               const char* symbol);
  cudaError_t Finish(CUresult result);

 private:
  const DriverTable* table_;
  ApiFrame frame_{};
  cudaError_t error_ = cudaSuccess;
};

template <class Body>
cudaError_t RuntimeCall(uint32_t cbid, const char* name, const void* params, const void* func,
                        Body&& body) {
  const DriverFunctions* driver = nullptr;
  CUresult result = LoadDriver(&driver);
  if (result != CUDA_SUCCESS) {
    RememberRuntimeError(static_cast<cudaError_t>(result));
    return static_cast<cudaError_t>(result);
  }
  const char* symbol = nullptr;
  CUfunction function = nullptr;
  if (func != nullptr && driver->table != nullptr) {
    if (ResolveKernel(*driver, func, &function) == CUDA_SUCCESS) {
      symbol = driver->table->function_name(function);
    }
  }
  RuntimeFrame frame(*driver, cbid, name, params, symbol);
  return frame.Finish(body(*driver));
}

}  // namespace stepagent::sim

#define SIM_RT_UNWRAP(...) __VA_ARGS__
// An exported runtime function: name, the version in its callback id, parameters, arguments, body.
// The body sees `driver` and has a current context.
#define SIM_RT_FUNC(name, version, func, parameters, arguments, ...)                        \
  extern "C" cudaError_t CUDARTAPI name parameters {                                        \
    name##_##version##_params call_params{SIM_RT_UNWRAP arguments};                         \
    return ::stepagent::sim::RuntimeCall(                                                   \
        CUPTI_RUNTIME_TRACE_CBID_##name##_##version, #name, &call_params, func,             \
        [&]([[maybe_unused]] const ::stepagent::sim::DriverFunctions& driver) -> CUresult { \
          const CUresult context_result = ::stepagent::sim::UseDevice(driver);              \
          if (context_result != CUDA_SUCCESS) return context_result;                        \
          __VA_ARGS__                                                                       \
        });                                                                                 \
  }
#define SIM_RT(name, version, parameters, arguments, ...) \
  SIM_RT_FUNC(name, version, nullptr, parameters, arguments, __VA_ARGS__)
// One without parameters.
#define SIM_RT0(name, version, ...)                                                         \
  extern "C" cudaError_t CUDARTAPI name(void) {                                             \
    return ::stepagent::sim::RuntimeCall(                                                   \
        CUPTI_RUNTIME_TRACE_CBID_##name##_##version, #name, nullptr, nullptr,               \
        [&]([[maybe_unused]] const ::stepagent::sim::DriverFunctions& driver) -> CUresult { \
          const CUresult context_result = ::stepagent::sim::UseDevice(driver);              \
          if (context_result != CUDA_SUCCESS) return context_result;                        \
          __VA_ARGS__                                                                       \
        });                                                                                 \
  }
// With a stream, in its legacy and per-thread-default-stream forms; the body sees `DefaultStream`,
// what a NULL stream means in it.
#define SIM_RT_STREAM_FUNC(name, version, ptsz_version, func, parameters, arguments, ...) \
  SIM_RT_FUNC(name, version, func, parameters, arguments,                                 \
              [[maybe_unused]] const CUstream DefaultStream = nullptr;                    \
              __VA_ARGS__)                                                                \
  SIM_RT_FUNC(name##_ptsz, ptsz_version, func, parameters, arguments,                     \
              [[maybe_unused]] const CUstream DefaultStream = CU_STREAM_PER_THREAD;       \
              __VA_ARGS__)
#define SIM_RT_STREAM(name, version, ptsz_version, parameters, arguments, ...) \
  SIM_RT_STREAM_FUNC(name, version, ptsz_version, nullptr, parameters, arguments, __VA_ARGS__)
