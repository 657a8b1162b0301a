/* The tracepoint. LTTng reads this file several times over. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER stepagent_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/support/lttng_launch.h"

#if !defined(STEPAGENT_BENCH_LTTNG_LAUNCH_H_) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define STEPAGENT_BENCH_LTTNG_LAUNCH_H_
#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    stepagent_bench, launch,
    LTTNG_UST_TP_ARGS(uint32_t, correlation, uint32_t, stream, uint8_t, device, uint32_t, name,
                      uint32_t, grid_x, uint32_t, grid_y, uint32_t, grid_z),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, correlation, correlation)
                            lttng_ust_field_integer(uint32_t, stream, stream)
                                lttng_ust_field_integer(uint8_t, device, device)
                                    lttng_ust_field_integer(uint32_t, name, name)
                                        lttng_ust_field_integer(uint32_t, grid_x, grid_x)
                                            lttng_ust_field_integer(uint32_t, grid_y, grid_y)
                                                lttng_ust_field_integer(uint32_t, grid_z, grid_z)))
#endif
#include <lttng/tracepoint-event.h>
