#include "cudart/runtime.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace stepagent::sim {
namespace {

constexpr int kMaxDevices = 64;

thread_local int t_device = 0;
thread_local bool t_is_current = false;
thread_local cudaError_t t_last_error = cudaSuccess;

DriverFunctions* FindFunctions() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* functions = new DriverFunctions;
#define SIM_FIND_FUNCTION(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(dlsym(library, #name));
  SIM_DRIVER_FUNCTIONS(SIM_FIND_FUNCTION)
#undef SIM_FIND_FUNCTION
  const auto table_of = reinterpret_cast<DriverTableFn>(dlsym(library, kDriverTableSymbol));
  if (table_of != nullptr) functions->table = table_of(kTableVersion);
  return functions;
}

// What compiled CUDA programs register from their constructors.
struct FatBinary {
  const void* image = nullptr;
  CUmodule module = nullptr;
};
struct RegisteredKernel {
  FatBinary* binary = nullptr;
  std::string name;
  CUfunction function = nullptr;
};
struct Registry {
  std::mutex mutex;
  std::map<const void*, RegisteredKernel> kernels;
};
Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

CUresult LoadRegistered(const DriverFunctions& driver, RegisteredKernel* kernel) {
  if (kernel->binary->module == nullptr) {
    const CUresult result = driver.cuModuleLoadData(&kernel->binary->module, kernel->binary->image);
    if (result != CUDA_SUCCESS) return result;
  }
  return driver.cuModuleGetFunction(&kernel->function, kernel->binary->module,
                                    kernel->name.c_str());
}

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};
thread_local CallConfiguration t_configuration;

}  // namespace

CUresult LoadDriver(const DriverFunctions** driver) {
  static const DriverFunctions* functions = FindFunctions();
  if (functions == nullptr || functions->cuInit == nullptr) {
    return static_cast<CUresult>(cudaErrorInsufficientDriver);
  }
  static std::atomic<bool> is_ready{false};
  if (!is_ready.load(std::memory_order_acquire)) {
    if (const CUresult result = functions->cuInit(0); result != CUDA_SUCCESS) return result;
    is_ready.store(true, std::memory_order_release);
  }
  *driver = functions;
  return CUDA_SUCCESS;
}

CUresult PrimaryContext(const DriverFunctions& driver, int device, CUcontext* context) {
  static auto* mutex = new std::mutex;
  static std::array<CUcontext, kMaxDevices> contexts{};
  if (device < 0 || device >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(*mutex);
  if (contexts[device] == nullptr) {
    const CUresult result = driver.cuDevicePrimaryCtxRetain(&contexts[device], device);
    if (result != CUDA_SUCCESS) return result;
  }
  *context = contexts[device];
  return CUDA_SUCCESS;
}

CUresult UseDevice(const DriverFunctions& driver) {
  if (t_is_current) return CUDA_SUCCESS;
  CUcontext context = nullptr;
  CUresult result = PrimaryContext(driver, t_device, &context);
  if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(context);
  t_is_current = result == CUDA_SUCCESS;
  return result;
}

int CurrentDevice() { return t_device; }

CUresult SelectDevice(const DriverFunctions& driver, int device) {
  int count = 0;
  if (const CUresult result = driver.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return result;
  }
  if (device < 0 || device >= count) return CUDA_ERROR_INVALID_DEVICE;
  t_device = device;
  t_is_current = false;
  return UseDevice(driver);
}

CUresult ResolveKernel(const DriverFunctions& driver, const void* func, CUfunction* function) {
  if (func == nullptr) return static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
  Registry& registry = TheRegistry();
  {
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.kernels.find(func);
    if (found != registry.kernels.end()) {
      RegisteredKernel& kernel = found->second;
      const CUresult result =
          kernel.function != nullptr ? CUDA_SUCCESS : LoadRegistered(driver, &kernel);
      *function = kernel.function;
      return result;
    }
  }
  *function = driver.table == nullptr ? nullptr : driver.table->as_function(func);
  return *function != nullptr ? CUDA_SUCCESS
                              : static_cast<CUresult>(cudaErrorInvalidDeviceFunction);
}

void RememberRuntimeError(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
}

cudaError_t LastRuntimeError(bool clear) {
  const cudaError_t error = t_last_error;
  if (clear) t_last_error = cudaSuccess;
  return error;
}

RuntimeFrame::RuntimeFrame(const DriverFunctions& driver, uint32_t cbid, const char* name,
                           const void* params, const char* symbol)
    : table_(driver.table) {
  if (table_ == nullptr) return;
  frame_.cbid = cbid;
  frame_.function_name = name;
  frame_.params = params;
  frame_.symbol_name = symbol;
  table_->runtime_enter(&frame_);
}

cudaError_t RuntimeFrame::Finish(CUresult result) {
  error_ = static_cast<cudaError_t>(result);
  RememberRuntimeError(error_);
  if (table_ == nullptr) return error_;
  frame_.return_code = result;
  frame_.return_value = &error_;
  table_->runtime_exit(&frame_);
  return error_;
}

}  // namespace stepagent::sim

using stepagent::sim::FatBinary;
using stepagent::sim::TheRegistry;

// What nvcc's host code calls. Variables, textures and surfaces are not modelled.
extern "C" void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic;
    int version;
    const void* image;
  };
  auto* binary = new FatBinary{static_cast<Wrapper*>(wrapper)->image};
  return reinterpret_cast<void**>(binary);
}
extern "C" void __cudaRegisterFatBinaryEnd(void**) {}
extern "C" void __cudaUnregisterFatBinary(void**) {}
extern "C" void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
extern "C" char __cudaInitModule(void**) { return 1; }

extern "C" void __cudaRegisterFunction(void** handle, const char* host_function, char*,
                                       const char* device_name, int, uint3*, uint3*, dim3*, dim3*,
                                       int*) {
  const std::lock_guard lock(TheRegistry().mutex);
  TheRegistry().kernels[host_function] = {reinterpret_cast<FatBinary*>(handle), device_name,
                                          nullptr};
}

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                void* stream) {
  stepagent::sim::t_configuration = {grid, block, shared_bytes, stream};
  return 0;
}

extern "C" cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                  void* stream) {
  *grid = stepagent::sim::t_configuration.grid;
  *block = stepagent::sim::t_configuration.block;
  *shared_bytes = stepagent::sim::t_configuration.shared_bytes;
  *static_cast<void**>(stream) = stepagent::sim::t_configuration.stream;
  return cudaSuccess;
}
