// cuInit with the injection hook, and the functions that work before it.
#include <dlfcn.h>
#include <generated_cuda_meta.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "common/settings.h"
#include "cuda/engine.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

// The live flag lives in a page that a child of fork or clone finds zeroed.
LiveFlag* NewLiveFlag() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) Violation("no memory for the live flag");
  madvise(page, 4096, MADV_WIPEONFORK);
  return static_cast<LiveFlag*>(page);
}

// Once per process when the library accepts, again on every cuInit while it answers 0.
class Injection {
 public:
  void Run() {
    const char* path = getenv("CUDA_INJECTION64_PATH");
    if (is_done_ || is_running_ || path == nullptr || *path == '\0') return;
    is_running_ = true;
    Load(path);
    is_running_ = false;
  }

 private:
  void Load(const char* path) {
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      is_done_ = true;  // a bad path is ignored in silence
      return;
    }
    auto entry = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
    if (entry == nullptr) {
      is_done_ = true;
      return;
    }
    Add(Counters().injections);
    if (entry() != 0) {
      is_done_ = true;
    } else {
      dlclose(library);
    }
  }

  bool is_done_ = false;
  bool is_running_ = false;
};

// Recursive: an injected library may itself call cuInit.
std::recursive_mutex& InitMutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

CUresult Init() {
  static Injection injection;
  const std::lock_guard lock(InitMutex());
  if (g_live != nullptr && g_live->is_alive.load(std::memory_order_relaxed) == 0) {
    return CUDA_ERROR_NOT_INITIALIZED;  // forked child of an initialised parent
  }
  WriteCountersAtExit();
  injection.Run();
  static const int64_t init_ns = SettingInt("INIT", 0);
  if (init_ns > 0) SleepUntil(MonotonicNs() + init_ns);
  const auto scripted = static_cast<CUresult>(SettingInt("CUINIT", 0));
  if (scripted != CUDA_SUCCESS) return scripted;
  if (Devices().empty()) return CUDA_ERROR_NO_DEVICE;
  if (g_live == nullptr) {
    LiveFlag* flag = NewLiveFlag();
    flag->is_alive.store(1, std::memory_order_relaxed);
    g_live = flag;
  }
  return CUDA_SUCCESS;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* FindError(CUresult code) {
  for (const ErrorText& error : kErrors) {
    if (error.code == code) return &error;
  }
  return nullptr;
}

}  // namespace
}  // namespace stepagent::sim

using stepagent::sim::FindError;

// Not through Call(): it works before initialisation, and callbacks enabled inside it (by an
// injected library) begin with the next call.
extern "C" CUresult CUDAAPI cuInit(unsigned int flags) {
  namespace sim = stepagent::sim;
  sim::Add(sim::Counters().calls);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  int fault = 0;
  if (sim::HasFaults() && sim::FaultFor("cuInit", &fault)) return static_cast<CUresult>(fault);
  return sim::Init();
}

extern "C" CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stepagent::sim::SettingInt("CUINIT", 0) == CUDA_ERROR_STUB_LIBRARY) {
    return CUDA_ERROR_STUB_LIBRARY;
  }
  *version = static_cast<int>(stepagent::sim::SettingInt("DRIVER_VERSION", 13000));
  return CUDA_SUCCESS;
}

extern "C" CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  const auto* found = FindError(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

extern "C" CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  const auto* found = FindError(error);
  *text = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// The private tables of the real driver are not reproduced: real runtimes and real CUPTIs are
// turned away here, as by a driver they do not fit.
extern "C" CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid*) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
