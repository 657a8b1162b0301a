// One device with the kernels of step_ptx.h loaded: what every program here starts from.
//
// Thread rule: DeviceOpen and DeviceClose from one thread; the rest from any thread that has called
// DeviceBind.
// Failure rule: no usable device is `false` with a reason; a CUDA call that fails later ends the
// program with status 1 and the call's name.
#pragma once

#include "cuda_driver.h"
#include "step_ptx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Device {
  Driver driver;
  CUdevice handle;
  CUcontext context;
  CUmodule module;
  CUfunction functions[kKernelCount];
  uint64_t kernel_min_ns;
  char name[128];
} Device;

// `kernel_us` is the least duration of every kernel; 0 leaves it to the device. On return the
// primary context is current on the calling thread.
bool DeviceOpen(Device* device, int ordinal, uint64_t kernel_us, char* reason, size_t reason_size);
void DeviceClose(Device* device);

void DeviceBind(const Device* device);

void DeviceLaunch(const Device* device, CUstream stream, KernelId kernel,
                  const CUdeviceptr* pointers, float factor, uint32_t count);

// The same launch as a node of `graph` behind `previous` (NULL: first).
CUgraphNode DeviceAddNode(const Device* device, CUgraph graph, CUgraphNode previous,
                          KernelId kernel, const CUdeviceptr* pointers, float factor,
                          uint32_t count);

CUdeviceptr DeviceAllocate(const Device* device, size_t bytes);

#ifdef __cplusplus
}
#endif
