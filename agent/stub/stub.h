/* libstepagent.so, the stub: what every process of the tree loads.
 *
 * Purpose: cost nothing in processes of no interest. The constructor reads a few environment entries,
 * adds the two injection variables where they are free, notes which file descriptor 2 is and, if a
 * signal was asked for by name, installs one handler. No thread, socket, dlopen, file or heap. The first InitializeInjection*
 * loads libstepagent_core.so from beside this file.
 * Thread rule: the constructor runs before main; the entry points may come on any thread, several at
 * once.
 * Failure rule: every failure leaves the process as if we were not there.
 *
 * Plain C, libc only, and only symbols that glibc 2.17 (2.28 off x86-64) has; see symver.h.
 */
#ifndef STEPAGENT_AGENT_STUB_STUB_H_
#define STEPAGENT_AGENT_STUB_STUB_H_

#ifdef __cplusplus
#include <atomic>
#include <cstdint>
typedef std::atomic<uint32_t> stepagent_word;
typedef std::atomic<std::atomic<uint32_t>*> stepagent_word_pointer;
extern "C" {
#else
#include <stdatomic.h>
#include <stdint.h>
typedef _Atomic uint32_t stepagent_word;
typedef _Atomic(stepagent_word*) stepagent_word_pointer;
#endif

/* Shared with the core, which gets a pointer to the one instance. Both are built together, but
 * `size` lets a core beside an older stub refuse instead of guessing. */
struct stepagent_stub {
  uint32_t size;
  stepagent_word signals;      /* toggles received, counted by the handler */
  stepagent_word_pointer wake; /* futex word of the core's thread; the handler bumps and wakes it */
  const char* path;            /* absolute path of this file */
  const char* start_dir;       /* working directory when the process started; "" unknown */
  int signal_number;           /* installed signal; 0 none */
  int signal_taken;            /* the application had its own disposition: we left it */
  /* Installs the handler for `number` where the disposition is the default. 0 done, -1 not. */
  int (*install_signal)(int number);
  /* 1 while the handler of signal_number is ours. */
  int (*signal_is_ours)(void);
  /* 1 while descriptor 2 is the file it was when the process started. */
  int (*stderr_is_ours)(void);
};

/* The core's entry points, found by dlsym. */
typedef int (*stepagent_core_cuda_fn)(struct stepagent_stub*);
typedef int (*stepagent_core_nvtx_fn)(struct stepagent_stub*, void* get_export_table);
typedef void (*stepagent_core_profiler_fn)(struct stepagent_stub*, int start);
typedef int (*stepagent_core_attach_fn)(struct stepagent_stub*);

#ifdef __cplusplus
}
#else
/* stub_env.c */
const char* stepagent_env(const char* name);
void stepagent_env_add(const char* name, const char* value);
/* stub_stderr.c */
void stepagent_remember_stderr(void);
int stepagent_stderr_is_ours(void);
/* stub_signal.c */
extern struct stepagent_stub stepagent_stub_state;
int stepagent_signal_number(const char* text);
int stepagent_install_signal(int number);
int stepagent_signal_is_ours(void);
void stepagent_signal_in_child(void);
#endif

#endif
