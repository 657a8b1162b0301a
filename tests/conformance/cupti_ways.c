// cupti_ways: ways of using CUDA and CUPTI that only a test of a tracer cares about.
#include <cupti.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "cupti_ways WAY [STEPS] [STEP_US] [CUPTI]: STEPS (20) steps of at least STEP_US (2000)\n"
    "  recycle   step i makes, launches and destroys a graph of i + 1 kernels\n"
    "  capture   each step captures a graph of two kernels from a stream and launches it\n"
    "  conditional  each step launches a graph of one kernel and two conditional nodes: one whose\n"
    "            body of two kernels runs, one whose body of three does not\n"
    "  inside    CUDA is first used inside the first step; one kernel a step\n"
    "  attach    one kernel a step; at the start of step 5 a thread of its own loads the library "
    "CUPTI\n"
    "            (its last argument) and calls stepagent_attach() of it twice\n"
    "  contexts  each step runs a kernel in the primary context and two in one of its own\n"
    "  peer      each step copies 4096 bytes from device 0 to device 1 and 8192 back\n"
    "  finalise  one kernel a step; in step 8 uses CUPTI (the library CUPTI, default\n"
    "            libcupti.so.13) for itself, if the subscription is free, and finalises it\n";

enum { kBytes = 8192, kFinaliseAt = 8, kAttachAt = 5 };

// What the shared table of driver functions lacks.
typedef struct Extra {
  CUresult (*cuCtxCreate)(CUcontext*, unsigned, CUdevice);
  CUresult (*cuCtxDestroy)(CUcontext);
  CUresult (*cuMemcpyPeerAsync)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
#if CUDA_VERSION >= 12040
  CUresult (*cuGraphConditionalHandleCreate)(CUgraphConditionalHandle*, CUgraph, CUcontext,
                                             unsigned, unsigned);
  CUresult (*cuGraphAddNode)(CUgraphNode*, CUgraph, const CUgraphNode*, const CUgraphEdgeData*,
                             size_t, CUgraphNodeParams*);
#endif
} Extra;

typedef struct Run {
  Device devices[2];
  CUstream stream;
  CUdeviceptr memory[2];
  CUcontext own;
  CUstream own_stream;
  CUdeviceptr own_memory;
  Device own_device;
  Extra extra;
  const char* cupti;
} Run;

typedef struct Way {
  const char* name;
  int devices;
  void (*step)(Run* run, uint64_t index);
} Way;

static void Launch(const Device* device, CUstream stream, CUdeviceptr memory) {
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  DeviceLaunch(device, stream, kKernelForwardRelu, pointers, 0, 256);
}

static void Recycle(Run* run, uint64_t index) {
  Device* device = &run->devices[0];
  const CUdeviceptr memory = run->memory[0];
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUgraphNode last = NULL;
  CU(&device->driver, cuGraphCreate, (&graph, 0));
  for (uint64_t i = 0; i <= index; i++) {
    last = DeviceAddNode(device, graph, last, kKernelForwardRelu, pointers, 0, 256);
  }
  CU(&device->driver, cuGraphInstantiateWithFlags, (&exec, graph, 0));
  CU(&device->driver, cuGraphLaunch, (exec, run->stream));
  CU(&device->driver, cuStreamSynchronize, (run->stream));
  CU(&device->driver, cuGraphExecDestroy, (exec));
  CU(&device->driver, cuGraphDestroy, (graph));
}

