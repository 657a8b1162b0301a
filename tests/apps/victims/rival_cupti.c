// rival_cupti: another tool in the same process that wants CUPTI's one subscription.
#include <cupti.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/device.h"
#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "rival_cupti [options]: trains like any program and uses CUPTI for itself besides\n"
    "  --at STEP         subscribes at the start of this step, default 0\n"
    "  --early           subscribes before CUDA is used\n"
    "  --until STEP      unsubscribes at the start of this step, default: never\n"
    "  --retry           tries again at every step until it works\n"
    "  --buffers-only    does not subscribe: registers its buffers at every step, whoever's they "
    "were\n"
    "  --steps N         default 20\n"
    "  --step-us N       default 2000\n"
    "  --cupti NAME      library, default libcupti.so.13\n"
    "Prints each attempt's result code that differs from the last, and its number of kernel "
    "records.\n";

#define RIVAL_FUNCTIONS(X)          \
  X(cuptiSubscribe)                 \
  X(cuptiUnsubscribe)               \
  X(cuptiActivityRegisterCallbacks) \
  X(cuptiActivityEnable)            \
  X(cuptiActivityDisable) X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord)

// Its own buffers only are given back: one that comes may be another client's.
enum { kBufferBytes = 65536, kBuffers = 64 };
static struct Buffer {
  _Alignas(8) uint8_t bytes[kBufferBytes];
  atomic_bool is_lent;
} buffers[kBuffers];
static struct {
#define RIVAL_FIELD(name) __typeof__(&name) name;
  RIVAL_FUNCTIONS(RIVAL_FIELD)
#undef RIVAL_FIELD
} cupti;
static atomic_long kernel_records;
static bool is_subscribed;
static CUpti_SubscriberHandle subscriber;

static void CUPTIAPI OnRequest(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = NULL;
  *max_records = 0;
  for (size_t i = 0; i < kBuffers && *buffer == NULL; i++) {
    if (!atomic_exchange(&buffers[i].is_lent, true)) *buffer = buffers[i].bytes;
  }
  *size = *buffer == NULL ? 0 : kBufferBytes;
}

static void CUPTIAPI OnComplete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                size_t valid) {
  (void)context;
  (void)stream;
  (void)size;
  CUpti_Activity* record = NULL;
  while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) atomic_fetch_add(&kernel_records, 1);
  }
  for (size_t i = 0; i < kBuffers; i++) {
    if (buffer == buffers[i].bytes) atomic_store(&buffers[i].is_lent, false);
  }
}

static void CUPTIAPI OnCall(void* data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void* info) {
  (void)data;
  (void)domain;
  (void)id;
  (void)info;
}

static bool LoadCupti(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  bool has_all = true;
#define RIVAL_LOOKUP(name)                               \
  cupti.name = (__typeof__(&name))dlsym(library, #name); \
  has_all = has_all && cupti.name != NULL;
  RIVAL_FUNCTIONS(RIVAL_LOOKUP)
#undef RIVAL_LOOKUP
  return has_all;
}

static void Try(const char* when) {
  static int last = -1;
  const int result = (int)cupti.cuptiSubscribe(&subscriber, OnCall, NULL);
  if (result != last) printf("rival: subscribe %s: %d\n", when, result);
  last = result;
  if (result != CUPTI_SUCCESS) return;
  is_subscribed = true;
  cupti.cuptiActivityRegisterCallbacks(OnRequest, OnComplete);
  printf("rival: enable kernels: %d\n",
         (int)cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

static void GiveUp(void) {
  cupti.cuptiActivityFlushAll(0);
  cupti.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cupti.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  printf("rival: unsubscribe: %d\n", (int)cupti.cuptiUnsubscribe(subscriber));
  is_subscribed = false;
}

static void Train(const Device* device, CUdeviceptr memory, uint64_t step_us) {
  const CUdeviceptr pointers[4] = {memory, memory, memory, memory};
  PlainStep("forward");
  DeviceLaunch(device, NULL, kKernelForwardRelu, pointers, 0, 256);
  CU(&device->driver, cuCtxSynchronize, ());
  if (step_us > 0) usleep((useconds_t)step_us);
}

// When to hold the subscription, in steps.
typedef struct Schedule {
  uint64_t at, until, steps, step_us;
  bool retries, is_early, takes_buffers;
} Schedule;

static void RunSteps(const Schedule* schedule, const Device* device, CUdeviceptr memory) {
  for (uint64_t step = 0; step < schedule->steps; step++) {
    if (schedule->takes_buffers) cupti.cuptiActivityRegisterCallbacks(OnRequest, OnComplete);
    const bool is_due = step == schedule->at || (schedule->retries && step > schedule->at);
    const bool may_try = is_due && !schedule->takes_buffers;
    if (may_try && !is_subscribed && step < schedule->until) Try("at a step");
    if (step == schedule->until && is_subscribed) GiveUp();
    Train(device, memory, schedule->step_us);
  }
  if (is_subscribed) GiveUp();
}

int main(int argc, char** argv) {
  Schedule schedule = {.until = UINT64_MAX, .steps = 20, .step_us = 2000};
  const char* library = "libcupti.so.13";
  const OptionSpec options[] = {
      {"at", kOptionNumber, &schedule.at, 0, 1e9, NULL},
      {"early", kOptionFlag, &schedule.is_early, 0, 0, NULL},
      {"buffers-only", kOptionFlag, &schedule.takes_buffers, 0, 0, NULL},
      {"until", kOptionNumber, &schedule.until, 0, 1e9, NULL},
      {"retry", kOptionFlag, &schedule.retries, 0, 0, NULL},
      {"steps", kOptionNumber, &schedule.steps, 0, 1e9, NULL},
      {"step-us", kOptionNumber, &schedule.step_us, 0, 1e7, NULL},
      {"cupti", kOptionText, &library, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  static Device device;
  char reason[160];
  if (!LoadCupti(library)) return printf("rival: no %s\n", library), 77;
  if (schedule.is_early) Try("before CUDA");
  if (!DeviceOpen(&device, 0, 0, reason, sizeof reason)) return printf("rival: %s\n", reason), 77;
  const CUdeviceptr memory = DeviceAllocate(&device, 4096);
  RunSteps(&schedule, &device, memory);
  printf("rival: %ld kernel records of %llu steps\n", atomic_load(&kernel_records),
         (unsigned long long)schedule.steps);
  CU(&device.driver, cuMemFree, (memory));
  DeviceClose(&device);
  return 0;
}
