#include "tests/bench/support/lttng_burst.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/support/lttng_launch.h"

void StepagentLttngBurst(uint32_t first, uint32_t count) {
  for (uint32_t i = first; i != first + count; ++i) {
    lttng_ust_tracepoint(stepagent_bench, launch, i, i & 3U, 0, i & 255U, i & 1023U, 1U, 1U);
  }
}
