#include "device.h"

#include <string.h>

#include "stepagent_sim.h"

enum { kBlockSize = 256 };

// The simulated device runs no PTX, so it gets kernels of the wanted duration; a real driver has no
// such symbol, and there the kernels keep their time themselves.
static void UseSimulatedKernels(Device* device) {
  const stepagent_sim_register_kernel_fn register_kernel =
      (stepagent_sim_register_kernel_fn)DriverSymbol(&device->driver,
                                                     "stepagent_sim_register_kernel");
  if (register_kernel == NULL) return;
  for (int i = 0; i < kKernelCount; i++) {
    device->functions[i] = (CUfunction)register_kernel(kKernelNames[i], device->kernel_min_ns);
  }
}

bool DeviceOpen(Device* device, int ordinal, uint64_t kernel_us, char* reason, size_t reason_size) {
  memset(device, 0, sizeof *device);
  Driver* driver = &device->driver;
  if (!DriverOpen(driver, ordinal, reason, reason_size)) return false;
  CU(driver, cuDeviceGet, (&device->handle, ordinal));
  CU(driver, cuDeviceGetName, (device->name, sizeof device->name, device->handle));
  CU(driver, cuDevicePrimaryCtxRetain, (&device->context, device->handle));
  DeviceBind(device);
  CU(driver, cuModuleLoadData, (&device->module, kStepPtx));
  for (int i = 0; i < kKernelCount; i++) {
    CU(driver, cuModuleGetFunction, (&device->functions[i], device->module, kKernelNames[i]));
  }
  device->kernel_min_ns = kernel_us * 1000;
  if (kernel_us > 0) UseSimulatedKernels(device);
  return true;
}

void DeviceClose(Device* device) {
  CU(&device->driver, cuModuleUnload, (device->module));
  CU(&device->driver, cuDevicePrimaryCtxRelease, (device->handle));
}

void DeviceBind(const Device* device) { CU(&device->driver, cuCtxSetCurrent, (device->context)); }

static void FillParameters(KernelArguments* arguments, void** parameters) {
  for (int i = 0; i < 4; i++) parameters[i] = &arguments->pointers[i];
  parameters[4] = &arguments->factor;
  parameters[5] = &arguments->count;
  parameters[6] = &arguments->min_ns;
}

static KernelArguments MakeArguments(const Device* device, const CUdeviceptr* pointers,
                                     float factor, uint32_t count) {
  KernelArguments arguments = {.factor = factor, .count = count, .min_ns = device->kernel_min_ns};
  memcpy(arguments.pointers, pointers, sizeof arguments.pointers);
  return arguments;
}

void DeviceLaunch(const Device* device, CUstream stream, KernelId kernel,
                  const CUdeviceptr* pointers, float factor, uint32_t count) {
  KernelArguments arguments = MakeArguments(device, pointers, factor, count);
  void* parameters[7];
  FillParameters(&arguments, parameters);
  const uint32_t blocks = (count + kBlockSize - 1) / kBlockSize;
  CU(&device->driver, cuLaunchKernel,
     (device->functions[kernel], blocks, 1, 1, kBlockSize, 1, 1, 0, stream, parameters, NULL));
}

CUgraphNode DeviceAddNode(const Device* device, CUgraph graph, CUgraphNode previous,
                          KernelId kernel, const CUdeviceptr* pointers, float factor,
                          uint32_t count) {
  KernelArguments arguments = MakeArguments(device, pointers, factor, count);
  void* parameters[7];
  FillParameters(&arguments, parameters);
  CUDA_KERNEL_NODE_PARAMS node;
  memset(&node, 0, sizeof node);
  node.func = device->functions[kernel];
  node.gridDimX = (count + kBlockSize - 1) / kBlockSize;
  node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = kBlockSize;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  CUgraphNode added = NULL;
  CU(&device->driver, cuGraphAddKernelNode,
     (&added, graph, previous == NULL ? NULL : &previous, previous == NULL ? 0 : 1, &node));
  return added;
}

CUdeviceptr DeviceAllocate(const Device* device, size_t bytes) {
  CUdeviceptr pointer = 0;
  CU(&device->driver, cuMemAlloc, (&pointer, bytes));
  return pointer;
}
