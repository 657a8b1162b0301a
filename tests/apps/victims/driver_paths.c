// driver_paths: the same launches by three ways to the driver's functions.
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "driver_paths WAY [STEPS]: STEPS (10) steps of three kernels, called through\n"
    "  dlsym          the exported symbol\n"
    "  proc_address   cuGetProcAddress, legacy default stream\n"
    "  per_thread     cuGetProcAddress, per-thread default stream\n";

// By hand, since headers older than CUDA 12 know neither the fifth parameter nor its type.
typedef CUresult (*GetProcAddress)(const char*, void**, int, cuuint64_t, int* found);
enum { kFound = 0, kNotLookedUp = -1 };

static const char* const kWays[] = {"dlsym", "proc_address", "per_thread", NULL};

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  if (argc < 2) return fputs(kHelp, stderr), 2;
  const int way = ParseChoice("WAY", argv[1], kWays);
  const uint64_t steps = argc > 2 ? ParseNumber("STEPS", argv[2], 0, 1000000) : 10;
  static Device device;
  char reason[160];
  if (!DeviceOpen(&device, 0, 0, reason, sizeof reason)) {
    return printf("driver_paths: %s\n", reason), 77;
  }
  if (way > 0) {
    const GetProcAddress get = (GetProcAddress)DriverSymbol(&device.driver, "cuGetProcAddress_v2");
    if (get == NULL) return puts("driver_paths: no cuGetProcAddress_v2"), 77;
    int found = kNotLookedUp;
    void* function = NULL;
    const cuuint64_t flags = way == 1 ? CU_GET_PROC_ADDRESS_LEGACY_STREAM
                                      : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    DriverCheck(&device.driver, get("cuLaunchKernel", &function, 12000, flags, &found),
                "cuGetProcAddress");
    Require(found == kFound && function != NULL, "cuLaunchKernel");
    device.driver.cuLaunchKernel = (__typeof__(device.driver.cuLaunchKernel))function;
  }
  const CUdeviceptr memory = DeviceAllocate(&device, 4096);
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    for (int i = 0; i < 3; i++) {
      DeviceLaunch(&device, NULL, kKernelForwardRelu, pointers, 0, 256);
    }
    CU(&device.driver, cuCtxSynchronize, ());
    nvtxRangePop();
  }
  CU(&device.driver, cuMemFree, (memory));
  DeviceClose(&device);
  printf("driver_paths: %s, %llu launches\n", kWays[way], (unsigned long long)steps * 3);
  return 0;
}
