#include "runtime.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace stepagent::replay {
namespace {

void* OpenLibrary(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(std::string(name) +
                             ": not found; replay needs the simulated device's libraries on "
                             "LD_LIBRARY_PATH");
  }
  return library;
}

}  // namespace

Runtime Runtime::Open() {
  Runtime api;
  void* runtime = OpenLibrary("libcudart.so.13");
  void* driver = OpenLibrary("libcuda.so.1");
#define REPLAY_STRING2(name) #name
#define REPLAY_STRING(name) REPLAY_STRING2(name)
#define REPLAY_RUNTIME_LOOKUP(name) \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(runtime, REPLAY_STRING(name)));
#define REPLAY_DRIVER_LOOKUP(name) \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(driver, REPLAY_STRING(name)));
  REPLAY_RUNTIME_FUNCTIONS(REPLAY_RUNTIME_LOOKUP)
  REPLAY_DRIVER_FUNCTIONS(REPLAY_DRIVER_LOOKUP)
#undef REPLAY_RUNTIME_LOOKUP
#undef REPLAY_DRIVER_LOOKUP
  api.cuStreamGetId = reinterpret_cast<decltype(api.cuStreamGetId)>(dlsym(driver, "cuStreamGetId"));
  api.register_kernel = reinterpret_cast<stepagent_sim_register_kernel_fn>(
      dlsym(driver, "stepagent_sim_register_kernel"));
  api.next_duration_ns = reinterpret_cast<stepagent_sim_next_duration_ns_fn>(
      dlsym(driver, "stepagent_sim_next_duration_ns"));
  if (api.register_kernel == nullptr || api.next_duration_ns == nullptr) {
    throw std::runtime_error(
        "this libcuda.so.1 drives a real device; kernels of a recorded "
        "duration exist on the simulated one only");
  }
  return api;
}

bool Runtime::HasCapture() const {
  return cudaStreamBeginCapture != nullptr && cudaStreamEndCapture != nullptr &&
         cudaGraphInstantiateWithFlags != nullptr && cudaGraphDestroy != nullptr;
}

bool Runtime::Has(CallId call) const {
  switch (call) {
    case CallId::kLaunchKernel:
      return cudaLaunchKernel != nullptr;
    case CallId::kLaunchKernelExC:
      return cudaLaunchKernelExC != nullptr;
    case CallId::kLaunchCooperativeKernel:
      return cudaLaunchCooperativeKernel != nullptr;
    case CallId::kDriverLaunchKernel:
      return cuLaunchKernel != nullptr;
    case CallId::kDriverLaunchKernelEx:
      return cuLaunchKernelEx != nullptr;
    case CallId::kGraphLaunch:
      return HasCapture() && cudaGraphLaunch != nullptr;
    case CallId::kDriverGraphLaunch:
      return HasCapture() && cuGraphLaunch != nullptr;
    case CallId::kMemcpyAsync:
      return cudaMemcpyAsync != nullptr;
    case CallId::kMemcpy:
      return cudaMemcpy != nullptr;
    case CallId::kMemsetAsync:
      return cudaMemsetAsync != nullptr;
    case CallId::kMemset:
      return cudaMemset != nullptr;
    case CallId::kDeviceSynchronize:
      return cudaDeviceSynchronize != nullptr;
    case CallId::kStreamSynchronize:
      return cudaStreamSynchronize != nullptr;
    case CallId::kEventSynchronize:
      return cudaEventSynchronize != nullptr;
    case CallId::kEventRecord:
      return cudaEventRecord != nullptr;
    case CallId::kEventQuery:
      return cudaEventQuery != nullptr;
    case CallId::kStreamWaitEvent:
      return cudaStreamWaitEvent != nullptr;
    case CallId::kStreamQuery:
      return cudaStreamQuery != nullptr;
    case CallId::kCount:
      break;
  }
  return false;
}

void Check(const Runtime& runtime, cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  const char* name = runtime.cudaGetErrorName == nullptr ? "" : runtime.cudaGetErrorName(result);
  throw std::runtime_error(std::string(call) + ": " + std::to_string(result) + " " + name);
}

}  // namespace stepagent::replay
