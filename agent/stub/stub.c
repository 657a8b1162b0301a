/* Constructor and entry points of libstepagent.so. See stub.h. */
#include "agent/stub/stub.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/stub/symver.h"

#define STEPAGENT_EXPORT __attribute__((visibility("default")))

struct stepagent_stub stepagent_stub_state = {
    .size = sizeof(struct stepagent_stub),
    .install_signal = stepagent_install_signal,
    .signal_is_ours = stepagent_signal_is_ours,
    .stderr_is_ours = stepagent_stderr_is_ours,
};

enum { kPathBytes = 4096, kForkWaitMs = 100 };
static char own_path[kPathBytes];
static char start_dir[kPathBytes];
static int disabled = 1;
static stepagent_word loading; /* threads inside dlopen of the core */
static _Atomic(void*) core;

/* glibc's registration without libc_nonshared; absent in other C libraries. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void*)
    __attribute__((weak));

/* --- where we are ------------------------------------------------------------------------- */

static int find_self(struct dl_phdr_info* info, size_t size, void* result) {
  (void)size;
  const uintptr_t here = (uintptr_t)&find_self;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || here < begin || here >= begin + segment->p_memsz) continue;
    *(const char**)result = info->dlpi_name;
    return 1;
  }
  return 0;
}

/* Absolute path of this file into own_path; 0 when it cannot be told. */
static int learn_own_path(void) {
  const char* name = NULL;
  dl_iterate_phdr(find_self, &name);
  if (name == NULL || *name == '\0') return 0;
  size_t used = 0;
  if (*name != '/') {
    used = strlen(start_dir);
    if (used == 0 || used + 2 > kPathBytes) return 0;
    memcpy(own_path, start_dir, used);
    own_path[used++] = '/';
  }
  const size_t length = strlen(name);
  if (used + length + 1 > kPathBytes) return 0;
  memcpy(own_path + used, name, length + 1);
  return 1;
}

/* --- fork ---------------------------------------------------------------------------------- */

/* A child made while a thread is inside dlopen inherits the loader's lock for ever: wait a little. */
static void before_fork(void) {
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < kForkWaitMs && atomic_load(&loading) != 0; ++i) nanosleep(&pause, NULL);
}
static void in_child(void) {
  atomic_store(&loading, 0);
  stepagent_signal_in_child();
}
static void register_fork(void) {
  static stepagent_word done;
  if (atomic_exchange(&done, 1) == 0 && __register_atfork != NULL) {
    __register_atfork(before_fork, NULL, in_child, NULL);
  }
}

/* --- start --------------------------------------------------------------------------------- */

static int is_set(const char* value) { return value != NULL && *value != '\0'; }

/* As proto/settings.cc's IsDisabledValue. */
static int is_disabled(const char* value) {
  static const char* const kOff[] = {"", "0", "off", "no", "false"};
  if (value == NULL) return 0;
  for (size_t i = 0; i < sizeof kOff / sizeof kOff[0]; ++i) {
    if (strcmp(value, kOff[i]) == 0) return 0;
  }
  return 1;
}

__attribute__((constructor)) static void start(void) {
  /* A privileged program must not be steered through variables of its caller. */
  if (getauxval(AT_SECURE) != 0) return;
  if (is_disabled(stepagent_env("STEPAGENT_DISABLE"))) return;
  /* A relative --out means this folder, whatever the program changes to later. */
  if (getcwd(start_dir, kPathBytes) == NULL) start_dir[0] = '\0';
  if (!learn_own_path()) return;
  disabled = 0;
  stepagent_remember_stderr();
  stepagent_stub_state.start_dir = start_dir;
  stepagent_stub_state.path = own_path;
  if (!is_set(stepagent_env("CUDA_INJECTION64_PATH"))) {
    stepagent_env_add("CUDA_INJECTION64_PATH", own_path);
  }
  if (!is_set(stepagent_env("NVTX_INJECTION64_PATH"))) {
    stepagent_env_add("NVTX_INJECTION64_PATH", own_path);
  }
  const char* signal_text = stepagent_env("STEPAGENT_SIGNAL");
  if (is_set(signal_text)) {
    const int number = stepagent_signal_number(signal_text);
    if (number != 0 && stepagent_install_signal(number) == 0) register_fork();
  }
}

/* --- the core ------------------------------------------------------------------------------- */

