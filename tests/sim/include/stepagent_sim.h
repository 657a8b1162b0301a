/* Controls of the simulated CUDA driver, for programs under test and for tests.
 *
 * A program looks every function up with dlsym(RTLD_DEFAULT, ...) or dlsym(handle of libcuda.so.1,
 * ...), so that the same binary loads on a real driver, where the lookup answers NULL. All
 * functions are exported by the simulated libcuda.so.1 only.
 *
 * Threads: every function may be called from any thread. Failure: functions that return a pointer
 * return NULL, others do nothing; none of them needs cuInit.
 */
#ifndef STEPAGENT_SIM_H_
#define STEPAGENT_SIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A duration that never ends: the stream is stuck for good. */
#define STEPAGENT_SIM_FOREVER UINT64_MAX

/* A kernel of that name which runs for duration_ns. The same name and duration give the same
 * handle. It serves as CUfunction for cuLaunchKernel and cuLaunchKernelEx, and as the `func`
 * argument of cudaLaunchKernel and cudaLaunchKernelExC of the simulated runtime. The name is
 * copied; it may be long and need not be UTF-8. */
void* stepagent_sim_register_kernel(const char* name, uint64_t duration_ns);
typedef void* (*stepagent_sim_register_kernel_fn)(const char* name, uint64_t duration_ns);

/* The next device operation (kernel, copy, set) that the calling thread submits runs for this
 * long, whatever it is. A captured operation keeps the duration for its node. */
void stepagent_sim_next_duration_ns(uint64_t duration_ns);
typedef void (*stepagent_sim_next_duration_ns_fn)(uint64_t duration_ns);

/* The present value of one counter of the table in tests/sim/README.md; 0 for an unknown name. */
uint64_t stepagent_sim_counter(const char* name);
typedef uint64_t (*stepagent_sim_counter_fn)(const char* name);

/* Writes all counters as "name value" lines. 0 on success, else an errno value. */
int stepagent_sim_write_stats(const char* path);
typedef int (*stepagent_sim_write_stats_fn)(const char* path);

/* The device operations submitted so far that have not ended yet, over all streams. */
uint64_t stepagent_sim_pending_ops(void);
typedef uint64_t (*stepagent_sim_pending_ops_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* STEPAGENT_SIM_H_ */
