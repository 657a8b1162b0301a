#include "collector/cli/doctor_device.h"

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdio>

namespace stepagent::cli {
namespace {

// The driver's ABI, as far as it is used here; the vendor's headers stay in the agent.
using Result = int;
using DevicePointer = unsigned long long;

constexpr char kPtx[] =
    ".version 5.0\n.target sm_52\n.address_size 64\n"
    ".visible .entry stepagent_doctor(.param .u64 p0)\n{\n  ret;\n}\n";
constexpr size_t kBytes = 4096;

// CUDA_ERROR_STUB_LIBRARY: every function of the toolkit's stub answers so.
constexpr Result kStubLibrary = 34;

struct Driver {
  void* handle = nullptr;
  bool is_good = true;

  void SayStub() const {
    const link_map* map = nullptr;
    const bool is_known = dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0;
    std::printf("%s, no driver: cuInit: CUDA error %d: %s\n", kStubDriver, kStubLibrary,
                is_known && map != nullptr ? map->l_name : "libcuda.so.1");
  }

  template <typename... Args>
  void Call(const char* name, Args... args) {
    if (!is_good) return;
    const auto function = reinterpret_cast<Result (*)(Args...)>(dlsym(handle, name));
    const Result result = function != nullptr ? function(args...) : -1;
    if (result == 0) return;
    is_good = false;
    if (result == kStubLibrary) return SayStub();
    if (function == nullptr)
      std::printf("%s: not in this driver library\n", name);
    else
      std::printf("%s: CUDA error %d\n", name, result);
  }
};

void DoWork(Driver* driver, void* stream, void* kernel, DevicePointer memory) {
  static char host[kBytes];
  void* arguments[] = {&memory};
  for (uint64_t i = 0; i < kDoctorSets; ++i)
    driver->Call("cuMemsetD8Async", memory, static_cast<unsigned char>(1), kBytes, stream);
  for (uint64_t i = 0; i < kDoctorCopies; ++i)
    driver->Call("cuMemcpyHtoDAsync_v2", memory, static_cast<const void*>(host), kBytes, stream);
  for (uint64_t i = 0; i < kDoctorKernels; ++i)
    driver->Call("cuLaunchKernel", kernel, 1U, 1U, 1U, 32U, 1U, 1U, 0U, stream,
                 static_cast<void**>(arguments), static_cast<void**>(nullptr));
  driver->Call("cuStreamSynchronize", stream);
}

}  // namespace

int DoctorDeviceMain() {
  Driver driver;
  driver.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver.handle == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  int device = 0;
  void *context = nullptr, *module = nullptr, *kernel = nullptr, *stream = nullptr;
  DevicePointer memory = 0;
  driver.Call("cuInit", 0U);
  driver.Call("cuDeviceGet", &device, 0);
  driver.Call("cuDevicePrimaryCtxRetain", &context, device);
  driver.Call("cuCtxSetCurrent", context);
  driver.Call("cuModuleLoadData", &module, static_cast<const void*>(kPtx));
  driver.Call("cuModuleGetFunction", &kernel, module, "stepagent_doctor");
  driver.Call("cuStreamCreate", &stream, 1U);
  driver.Call("cuMemAlloc_v2", &memory, kBytes);
  if (driver.is_good) DoWork(&driver, stream, kernel, memory);
  return driver.is_good ? 0 : 1;
}

}  // namespace stepagent::cli
