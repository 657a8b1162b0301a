// fork_storm: threads hammer NVTX (and the device), main forks; how many children hang?
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "fork_storm [options]: each child dlopens a library, pushes one range and leaves by _exit(0)\n"
    "  --children N      default 1000\n"
    "  --threads N       that push ranges and launch kernels all the while, default 8\n"
    "  --library NAME    what a child loads, default libresolv.so.2\n"
    "  --steps-only      threads push ranges only, even if there is a device\n"
    "  --deadline S      a child that lives longer counts as hung and is killed, default 5\n";

enum { kMaxThreads = 64 };
static atomic_bool is_over;
static Device device;
static bool has_device;

static void Hammer(const CUdeviceptr* pointers, CUstream stream) {
  nvtxRangePushA("train_step");
  nvtxRangePushA("forward");
  if (has_device) {
    DeviceLaunch(&device, stream, kKernelForwardRelu, pointers, 0, 256);
    CU(&device.driver, cuStreamSynchronize, (stream));
  }
  nvtxRangePop();
  nvtxRangePop();
}

static void* HammerLoop(void* unused) {
  (void)unused;
  CUdeviceptr pointers[4] = {0};
  CUstream stream = NULL;
  if (has_device) {
    DeviceBind(&device);
    pointers[0] = DeviceAllocate(&device, 1024);
    CU(&device.driver, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
  }
  while (!atomic_load_explicit(&is_over, memory_order_relaxed)) Hammer(pointers, stream);
  return NULL;
}

static void ChildMain(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  nvtxRangePushA("train_step");
  nvtxRangePop();
  _exit(handle == NULL ? 3 : 0);
}

// Waits for the child, and kills it when it takes too long.
static void CountChild(pid_t child, double deadline, uint64_t* hung, uint64_t* failed) {
  int status = 0;
  if (!WaitChild(child, deadline, &status)) {
    ++*hung;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  } else if (status != 0) {
    ++*failed;
  }
}

int main(int argc, char** argv) {
  uint64_t children = 1000, thread_count = 8;
  const char* library = "libresolv.so.2";
  double deadline = 5;
  bool steps_only = false;
  const OptionSpec options[] = {
      {"children", kOptionNumber, &children, 0, 1e7, NULL},
      {"threads", kOptionNumber, &thread_count, 0, kMaxThreads, NULL},
      {"library", kOptionText, &library, 0, 0, NULL},
      {"steps-only", kOptionFlag, &steps_only, 0, 0, NULL},
      {"deadline", kOptionReal, &deadline, 0, 3600, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  char reason[160];
  has_device = !steps_only && DeviceOpen(&device, 0, 0, reason, sizeof reason);
  // A fork in the middle of NVTX's first call leaves the child waiting for a thread it does not
  // have, with any tool and with a slow disk alone: that is NVTX's, and not tried here.
  PlainStep("before the storm");
  pthread_t threads[kMaxThreads];
  for (uint64_t i = 0; i < thread_count; i++) {
    Require(pthread_create(&threads[i], NULL, HammerLoop, NULL) == 0, "pthread_create");
  }
  uint64_t hung = 0, failed = 0;
  for (uint64_t i = 0; i < children; i++) {
    const pid_t child = fork();
    Require(child >= 0, "fork");
    if (child == 0) ChildMain(library);
    CountChild(child, deadline, &hung, &failed);
  }
  atomic_store(&is_over, true);
  for (uint64_t i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
  printf("fork_storm: %llu children, %llu hung, %llu failed\n", (unsigned long long)children,
         (unsigned long long)hung, (unsigned long long)failed);
  return hung + failed == 0 ? 0 : 1;
}
