// multi_device: one process, all devices; device d runs d + 1 kernels a step.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "multi_device [DEVICES] [STEPS]: DEVICES (all) devices, STEPS (10) steps; device d runs d+1\n"
    "  kernels and one 4096 byte set in each step, on a stream of its own\n";

enum { kMaxDevices = 16 };

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  static Device devices[kMaxDevices];
  CUstream streams[kMaxDevices];
  CUdeviceptr memory[kMaxDevices];
  const int wanted = argc > 1 ? (int)ParseNumber("DEVICES", argv[1], 1, kMaxDevices) : kMaxDevices;
  const uint64_t steps = argc > 2 ? ParseNumber("STEPS", argv[2], 0, 1000000) : 10;
  char reason[160] = "";
  int count = 0;
  while (count < wanted && DeviceOpen(&devices[count], count, 0, reason, sizeof reason)) {
    CU(&devices[count].driver, cuStreamCreate, (&streams[count], CU_STREAM_NON_BLOCKING));
    memory[count] = DeviceAllocate(&devices[count], 4096);
    count++;
  }
  if (count == 0 || (argc > 1 && count < wanted)) return printf("multi_device: %s\n", reason), 77;
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    for (int i = 0; i < count; i++) {
      const CUdeviceptr pointers[4] = {memory[i], memory[i], memory[i], memory[i]};
      DeviceBind(&devices[i]);
      CU(&devices[i].driver, cuMemsetD8Async, (memory[i], 0, 4096, streams[i]));
      for (int k = 0; k <= i; k++) {
        DeviceLaunch(&devices[i], streams[i], kKernelForwardRelu, pointers, 0, 256);
      }
    }
    for (int i = 0; i < count; i++) {
      DeviceBind(&devices[i]);
      CU(&devices[i].driver, cuStreamSynchronize, (streams[i]));
    }
    nvtxRangePop();
  }
  printf("multi_device: %d devices, %llu steps\n", count, (unsigned long long)steps);
  return 0;
}