static void Capture(Run* run, uint64_t index) {
  (void)index;
  const Driver* driver = &run->devices[0].driver;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CU(driver, cuStreamBeginCapture, (run->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 2; i++) Launch(&run->devices[0], run->stream, run->memory[0]);
  CU(driver, cuStreamEndCapture, (run->stream, &graph));
  CU(driver, cuGraphInstantiateWithFlags, (&exec, graph, 0));
  CU(driver, cuGraphLaunch, (exec, run->stream));
  CU(driver, cuStreamSynchronize, (run->stream));
  CU(driver, cuGraphExecDestroy, (exec));
  CU(driver, cuGraphDestroy, (graph));
}

#if CUDA_VERSION >= 12040
// A node that runs `count` kernels if `value` is not 0, behind `previous`.
static CUgraphNode AddConditional(const Run* run, CUgraph graph, CUgraphNode previous,
                                  unsigned value, int count) {
  const Device* device = &run->devices[0];
  const CUdeviceptr memory = run->memory[0];
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  CUgraphConditionalHandle handle = 0;
  DriverCheck(&device->driver,
              run->extra.cuGraphConditionalHandleCreate(&handle, graph, device->context, value,
                                                        CU_GRAPH_COND_ASSIGN_DEFAULT),
              "cuGraphConditionalHandleCreate");
  CUgraphNodeParams params;
  memset(&params, 0, sizeof params);
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = CU_GRAPH_COND_TYPE_IF;
  params.conditional.size = 1;
  params.conditional.ctx = device->context;
  CUgraphNode node = NULL;
  DriverCheck(&device->driver, run->extra.cuGraphAddNode(&node, graph, &previous, NULL, 1, &params),
              "cuGraphAddNode_v2");
  CUgraphNode last = NULL;
  for (int i = 0; i < count; i++) {
    last = DeviceAddNode(device, params.conditional.phGraph_out[0], last, kKernelForwardRelu,
                         pointers, 0, 256);
  }
  return node;
}

static void Conditional(Run* run, uint64_t index) {
  (void)index;
  static CUgraphExec exec;
  Device* device = &run->devices[0];
  if (exec == NULL) {
    const CUdeviceptr memory = run->memory[0];
    const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
    CUgraph graph = NULL;
    CU(&device->driver, cuGraphCreate, (&graph, 0));
    CUgraphNode last = DeviceAddNode(device, graph, NULL, kKernelForwardRelu, pointers, 0, 256);
    last = AddConditional(run, graph, last, 1, 2);
    AddConditional(run, graph, last, 0, 3);
    CU(&device->driver, cuGraphInstantiateWithFlags, (&exec, graph, 0));
  }
  CU(&device->driver, cuGraphLaunch, (exec, run->stream));
  CU(&device->driver, cuStreamSynchronize, (run->stream));
}
#endif

static void OpenOwnContext(Run* run) {
  const Driver* driver = &run->devices[0].driver;
  DriverCheck(driver, run->extra.cuCtxCreate(&run->own, 0, run->devices[0].handle), "cuCtxCreate");
  // A module belongs to its context, so the kernels are loaded once more.
  run->own_device = run->devices[0];
  run->own_device.context = run->own;
  CU(driver, cuModuleLoadData, (&run->own_device.module, kStepPtx));
  CU(driver, cuModuleGetFunction,
     (&run->own_device.functions[kKernelForwardRelu], run->own_device.module,
      kKernelNames[kKernelForwardRelu]));
  CU(driver, cuStreamCreate, (&run->own_stream, CU_STREAM_NON_BLOCKING));
  run->own_memory = DeviceAllocate(&run->own_device, kBytes);
}

static void Contexts(Run* run, uint64_t index) {
  (void)index;
  const Driver* driver = &run->devices[0].driver;
  if (run->own == NULL) OpenOwnContext(run);
  DeviceBind(&run->devices[0]);
  Launch(&run->devices[0], run->stream, run->memory[0]);
  CU(driver, cuStreamSynchronize, (run->stream));
  CU(driver, cuCtxSetCurrent, (run->own));
  Launch(&run->own_device, run->own_stream, run->own_memory);
  Launch(&run->own_device, run->own_stream, run->own_memory);
  CU(driver, cuStreamSynchronize, (run->own_stream));
}

static void Peer(Run* run, uint64_t index) {
  (void)index;
  Device* a = &run->devices[0];
  Device* b = &run->devices[1];
  const Driver* driver = &a->driver;
  DeviceBind(a);
  DriverCheck(driver,
              run->extra.cuMemcpyPeerAsync(run->memory[1], b->context, run->memory[0], a->context,
                                           4096, run->stream),
              "cuMemcpyPeerAsync");
  DriverCheck(driver,
              run->extra.cuMemcpyPeerAsync(run->memory[0], a->context, run->memory[1], b->context,
                                           8192, run->stream),
              "cuMemcpyPeerAsync");
  CU(driver, cuStreamSynchronize, (run->stream));
}

static void CUPTIAPI OnCall(void* data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void* info) {
  (void)data;
  (void)domain;
  (void)id;
  (void)info;
}

static void FinaliseCupti(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("finalise: no %s\n", name);
    return;
  }
#define SYMBOL(function) \
  __typeof__(&function) function##_ = (__typeof__(&function))dlsym(library, #function)
  SYMBOL(cuptiSubscribe);
  SYMBOL(cuptiUnsubscribe);
  SYMBOL(cuptiFinalize);
#undef SYMBOL
  CUpti_SubscriberHandle subscriber;
  const int result = (int)cuptiSubscribe_(&subscriber, OnCall, NULL);
  printf("finalise: subscribe: %d\n", result);
  if (result == CUPTI_SUCCESS) cuptiUnsubscribe_(subscriber);
  printf("finalise: %d\n", (int)cuptiFinalize_());
}

