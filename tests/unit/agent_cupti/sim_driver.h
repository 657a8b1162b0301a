#pragma once
// The simulated driver, for tests in this process: symbols by dlsym, a context, one kernel.
//
// Threads: Load once from the main thread; the functions are the driver's. Failure: tests skip when
// the library on the loader's path is not the simulated one.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>

#include "tests/sim/include/stepagent_sim.h"

namespace stepagent::cupti {

struct SimDriver {
  decltype(&::cuInit) Init = nullptr;
  decltype(&::cuDevicePrimaryCtxRetain) PrimaryCtxRetain = nullptr;
  decltype(&::cuCtxSetCurrent) CtxSetCurrent = nullptr;
  decltype(&::cuCtxSynchronize) CtxSynchronize = nullptr;
  decltype(&::cuLaunchKernel) LaunchKernel = nullptr;
  decltype(&::cuMemAlloc) MemAlloc = nullptr;
  decltype(&::cuMemcpyHtoD) MemcpyHtoD = nullptr;
  decltype(&::cuMemsetD8) MemsetD8 = nullptr;
  decltype(&::cuStreamCreate) StreamCreate = nullptr;
  decltype(&::cuStreamBeginCapture) StreamBeginCapture = nullptr;
  decltype(&::cuStreamEndCapture) StreamEndCapture = nullptr;
  CUresult (*GraphInstantiate)(CUgraphExec*, CUgraph, unsigned long long) = nullptr;
  decltype(&::cuGraphLaunch) GraphLaunch = nullptr;
  decltype(&::cuGraphDestroy) GraphDestroy = nullptr;
  decltype(&::cuGraphExecDestroy) GraphExecDestroy = nullptr;
  stepagent_sim_register_kernel_fn RegisterKernel = nullptr;
  stepagent_sim_next_duration_ns_fn NextDuration = nullptr;
  stepagent_sim_counter_fn Counter = nullptr;
  void* handle = nullptr;

  // False: libcuda.so.1 is missing or not the simulated one.
  bool Load() {
    handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return false;
    Find("stepagent_sim_register_kernel", &RegisterKernel);
    if (RegisterKernel == nullptr) return false;
    Find("stepagent_sim_next_duration_ns", &NextDuration);
    Find("stepagent_sim_counter", &Counter);
    Find("cuInit", &Init);
    Find("cuDevicePrimaryCtxRetain", &PrimaryCtxRetain);
    Find("cuCtxSetCurrent", &CtxSetCurrent);
    Find("cuCtxSynchronize", &CtxSynchronize);
    Find("cuLaunchKernel", &LaunchKernel);
    Find("cuMemAlloc_v2", &MemAlloc);
    Find("cuMemcpyHtoD_v2", &MemcpyHtoD);
    Find("cuMemsetD8_v2", &MemsetD8);
    Find("cuStreamCreate", &StreamCreate);
    Find("cuStreamBeginCapture_v2", &StreamBeginCapture);
    Find("cuStreamEndCapture", &StreamEndCapture);
    Find("cuGraphInstantiateWithFlags", &GraphInstantiate);
    Find("cuGraphLaunch", &GraphLaunch);
    Find("cuGraphDestroy", &GraphDestroy);
    Find("cuGraphExecDestroy", &GraphExecDestroy);
    return true;
  }

 private:
  template <typename F>
  void Find(const char* name, F* out) {
    *out = reinterpret_cast<F>(dlsym(handle, name));
  }
};

}  // namespace stepagent::cupti