static void complain(const char* what) {
  static stepagent_word said;
  const char* log = stepagent_env("STEPAGENT_LOG");
  if ((log != NULL && strncmp(log, "off", 3) == 0) || atomic_exchange(&said, 1) != 0) return;
  if (!stepagent_stderr_is_ours()) return;
  char line[512] = "stepagent: not recording: ";
  const size_t head = strlen(line);
  size_t length = strlen(what);
  if (length > sizeof line - head - 1) length = sizeof line - head - 1;
  memcpy(line + head, what, length);
  line[head + length] = '\n';
  const ssize_t ignored = write(STDERR_FILENO, line, head + length + 1);
  (void)ignored;
}

/* Loads libstepagent_core.so from beside this file. Several threads may do it at once: dlopen
 * serialises them and hands each the same handle. No lock of ours is held meanwhile, since one of
 * them may be inside a constructor that runs under the loader's lock. */
static void* load_core(void) {
  void* handle = atomic_load(&core);
  if (handle != NULL || disabled) return handle;
  char path[kPathBytes + 32];
  const char* slash = strrchr(own_path, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - own_path) + 1;
  memcpy(path, own_path, folder);
  static const char kCore[] = "libstepagent_core.so";
  memcpy(path + folder, kCore, sizeof kCore);
  register_fork();
  atomic_fetch_add(&loading, 1);
  handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) complain(dlerror());
  atomic_fetch_sub(&loading, 1);
  if (handle != NULL) atomic_store(&core, handle);
  return handle;
}

static void* core_symbol(const char* name) {
  void* handle = load_core();
  return handle == NULL ? NULL : dlsym(handle, name);
}

/* The driver calls this from the first cuInit. Always 1: at 0 it would unload and call again. */
STEPAGENT_EXPORT int InitializeInjection(void) {
  const stepagent_core_cuda_fn entry =
      (stepagent_core_cuda_fn)core_symbol("stepagent_core_cuda");
  if (entry != NULL) entry(&stepagent_stub_state);
  return 1;
}

/* NVTX calls this once per DSO that embeds its headers. 0: no tool, calls become no-ops. */
STEPAGENT_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  const stepagent_core_nvtx_fn entry =
      (stepagent_core_nvtx_fn)core_symbol("stepagent_core_nvtx");
  return entry == NULL ? 0 : entry(&stepagent_stub_state, get_export_table);
}

/* Late entry: the library was loaded into a running process; assumes nothing about what is up. */
STEPAGENT_EXPORT int stepagent_attach(void) {
  if (disabled) start();
  const stepagent_core_attach_fn entry =
      (stepagent_core_attach_fn)core_symbol("stepagent_core_attach");
  return entry == NULL ? 0 : entry(&stepagent_stub_state);
}

/* --- cudaProfilerStart and Stop ------------------------------------------------------------- */

/* The calls are forwarded; arming by them needs no CUPTI while idle. The runtime's own symbol may
 * come with a library loaded later and locally, so RTLD_DEFAULT's order is not enough. */
typedef int (*profiler_fn)(void);
enum { kCudaErrorUnknownSymbol = 500 };

static int forward(const char* name, int is_start) {
  const char* arm = stepagent_env("STEPAGENT_ARM");
  if (!disabled && arm != NULL && strcmp(arm, "cudaProfilerApi") == 0) {
    const stepagent_core_profiler_fn entry =
        (stepagent_core_profiler_fn)core_symbol("stepagent_core_profiler");
    if (entry != NULL) entry(&stepagent_stub_state, is_start);
  }
  profiler_fn real = NULL;
  const profiler_fn next = (profiler_fn)dlsym(RTLD_NEXT, name);
  if (next != NULL) real = next;
  static const char* const kRuntimes[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
  for (size_t i = 0; real == NULL && i < sizeof kRuntimes / sizeof kRuntimes[0]; ++i) {
    void* runtime = dlopen(kRuntimes[i], RTLD_NOW | RTLD_NOLOAD);
    if (runtime != NULL) real = (profiler_fn)dlsym(runtime, name);
  }
  return real == NULL ? kCudaErrorUnknownSymbol : real();
}

STEPAGENT_EXPORT int cudaProfilerStart(void) { return forward("cudaProfilerStart", 1); }
STEPAGENT_EXPORT int cudaProfilerStop(void) { return forward("cudaProfilerStop", 0); }
