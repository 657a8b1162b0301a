// profiler_api: brackets some of its steps with the profiler control calls.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "profiler_api [FIRST] [LAST] [STEPS] [--driver]: cudaProfilerStart before step FIRST (5),\n"
    "  cudaProfilerStop after step LAST (7), STEPS (12) in all, one kernel each; --driver uses\n"
    "  cuProfilerStart and cuProfilerStop\n";

// Linked, as programs do, so that whoever comes first in symbol lookup is called.
int cudaProfilerStart(void);
int cudaProfilerStop(void);

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  const bool uses_driver = argc > 1 && strcmp(argv[argc - 1], "--driver") == 0;
  const int numbers = argc - (uses_driver ? 1 : 0);
  const uint64_t first = numbers > 1 ? ParseNumber("FIRST", argv[1], 0, 1000000) : 5;
  const uint64_t last = numbers > 2 ? ParseNumber("LAST", argv[2], 0, 1000000) : 7;
  const uint64_t steps = numbers > 3 ? ParseNumber("STEPS", argv[3], 0, 1000000) : 12;
  static Device device;
  char reason[160];
  if (!DeviceOpen(&device, 0, 0, reason, sizeof reason)) {
    return printf("profiler_api: %s\n", reason), 77;
  }
  const CUdeviceptr memory = DeviceAllocate(&device, 4096);
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  int start_result = -1, stop_result = -1;
  for (uint64_t step = 0; step < steps; step++) {
    if (step == first)
      start_result = uses_driver ? (int)device.driver.cuProfilerStart() : cudaProfilerStart();
    nvtxRangePushA("train_step");
    DeviceLaunch(&device, NULL, kKernelForwardRelu, pointers, 0, 256);
    CU(&device.driver, cuCtxSynchronize, ());
    usleep(1000);
    nvtxRangePop();
    if (step == last)
      stop_result = uses_driver ? (int)device.driver.cuProfilerStop() : cudaProfilerStop();
  }
  printf("profiler_api: start %d, stop %d, %llu steps\n", start_result, stop_result,
         (unsigned long long)steps);
  return 0;
}
