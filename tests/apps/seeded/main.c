// seeded: a training loop with one known fault, or none, for the rules that read a trace.
//
// The healthy loop keeps the device busy: the host runs two steps ahead, the next batch is copied
// beside the work. Each fault changes one thing only. Durations are set where the device is
// simulated; on a real one every kernel stays at least as long by itself.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stepagent_sim.h"
#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

enum {
  kLag = 2,           // steps the host runs ahead
  kKernels = 16,      // of a healthy step
  kKernelUs = 10000,  // each: two steps ahead outlast what a busy machine holds the host up
  kCount = 1 << 14,   // elements of every buffer
  kTinyKernels = 2000,
  kConstantBytes = 4 << 20
};

typedef enum Fault {
  kHealthy,
  kLoader,    // host time in a range that launches nothing
  kConstant,  // the same pinned buffer copied each step, the work waiting for it
  kTiny,      // two thousand tiny kernels
  kLong,      // one long kernel beside short ones
  kSync,      // a wait behind every kernel
  kAlloc,     // memory allocated and freed
  kPageable,  // the batch from pageable memory, the work waiting for it
  kBorder,    // host time between the steps
  kStreams,   // two streams, one always waiting for the other
  kName,      // a mail address in a range's name
  kUnsteady,  // every third step runs more kernels
  kDrift      // each step's kernels are longer than the last's
} Fault;

typedef struct Loop {
  int fault;
  uint32_t steps;
  Device device;
  stepagent_sim_next_duration_ns_fn next_duration;  // NULL on a real device
  CUstream compute, copy, side;
  CUevent copied, done[kLag + 1], ordered;
  CUdeviceptr input, buffers[4], constant;
  void* pinned;
  void* pageable;
} Loop;

static const char kHelp[] =
    "seeded [options]: a training loop with one known fault; NVTX range train_step per step\n"
    "  --fault KIND   healthy (default), loader, constant, tiny, long, sync, alloc, pageable,\n"
    "                 border, streams, name, unsteady, drift\n"
    "  --steps N      steps, default 7\n";

static void Lasts(Loop* loop, uint64_t us) {
  loop->device.kernel_min_ns = us * 1000;
  if (loop->next_duration != NULL) loop->next_duration(us * 1000);
}

static void Spin(double seconds) {
  const double end = MonotonicSeconds() + seconds;
  while (MonotonicSeconds() < end) {
  }
}

