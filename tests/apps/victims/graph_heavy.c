// graph_heavy: one graph of many nodes, replayed many times.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "graph_heavy [options]: a step is one launch of a graph\n"
    "  --nodes N      kernels of the graph, default 100\n"
    "  --steps N      launches, default 20\n"
    "  --capture      capture it from a stream, with a range `capture` around, instead of building "
    "it\n"
    "  --kernel-us N  least duration of a kernel\n";

static CUgraph Build(const Device* device, uint64_t nodes, const CUdeviceptr* pointers) {
  CUgraph graph = NULL;
  CU(&device->driver, cuGraphCreate, (&graph, 0));
  CUgraphNode last = NULL;
  for (uint64_t i = 0; i < nodes; i++) {
    last = DeviceAddNode(device, graph, last, (KernelId)(i % 2), pointers, 0, 256);
  }
  return graph;
}

static CUgraph Capture(const Device* device, CUstream stream, uint64_t nodes,
                       const CUdeviceptr* pointers) {
  CUgraph graph = NULL;
  nvtxRangePushA("capture");
  CU(&device->driver, cuStreamBeginCapture, (stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (uint64_t i = 0; i < nodes; i++) {
    DeviceLaunch(device, stream, (KernelId)(i % 2), pointers, 0, 256);
  }
  CU(&device->driver, cuStreamEndCapture, (stream, &graph));
  nvtxRangePop();
  return graph;
}

int main(int argc, char** argv) {
  uint64_t nodes = 100, steps = 20, kernel_us = 0;
  bool captures = false;
  const OptionSpec options[] = {
      {"nodes", kOptionNumber, &nodes, 1, 1e6, NULL},
      {"steps", kOptionNumber, &steps, 0, 1e8, NULL},
      {"capture", kOptionFlag, &captures, 0, 0, NULL},
      {"kernel-us", kOptionNumber, &kernel_us, 0, 1e7, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  static Device device;
  char reason[160];
  if (!DeviceOpen(&device, 0, kernel_us, reason, sizeof reason)) {
    return printf("graph_heavy: %s\n", reason), 77;
  }
  const CUdeviceptr memory = DeviceAllocate(&device, 4096);
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  CUstream stream = NULL;
  CU(&device.driver, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph =
      captures ? Capture(&device, stream, nodes, pointers) : Build(&device, nodes, pointers);
  CUgraphExec exec = NULL;
  CU(&device.driver, cuGraphInstantiateWithFlags, (&exec, graph, 0));
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    CU(&device.driver, cuGraphLaunch, (exec, stream));
    CU(&device.driver, cuStreamSynchronize, (stream));
    nvtxRangePop();
  }
  CU(&device.driver, cuGraphExecDestroy, (exec));
  CU(&device.driver, cuGraphDestroy, (graph));
  CU(&device.driver, cuStreamDestroy, (stream));
  CU(&device.driver, cuMemFree, (memory));
  DeviceClose(&device);
  printf("graph_heavy: %llu launches of %llu kernels\n", (unsigned long long)steps,
         (unsigned long long)nodes);
  return 0;
}
