/* Launches as LTTng-UST tracepoints: seven integer fields each. */
#ifndef STEPAGENT_BENCH_LTTNG_BURST_H_
#define STEPAGENT_BENCH_LTTNG_BURST_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
void StepagentLttngBurst(uint32_t first, uint32_t count);
#ifdef __cplusplus
}
#endif
#endif
