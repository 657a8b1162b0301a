// The CUDA runtime and the simulated device's controls, by dlopen.
//
// Thread rule: built by one thread; the functions are the library's own and callable from any.
// Failure rule: a missing library, or a real one (which has no controls), throws
// std::runtime_error; a function the library lacks stays null and its calls are left out.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "recording.h"
#include "stepagent_sim.h"

namespace stepagent::replay {

// clang-format off
#define REPLAY_RUNTIME_FUNCTIONS(X)                                                             \
  X(cudaGetDeviceCount) X(cudaSetDevice) X(cudaFree) X(cudaMalloc) X(cudaMallocHost)            \
  X(cudaMallocManaged) X(cudaStreamCreateWithFlags) X(cudaStreamDestroy)                        \
  X(cudaEventCreateWithFlags) X(cudaLaunchKernel) X(cudaLaunchKernelExC)                        \
  X(cudaLaunchCooperativeKernel) X(cudaMemcpyAsync) X(cudaMemcpy) X(cudaMemsetAsync)            \
  X(cudaMemset) X(cudaDeviceSynchronize) X(cudaStreamSynchronize) X(cudaEventSynchronize)       \
  X(cudaEventRecord) X(cudaEventQuery) X(cudaStreamWaitEvent) X(cudaStreamQuery)                \
  X(cudaStreamBeginCapture) X(cudaStreamEndCapture) X(cudaGraphInstantiateWithFlags)            \
  X(cudaGraphDestroy) X(cudaGraphLaunch) X(cudaGetErrorName)
#define REPLAY_DRIVER_FUNCTIONS(X) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuGraphLaunch)
// clang-format on

struct Runtime {
#define REPLAY_FIELD(name) decltype(&::name) name = nullptr;
  REPLAY_RUNTIME_FUNCTIONS(REPLAY_FIELD)
  REPLAY_DRIVER_FUNCTIONS(REPLAY_FIELD)
#undef REPLAY_FIELD
  // By hand, since headers older than CUDA 12 lack it.
  CUresult (*cuStreamGetId)(CUstream, unsigned long long*) = nullptr;
  stepagent_sim_register_kernel_fn register_kernel = nullptr;
  stepagent_sim_next_duration_ns_fn next_duration_ns = nullptr;

  static Runtime Open();
  bool Has(CallId call) const;
  bool HasCapture() const;
};

// Throws with the call's name when `result` is an error.
void Check(const Runtime& runtime, cudaError_t result, const char* call);

}  // namespace stepagent::replay
