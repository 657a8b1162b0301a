// runtime_loop: a program on the runtime API, whose calls nest driver calls.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stepagent_sim.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "runtime_loop [options]: per step two kernels, one set, copies in and out, one synchronise, "
    "all\n"
    "  through the simulated libcudart.so.13; --mixed launches one more kernel by the driver API\n"
    "  --steps N       default 12\n"
    "  --kernel-us N   duration of the kernels, default 50\n"
    "  --step-us N     host sleep in a step, default 1000\n"
    "  --failing       each step also makes a launch that fails (no grid)\n";

#define RUNTIME_FUNCTIONS(X)                                                                      \
  X(cudaSetDevice)                                                                                \
  X(cudaMalloc)                                                                                   \
  X(cudaFree) X(cudaMallocHost) X(cudaFreeHost) X(cudaStreamCreateWithFlags) X(cudaStreamDestroy) \
      X(cudaLaunchKernel) X(cudaMemcpyAsync) X(cudaMemsetAsync) X(cudaStreamSynchronize)          \
          X(cudaGetLastError)

enum { kBytes = 65536 };
typedef struct Loop {
#define RUNTIME_FIELD(name) __typeof__(&name) name;
  RUNTIME_FUNCTIONS(RUNTIME_FIELD)
#undef RUNTIME_FIELD
  __typeof__(&cuLaunchKernel) cuLaunchKernel;
  stepagent_sim_register_kernel_fn register_kernel;
  void *forward, *backward;
  cudaStream_t stream;
  void *device, *pinned;
  uint64_t step_us;
  bool is_mixed, fails;
} Loop;

static void Check(int result, const char* call) {
  if (result == 0) return;
  fprintf(stderr, "%s: %d\n", call, result);
  exit(1);
}

static int Load(Loop* loop) {
  void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (runtime == NULL || driver == NULL) return 0;
#define RUNTIME_LOOKUP(name)                             \
  loop->name = (__typeof__(&name))dlsym(runtime, #name); \
  if (loop->name == NULL) return 0;
  RUNTIME_FUNCTIONS(RUNTIME_LOOKUP)
#undef RUNTIME_LOOKUP
  loop->cuLaunchKernel = (__typeof__(&cuLaunchKernel))dlsym(driver, "cuLaunchKernel");
  loop->register_kernel =
      (stepagent_sim_register_kernel_fn)dlsym(driver, "stepagent_sim_register_kernel");
  return loop->cuLaunchKernel != NULL && loop->register_kernel != NULL;
}

static void Step(Loop* loop) {
  const dim3 grid = {64, 1, 1}, block = {256, 1, 1}, none = {0, 1, 1};
  void* arguments[1] = {&loop->device};
  nvtxRangePushA("train_step");
  Check(loop->cudaMemcpyAsync(loop->device, loop->pinned, kBytes, cudaMemcpyHostToDevice,
                              loop->stream),
        "cudaMemcpyAsync");
  Check(loop->cudaMemsetAsync(loop->device, 0, kBytes / 2, loop->stream), "cudaMemsetAsync");
  Check(loop->cudaLaunchKernel(loop->forward, grid, block, arguments, 0, loop->stream),
        "cudaLaunchKernel");
  Check(loop->cudaLaunchKernel(loop->backward, grid, block, arguments, 0, loop->stream),
        "cudaLaunchKernel");
  if (loop->is_mixed) {
    Check((int)loop->cuLaunchKernel((CUfunction)loop->forward, 1, 1, 1, 32, 1, 1, 0,
                                    (CUstream)loop->stream, arguments, NULL),
          "cuLaunchKernel");
  }
  if (loop->fails) {
    Check(loop->cudaLaunchKernel(loop->forward, none, block, arguments, 0, loop->stream) == 0,
          "cudaLaunchKernel without a grid");
    loop->cudaGetLastError();
  }
  Check(
      loop->cudaMemcpyAsync(loop->pinned, loop->device, 1024, cudaMemcpyDeviceToHost, loop->stream),
      "cudaMemcpyAsync");
  Check(loop->cudaStreamSynchronize(loop->stream), "cudaStreamSynchronize");
  if (loop->step_us > 0) usleep((useconds_t)loop->step_us);
  nvtxRangePop();
}

int main(int argc, char** argv) {
  static Loop loop = {.step_us = 1000};
  uint64_t steps = 12, kernel_us = 50;
  const OptionSpec options[] = {
      {"steps", kOptionNumber, &steps, 0, 1e8, NULL},
      {"kernel-us", kOptionNumber, &kernel_us, 0, 1e8, NULL},
      {"step-us", kOptionNumber, &loop.step_us, 0, 1e8, NULL},
      {"mixed", kOptionFlag, &loop.is_mixed, 0, 0, NULL},
      {"failing", kOptionFlag, &loop.fails, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  if (!Load(&loop)) return puts("runtime_loop: the simulated libraries are not found"), 77;
  Check(loop.cudaSetDevice(0), "cudaSetDevice");
  Check(loop.cudaMalloc(&loop.device, kBytes), "cudaMalloc");
  Check(loop.cudaMallocHost(&loop.pinned, kBytes), "cudaMallocHost");
  Check(loop.cudaStreamCreateWithFlags(&loop.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  loop.forward = loop.register_kernel("runtime_forward", kernel_us * 1000);
  loop.backward = loop.register_kernel("runtime_backward", kernel_us * 1000);
  for (uint64_t step = 0; step < steps; step++) Step(&loop);
  Check(loop.cudaStreamDestroy(loop.stream), "cudaStreamDestroy");
  Check(loop.cudaFreeHost(loop.pinned), "cudaFreeHost");
  Check(loop.cudaFree(loop.device), "cudaFree");
  printf("runtime_loop: %llu steps done\n", (unsigned long long)steps);
  return 0;
}
