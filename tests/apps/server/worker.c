#include "worker.h"

#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct Workspace {
  float* host;  // pinned with a device
  CUstream stream;
  CUdeviceptr input, weight, output;
} Workspace;

static Workspace CreateWorkspace(const Device* device) {
  const size_t bytes = sizeof(float) * kRequestElements;
  Workspace space = {0};
  if (device == NULL) {
    space.host = calloc(kRequestElements, sizeof(float));
    if (space.host == NULL) abort();
    return space;
  }
  DeviceBind(device);
  CU(&device->driver, cuMemHostAlloc, ((void**)&space.host, bytes, 0));
  CU(&device->driver, cuStreamCreate, (&space.stream, CU_STREAM_NON_BLOCKING));
  space.input = DeviceAllocate(device, bytes);
  space.weight = DeviceAllocate(device, bytes);
  space.output = DeviceAllocate(device, bytes);
  CU(&device->driver, cuMemsetD32Async,
     (space.weight, 0x3f800000u, kRequestElements, space.stream));
  return space;
}

static void DestroyWorkspace(const Device* device, Workspace* space) {
  if (device == NULL) {
    free(space->host);
    return;
  }
  CU(&device->driver, cuMemFree, (space->input));
  CU(&device->driver, cuMemFree, (space->weight));
  CU(&device->driver, cuMemFree, (space->output));
  CU(&device->driver, cuStreamDestroy, (space->stream));
  CU(&device->driver, cuMemFreeHost, (space->host));
}

static void Infer(const Worker* worker, const Workspace* space) {
  for (uint32_t i = 0; i < worker->kernels; i++) {
    const CUdeviceptr pointers[4] = {i == 0 ? space->input : space->output, space->weight,
                                     space->output, 0};
    if (worker->device != NULL) {
      DeviceLaunch(worker->device, space->stream, kKernelForwardLinear, pointers, 0.5f,
                   kRequestElements);
    } else {
      for (uint32_t k = 0; k < kRequestElements; k++) space->host[k] = space->host[k] + 0.5f;
    }
  }
}

static void Serve(const Worker* worker, Workspace* space, uint64_t request) {
  const size_t bytes = sizeof(float) * kRequestElements;
  const Device* device = worker->device;
  nvtxRangePushA("request");
  nvtxRangePushA("copy_in");
  for (uint32_t i = 0; i < kRequestElements; i++) space->host[i] = (float)(request % 997);
  if (device != NULL) {
    CU(&device->driver, cuMemcpyHtoDAsync, (space->input, space->host, bytes, space->stream));
  }
  nvtxRangePop();
  nvtxRangePushA("infer");
  Infer(worker, space);
  nvtxRangePop();
  nvtxRangePushA("copy_out");
  if (device != NULL) {
    CU(&device->driver, cuMemcpyDtoHAsync, (space->host, space->output, bytes, space->stream));
    CU(&device->driver, cuStreamSynchronize, (space->stream));
  }
  nvtxRangePop();
  nvtxRangePop();
  atomic_fetch_add_explicit(worker->served, 1, memory_order_relaxed);
}

void* WorkerMain(void* argument) {
  const Worker* worker = argument;
  Workspace space = CreateWorkspace(worker->device);
  uint64_t request = 0;
  while (QueueTake(worker->queue, &request)) Serve(worker, &space, request);
  DestroyWorkspace(worker->device, &space);
  return NULL;
}