static void Open(Loop* loop) {
  char reason[160];
  if (!DeviceOpen(&loop->device, 0, 0, reason, sizeof reason)) {
    printf("seeded: no device: %s\n", reason);
    exit(77);
  }
  Driver* driver = &loop->device.driver;
  loop->next_duration =
      (stepagent_sim_next_duration_ns_fn)DriverSymbol(driver, "stepagent_sim_next_duration_ns");
  CUstream* const streams[] = {&loop->compute, &loop->copy, &loop->side};
  for (int i = 0; i < 3; i++) CU(driver, cuStreamCreate, (streams[i], CU_STREAM_NON_BLOCKING));
  CU(driver, cuEventCreate, (&loop->copied, CU_EVENT_DISABLE_TIMING));
  CU(driver, cuEventCreate, (&loop->ordered, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i <= kLag; i++)
    CU(driver, cuEventCreate, (&loop->done[i], CU_EVENT_DISABLE_TIMING));
  CU(driver, cuMemHostAlloc, (&loop->pinned, kConstantBytes, 0));
  loop->pageable = calloc(1, kConstantBytes);
  Require(loop->pageable != NULL, "calloc");
  loop->input = DeviceAllocate(&loop->device, kCount * sizeof(float));
  loop->constant = DeviceAllocate(&loop->device, kConstantBytes);
  for (int i = 0; i < 4; i++) {
    loop->buffers[i] = DeviceAllocate(&loop->device, kCount * sizeof(float));
  }
}

static void Launch(Loop* loop, CUstream stream, KernelId kernel, uint64_t us) {
  Lasts(loop, us);
  DeviceLaunch(&loop->device, stream, kernel, loop->buffers, 0.5f, kCount);
}

static void LoadBatch(Loop* loop) {
  nvtxRangePushA("load_batch");
  if (loop->fault == kLoader) usleep(500000);
  nvtxRangePop();
}

// Healthy: a small batch on a stream of its own, beside the work of the step before.
static void CopyIn(Loop* loop) {
  Driver* driver = &loop->device.driver;
  nvtxRangePushA("copy_in");
  if (loop->fault == kConstant || loop->fault == kPageable) {
    const bool is_pageable = loop->fault == kPageable;
    Lasts(loop, 40000);
    CU(driver, cuMemcpyHtoDAsync,
       (loop->constant, is_pageable ? loop->pageable : loop->pinned, kConstantBytes,
        loop->compute));
  }
  Lasts(loop, 100);
  CU(driver, cuMemcpyHtoDAsync, (loop->input, loop->pinned, kCount * sizeof(float), loop->copy));
  CU(driver, cuEventRecord, (loop->copied, loop->copy));
  CU(driver, cuStreamWaitEvent, (loop->compute, loop->copied, 0));
  nvtxRangePop();
}

static KernelId NthKernel(int n) { return (KernelId)(n % kKernelCount); }

static void TinyKernels(Loop* loop) {
  for (int i = 0; i < kTinyKernels; i++) {
    Launch(loop, loop->compute, NthKernel(i), 1);
    Spin(25e-6);  // what a framework does between two launches
  }
}

static void OneKernel(Loop* loop, uint32_t step, int n) {
  Driver* driver = &loop->device.driver;
  uint64_t us = kKernelUs;
  CUstream stream = loop->compute;
  if (loop->fault == kLong) us = n == 0 ? 120000 : 2500;
  if (loop->fault == kDrift) us += us * step / 20;
  if (loop->fault == kSync) us = 4000;
  if (loop->fault == kStreams && n % 4 == 3) {  // the side stream behind the main one, and back
    CU(driver, cuEventRecord, (loop->ordered, loop->compute));
    CU(driver, cuStreamWaitEvent, (loop->side, loop->ordered, 0));
    stream = loop->side;
  }
  Launch(loop, stream, NthKernel(n), us);
  if (stream == loop->side) {
    CU(driver, cuEventRecord, (loop->ordered, loop->side));
    CU(driver, cuStreamWaitEvent, (loop->compute, loop->ordered, 0));
  }
  if (loop->fault == kSync) {
    CU(driver, cuStreamSynchronize, (loop->compute));
    usleep(2000);  // what the host does with the value it read
  }
}

static void Kernels(Loop* loop, uint32_t step) {
  nvtxRangePushA(loop->fault == kName ? "forward for jane.doe@example.org" : "forward");
  if (loop->fault == kTiny) {
    TinyKernels(loop);
  } else {
    const int extra = loop->fault == kUnsteady && step % 3 == 2 ? 2 : 0;
    for (int i = 0; i < kKernels + extra; i++) OneKernel(loop, step, i);
  }
  nvtxRangePop();
}

static void AllocateAndFree(Loop* loop) {
  CUdeviceptr scratch = DeviceAllocate(&loop->device, 1 << 20);
  CU(&loop->device.driver, cuMemFree, (scratch));
}

static void Step(Loop* loop, uint32_t step) {
  Driver* driver = &loop->device.driver;
  nvtxRangePushA("train_step");
  LoadBatch(loop);
  CopyIn(loop);
  Kernels(loop, step);
  if (loop->fault == kAlloc) AllocateAndFree(loop);
  CU(driver, cuEventRecord, (loop->done[step % (kLag + 1)], loop->compute));
  if (loop->fault == kBorder) CU(driver, cuStreamSynchronize, (loop->compute));
  if (step >= kLag) CU(driver, cuEventSynchronize, (loop->done[(step - kLag) % (kLag + 1)]));
  nvtxRangePop();
  if (loop->fault == kBorder) usleep(100000);
}

int main(int argc, char** argv) {
  static const char* const kFaults[] = {"healthy", "loader",   "constant", "tiny",   "long",
                                        "sync",    "alloc",    "pageable", "border", "streams",
                                        "name",    "unsteady", "drift",    NULL};
  static Loop loop;
  loop.steps = 7;
  const OptionSpec options[] = {{"fault", kOptionChoice, &loop.fault, 0, 0, kFaults},
                                {"steps", kOptionNumber32, &loop.steps, 0, 1000000, NULL},
                                {NULL, kOptionFlag, NULL, 0, 0, NULL}};
  ParseOnlyOptions(argc, argv, options, kHelp);
  Open(&loop);
  for (uint32_t step = 0; step < loop.steps; step++) Step(&loop, step);
  CU(&loop.device.driver, cuCtxSynchronize, ());
  printf("seeded: %s, %u steps done\n", kFaults[loop.fault], loop.steps);
  DeviceClose(&loop.device);
  return 0;
}