static bool Open(Run* run, int devices);

static void Inside(Run* run, uint64_t index) {
  if (index == 0 && !Open(run, 1)) exit(77);
  Launch(&run->devices[0], run->stream, run->memory[0]);
  CU(&run->devices[0].driver, cuStreamSynchronize, (run->stream));
}

static void* LoadAndAttach(void* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  int (*attach)(void) = NULL;
  if (library != NULL) *(void**)&attach = dlsym(library, "stepagent_attach");
  if (attach == NULL) {
    printf("attach: %s\n", dlerror());
    return NULL;
  }
  const int first = attach();
  printf("attach: %d %d\n", first, attach());
  return NULL;
}

static void Attach(Run* run, uint64_t index) {
  if (index == kAttachAt) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, LoadAndAttach, (void*)run->cupti) != 0) abort();
    pthread_join(thread, NULL);
  }
  Launch(&run->devices[0], run->stream, run->memory[0]);
  CU(&run->devices[0].driver, cuStreamSynchronize, (run->stream));
}

static void Finalise(Run* run, uint64_t index) {
  if (index == kFinaliseAt) FinaliseCupti(run->cupti);
  Launch(&run->devices[0], run->stream, run->memory[0]);
  CU(&run->devices[0].driver, cuStreamSynchronize, (run->stream));
}

// What newer drivers have; false with a line where one is missing that the way needs.
static bool OpenConditional(Run* run) {
#if CUDA_VERSION >= 12040
  const Driver* driver = &run->devices[0].driver;
  *(void**)&run->extra.cuGraphConditionalHandleCreate =
      DriverSymbol(driver, "cuGraphConditionalHandleCreate");
  *(void**)&run->extra.cuGraphAddNode = DriverSymbol(driver, "cuGraphAddNode_v2");
  if (run->extra.cuGraphConditionalHandleCreate != NULL && run->extra.cuGraphAddNode != NULL) {
    return true;
  }
#else
  (void)run;
#endif
  printf("cupti_ways: no conditional nodes in this driver or its header\n");
  return false;
}

static bool Open(Run* run, int devices) {
  char reason[160];
  for (int i = 0; i < devices; i++) {
    if (!DeviceOpen(&run->devices[i], i, 0, reason, sizeof reason)) {
      printf("cupti_ways: %s\n", reason);
      return false;
    }
    run->memory[i] = DeviceAllocate(&run->devices[i], kBytes);
  }
  const Driver* driver = &run->devices[0].driver;
  DeviceBind(&run->devices[0]);
  CU(driver, cuStreamCreate, (&run->stream, CU_STREAM_NON_BLOCKING));
  *(void**)&run->extra.cuCtxCreate = DriverSymbol(driver, "cuCtxCreate_v2");
  *(void**)&run->extra.cuCtxDestroy = DriverSymbol(driver, "cuCtxDestroy_v2");
  *(void**)&run->extra.cuMemcpyPeerAsync = DriverSymbol(driver, "cuMemcpyPeerAsync");
  return true;
}

int main(int argc, char** argv) {
  static const Way ways[] = {
    {"recycle", 1, Recycle},
    {"capture", 1, Capture},
#if CUDA_VERSION >= 12040
    {"conditional", 1, Conditional},
#endif
    {"inside", 0, Inside},
    {"attach", 1, Attach},
    {"contexts", 1, Contexts},
    {"peer", 2, Peer},
    {"finalise", 1, Finalise}
  };
  HelpOption(argc, argv, kHelp);
  const Way* way = NULL;
  for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof ways[0]; i++) {
    if (strcmp(argv[1], ways[i].name) == 0) way = &ways[i];
  }
  if (way == NULL) return fputs(kHelp, stderr), 2;
  const uint64_t steps = argc > 2 ? ParseNumber("STEPS", argv[2], 0, 1000000) : 20;
  const uint64_t step_us = argc > 3 ? ParseNumber("STEP_US", argv[3], 0, 10000000) : 2000;
  static Run run;
  run.cupti = argc > 4 ? argv[4] : "libcupti.so.13";
  if (way->devices > 0 && !Open(&run, way->devices)) return 77;
  if (strcmp(way->name, "conditional") == 0 && !OpenConditional(&run)) return 77;
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    way->step(&run, step);
    usleep((useconds_t)step_us);
    nvtxRangePop();
  }
  if (run.own != NULL) {
    DriverCheck(&run.devices[0].driver, run.extra.cuCtxDestroy(run.own), "cuCtxDestroy");
  }
  printf("cupti_ways: %s, %llu steps\n", way->name, (unsigned long long)steps);
  return 0;
}
