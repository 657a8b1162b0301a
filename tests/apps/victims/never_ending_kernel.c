// never_ending_kernel: a step launches work that does not end in this process' life.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepagent_sim.h"
#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "never_ending_kernel [AT] [STEPS] [STEP_US]: in step AT (5) of STEPS (20) launches a kernel "
    "that\n"
    "  does not end (on a real device: not within an hour), and goes on without waiting for it;\n"
    "  ends by _exit(0), since a polite exit would wait for the device\n";

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  const uint64_t at = argc > 1 ? ParseNumber("AT", argv[1], 0, 1000000) : 5;
  const uint64_t steps = argc > 2 ? ParseNumber("STEPS", argv[2], 0, 1000000) : 20;
  const uint64_t step_us = argc > 3 ? ParseNumber("STEP_US", argv[3], 0, 10000000) : 2000;
  static Device device;
  char reason[160];
  if (!DeviceOpen(&device, 0, 0, reason, sizeof reason)) {
    return printf("never_ending_kernel: %s\n", reason), 77;
  }
  const stepagent_sim_next_duration_ns_fn next_duration =
      (stepagent_sim_next_duration_ns_fn)DriverSymbol(&device.driver,
                                                      "stepagent_sim_next_duration_ns");
  CUstream stuck = NULL, busy = NULL;
  CU(&device.driver, cuStreamCreate, (&stuck, CU_STREAM_NON_BLOCKING));
  CU(&device.driver, cuStreamCreate, (&busy, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr memory = DeviceAllocate(&device, 4096);
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    if (step == at) {
      device.kernel_min_ns = 3600ull * 1000000000u;
      if (next_duration != NULL) next_duration(STEPAGENT_SIM_FOREVER);
      DeviceLaunch(&device, stuck, kKernelForwardLinear, pointers, 0, 32);
      device.kernel_min_ns = 0;
    }
    DeviceLaunch(&device, busy, kKernelForwardRelu, pointers, 0, 256);
    CU(&device.driver, cuStreamSynchronize, (busy));
    if (step_us > 0) usleep((useconds_t)step_us);
    nvtxRangePop();
  }
  printf("never_ending_kernel: %llu steps, one kernel left running\n", (unsigned long long)steps);
  fflush(stdout);
  _exit(0);
}
