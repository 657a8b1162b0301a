// activity_tap: writes the device records of a program to a file, one line each.
//
// A test's own witness of what a program did, by CUPTI's activity interface and nothing of the
// product. Loaded through CUDA_INJECTION64_PATH; the file is ACTIVITY_TAP.
//
//   kernel STREAM DURATION_NS GRID_X GRID_Y GRID_Z BLOCK_X NAME
//   memcpy STREAM DURATION_NS BYTES COPY_KIND SOURCE_KIND TARGET_KIND
//   memset STREAM DURATION_NS BYTES
//
// Thread rule: CUPTI calls the buffer functions from any thread; the file is written under a lock.
// Failure rule: a CUPTI call that fails ends the program with 1, since a silent witness proves
// nothing.
#include <cupti.h>
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr size_t kBufferBytes = 1 << 20;

#define TAP_FUNCTIONS(X)                                                            \
  X(cuptiSubscribe)                                                                 \
  X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) X(cuptiActivityFlushAll) \
      X(cuptiActivityGetNextRecord)

struct Cupti {
#define TAP_FIELD(name) decltype(&::name) name = nullptr;
  TAP_FUNCTIONS(TAP_FIELD)
#undef TAP_FIELD
};

// Leaked: CUPTI may still deliver while the process leaves.
Cupti* cupti = nullptr;
std::mutex* file_lock = nullptr;
std::FILE* file = nullptr;

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "activity_tap: %s failed\n", what);
  std::_Exit(1);
}

void Write(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    // The leading fields have kept their places since the first of these structures.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel4*>(record);
    std::fprintf(file, "kernel %u %" PRIu64 " %d %d %d %d %s\n", kernel->streamId,
                 kernel->end - kernel->start, kernel->gridX, kernel->gridY, kernel->gridZ,
                 kernel->blockX, kernel->name);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy3*>(record);
    std::fprintf(file, "memcpy %u %" PRIu64 " %" PRIu64 " %d %d %d\n", copy->streamId,
                 copy->end - copy->start, copy->bytes, copy->copyKind, copy->srcKind,
                 copy->dstKind);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* set = reinterpret_cast<const CUpti_ActivityMemset2*>(record);
    std::fprintf(file, "memset %u %" PRIu64 " %" PRIu64 "\n", set->streamId, set->end - set->start,
                 set->bytes);
  }
}

void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI OnComplete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(*file_lock);
  CUpti_Activity* record = nullptr;
  while (cupti->cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) Write(record);
  std::free(buffer);
}

void CUPTIAPI OnCall(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void Finish() {
  Require(cupti->cuptiActivityFlushAll(0) == CUPTI_SUCCESS, "flush");
  Require(cupti->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS,
          "forced flush");
  const std::lock_guard lock(*file_lock);
  std::fclose(file);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  const char* path = std::getenv("ACTIVITY_TAP");
  if (path == nullptr || file != nullptr) return 1;
  file = std::fopen(path, "w");
  file_lock = new std::mutex;
  cupti = new Cupti;
  void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  Require(file != nullptr && library != nullptr, "opening");
#define TAP_LOOKUP(name)                                                        \
  cupti->name = reinterpret_cast<decltype(cupti->name)>(dlsym(library, #name)); \
  Require(cupti->name != nullptr, #name);
  TAP_FUNCTIONS(TAP_LOOKUP)
#undef TAP_LOOKUP
  CUpti_SubscriberHandle subscriber = nullptr;
  Require(cupti->cuptiSubscribe(&subscriber, OnCall, nullptr) == CUPTI_SUCCESS, "subscribing");
  Require(cupti->cuptiActivityRegisterCallbacks(OnRequest, OnComplete) == CUPTI_SUCCESS,
          "registering");
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    Require(cupti->cuptiActivityEnable(kind) == CUPTI_SUCCESS, "enabling");
  }
  std::atexit(Finish);
  return 1;
}
