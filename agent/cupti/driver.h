#pragma once
// Driver: the CUDA driver library that the application has mapped, asked without side effects.
//
// Purpose: is libcuda here, which version, was it initialised, and why is there no device.
// Thread rule: as CuptiBackend's methods. Failure rule: nothing here fails; an answer may be
// unknown. Nothing creates state: the library is only found (RTLD_NOLOAD), queries only query, and
// cuInit is called once the application's own call has been through, to learn the reason of a
// failure.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepagent::cupti {

// CUDA result codes that mean something to us.
enum : int {
  kCudaOk = 0,
  kCudaNotInitialized = 3,
  kCudaStubLibrary = 34,
  kCudaNoDevice = 100,
  kCudaDriverMismatch = 803,
  kCudaCompatNotSupported = 804,
  kCudaUnasked = -1,  // ours: not asked, or the symbol is missing
};

class Driver {
 public:
  // True when libcuda.so.1 is mapped; looks the symbols up the first time.
  [[nodiscard]] bool Find();
  [[nodiscard]] static bool IsMapped();

  // cuDriverGetVersion, e.g. 12040; 0 when it could not be read. *result: the call's own result.
  [[nodiscard]] uint32_t Version(int* result) const;
  // kCudaOk when initialised; kCudaNotInitialized before, during and after a failed first cuInit.
  [[nodiscard]] int DeviceCount(int* count) const;
  // Ordinals of devices whose primary context is up, which it stays while the runtime is in use.
  [[nodiscard]] std::vector<uint32_t> ActivePrimaries() const;
  // Only once the application's own cuInit has returned: on the thread inside it this would
  // deadlock.
  [[nodiscard]] int Init() const;
  // Whether this thread is inside Init(): where we came late the driver may call our own injection
  // entry from there.
  [[nodiscard]] static bool IsInOwnInit();
  // cuDeviceGetAttribute; 0 when unknown.
  [[nodiscard]] uint32_t Attribute(int attribute, uint32_t ordinal) const;
  // Name and UUID of a device; false when the driver does not tell.
  [[nodiscard]] bool Describe(uint32_t ordinal, char* name, int name_bytes, uint8_t* uuid,
                              uint64_t* memory_bytes) const;

 private:
  void* handle_ = nullptr;
  int (*init_)(unsigned) = nullptr;
  int (*get_version_)(int*) = nullptr;
  int (*get_count_)(int*) = nullptr;
  int (*get_device_)(int*, int) = nullptr;
  int (*get_attribute_)(int*, int, int) = nullptr;
  int (*get_name_)(char*, int, int) = nullptr;
  int (*get_uuid_)(void*, int) = nullptr;
  int (*get_memory_)(size_t*, int) = nullptr;
  int (*get_primary_state_)(int, unsigned*, int*) = nullptr;
};

}  // namespace stepagent::cupti
