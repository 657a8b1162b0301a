/* A second NVTX client in a library of its own, which no tool has been offered to. */
#ifndef STEPAGENT_BENCH_NVTX_UNTOUCHED_H_
#define STEPAGENT_BENCH_NVTX_UNTOUCHED_H_
#ifdef __cplusplus
extern "C" {
#endif
void StepagentUntouchedPair(const char* name);
#ifdef __cplusplus
}
#endif
#endif
