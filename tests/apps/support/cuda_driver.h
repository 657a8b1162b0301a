// The CUDA driver API by dlopen, for programs that must run with and without a driver.
//
// Thread rule: DriverOpen is called once, before other threads use the table; the table is
// constant afterwards.
// Failure rule: a missing library, symbol or device is a sentence in `reason`, never an exit; a
// call that fails later ends the program with the call's name and code (DriverCheck).
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// cuda.h maps a base name onto its current version (cuMemAlloc onto cuMemAlloc_v2). The list is
// expanded through that mapping, so field, type and looked-up symbol always agree.
// clang-format off
#define DRIVER_FUNCTIONS(X)                                                                    \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGetCount) X(cuDeviceGet)         \
  X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease)                  \
  X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize)                                    \
  X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleUnload)                                 \
  X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost)                                \
  X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync)                    \
  X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuMemsetD32Async)                                  \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent)             \
  X(cuStreamBeginCapture) X(cuStreamEndCapture)                                                \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize)                    \
  X(cuLaunchKernel) X(cuGraphCreate) X(cuGraphAddKernelNode) X(cuGraphInstantiateWithFlags)    \
  X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)                                     \
  X(cuProfilerStart) X(cuProfilerStop)
// clang-format on

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

typedef struct Driver {
  void* library;
#define DRIVER_FIELD(name) __typeof__(&name) name;
  DRIVER_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
} Driver;

// Loads the library and calls cuInit. True when at least `device + 1` devices exist. Otherwise
// `reason` says why in one line, and the program goes on without a device.
bool DriverOpen(Driver* driver, int device, char* reason, size_t reason_size);

// The default symbol of the driver library, or NULL: for what only the simulated device has.
void* DriverSymbol(const Driver* driver, const char* name);

// Ends the program with status 1 when `result` is an error.
void DriverCheck(const Driver* driver, CUresult result, const char* call);

// Evaluates driver->call, checked: CU(&driver, cuLaunchKernel, (args)).
#define CU(driver, function, arguments) \
  DriverCheck((driver), (driver)->function arguments, #function)

#ifdef __cplusplus
}
#endif
