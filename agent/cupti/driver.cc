#include "agent/cupti/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace stepagent::cupti {
namespace {

constexpr const char* kSoname = "libcuda.so.1";
constexpr const char* kFileStem = "libcuda.so";  // the file may bear the driver's version

// The thread that is inside Init(); 0 none. Of interest to that thread alone.
constinit std::atomic<uint32_t> g_initialising{0};

uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

template <typename F>
void LookUp(void* handle, const char* name, F* out) {
  *out = reinterpret_cast<F>(dlsym(handle, name));
}

int NoteDriver(dl_phdr_info* info, size_t /*bytes*/, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(file, kFileStem, std::strlen(kFileStem)) != 0) return 0;
  *static_cast<bool*>(found) = true;
  return 1;
}

// Even with RTLD_NOLOAD a name that no mapped object bears is searched for on disk, and while this
// thread opens a file the application's dup2 over that number fails with EBUSY: so the list of
// mapped objects is asked first.
void* MappedDriver() {
  bool is_mapped = false;
  dl_iterate_phdr(NoteDriver, &is_mapped);
  return is_mapped ? dlopen(kSoname, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL) : nullptr;
}

}  // namespace

bool Driver::IsMapped() {
  void* handle = MappedDriver();
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

bool Driver::Find() {
  if (handle_ != nullptr) return true;
  // The reference is kept: our function pointers must stay good. The driver is not made to be
  // unloaded anyway.
  handle_ = MappedDriver();
  if (handle_ == nullptr) return false;
  LookUp(handle_, "cuInit", &init_);
  LookUp(handle_, "cuDriverGetVersion", &get_version_);
  LookUp(handle_, "cuDeviceGetCount", &get_count_);
  LookUp(handle_, "cuDeviceGet", &get_device_);
  LookUp(handle_, "cuDeviceGetAttribute", &get_attribute_);
  LookUp(handle_, "cuDeviceGetName", &get_name_);
  LookUp(handle_, "cuDeviceGetUuid_v2", &get_uuid_);
  if (get_uuid_ == nullptr) LookUp(handle_, "cuDeviceGetUuid", &get_uuid_);
  LookUp(handle_, "cuDeviceTotalMem_v2", &get_memory_);
  LookUp(handle_, "cuDevicePrimaryCtxGetState", &get_primary_state_);
  return true;
}

uint32_t Driver::Version(int* result) const {
  int version = 0;
  *result = get_version_ != nullptr ? get_version_(&version) : kCudaUnasked;
  return *result == kCudaOk && version > 0 ? static_cast<uint32_t>(version) : 0;
}

int Driver::DeviceCount(int* count) const {
  *count = 0;
  return get_count_ != nullptr ? get_count_(count) : kCudaUnasked;
}

std::vector<uint32_t> Driver::ActivePrimaries() const {
  std::vector<uint32_t> active;
  int count = 0;
  if (get_primary_state_ == nullptr || get_device_ == nullptr) return active;
  if (DeviceCount(&count) != kCudaOk) return active;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0, is_active = 0;
    unsigned flags = 0;
    if (get_device_(&device, ordinal) != kCudaOk) continue;
    if (get_primary_state_(device, &flags, &is_active) != kCudaOk || is_active == 0) continue;
    active.push_back(static_cast<uint32_t>(ordinal));
  }
  return active;
}

int Driver::Init() const {
  if (init_ == nullptr) return kCudaUnasked;
  g_initialising.store(ThreadId(), std::memory_order_relaxed);
  const int result = init_(0);
  g_initialising.store(0, std::memory_order_relaxed);
  return result;
}

bool Driver::IsInOwnInit() { return g_initialising.load(std::memory_order_relaxed) == ThreadId(); }

uint32_t Driver::Attribute(int attribute, uint32_t ordinal) const {
  int device = 0, value = 0;
  if (get_device_ == nullptr || get_attribute_ == nullptr) return 0;
  if (get_device_(&device, static_cast<int>(ordinal)) != kCudaOk) return 0;
  return get_attribute_(&value, attribute, device) == kCudaOk && value > 0
             ? static_cast<uint32_t>(value)
             : 0;
}

bool Driver::Describe(uint32_t ordinal, char* name, int name_bytes, uint8_t* uuid,
                      uint64_t* memory_bytes) const {
  int device = 0;
  size_t bytes = 0;
  if (get_device_ == nullptr || get_name_ == nullptr) return false;
  if (get_device_(&device, static_cast<int>(ordinal)) != kCudaOk) return false;
  if (get_name_(name, name_bytes, device) != kCudaOk) return false;
  if (get_uuid_ != nullptr) (void)get_uuid_(uuid, device);
  if (get_memory_ != nullptr && get_memory_(&bytes, device) == kCudaOk) *memory_bytes = bytes;
  return true;
}

}  // namespace stepagent::cupti
