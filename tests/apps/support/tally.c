#include "tally.h"

#include <inttypes.h>

const char* const kRangeNames[kRangeCount] = {
    "train_step", "load_batch",      "copy_in",        "forward",
    "backward",   "backward_worker", "backward_layer", "optimizer",
};

// The names under which a tracer of the driver API sees the calls.
static const char* const kCallNames[kCallCount] = {
    "cuLaunchKernel",      "cuGraphLaunch",      "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync",   "cuMemcpyDtoH",       "cuMemsetD8Async",   "cuMemsetD32Async",
    "cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",  "cuStreamWaitEvent",
    "cuEventRecord",
};

static const char* const kCopyKindNames[kCopyKindCount] = {
    "HtoD_pinned", "HtoD_pageable", "DtoH_pinned", "DtoH_pageable", "DtoD",
};

void TallyCopy(Tally* tally, CallId call, CopyKind kind, uint64_t bytes) {
  tally->calls[call]++;
  tally->copies[kind]++;
  tally->copy_bytes[kind] += bytes;
}

void TallySet(Tally* tally, CallId call, uint64_t bytes) {
  tally->calls[call]++;
  tally->sets++;
  tally->set_bytes += bytes;
}

// A tally is nothing but counters of one width, so the sum goes word by word.
_Static_assert(sizeof(Tally) % sizeof(uint64_t) == 0, "Tally holds only 64-bit counters");

void TallyAdd(Tally* sum, const Tally* part) {
  uint64_t* to = (uint64_t*)sum;
  const uint64_t* from = (const uint64_t*)part;
  for (size_t i = 0; i < sizeof(Tally) / sizeof(uint64_t); i++) to[i] += from[i];
}

static void PrintMap(FILE* out, const char* key, const char* const* names, const uint64_t* values,
                     int count) {
  const char* separator = "";
  fprintf(out, ", \"%s\": {", key);
  for (int i = 0; i < count; i++) {
    if (values[i] == 0) continue;
    fprintf(out, "%s\"%s\": %" PRIu64, separator, names[i], values[i]);
    separator = ", ";
  }
  fputc('}', out);
}

void TallyPrint(FILE* out, const Tally* tally) {
  uint64_t kernels = 0, copies = 0;
  for (int i = 0; i < kKernelCount; i++) kernels += tally->kernels[i];
  for (int i = 0; i < kCopyKindCount; i++) copies += tally->copies[i];
  const uint64_t* calls = tally->calls;
  fprintf(out, "{\"launches\": %" PRIu64, calls[kCallLaunchKernel] + calls[kCallGraphLaunch]);
  fprintf(out, ", \"graph_launches\": %" PRIu64, calls[kCallGraphLaunch]);
  fprintf(out, ", \"kernels\": %" PRIu64 ", \"copies\": %" PRIu64, kernels, copies);
  fprintf(out, ", \"sets\": %" PRIu64 ", \"set_bytes\": %" PRIu64, tally->sets, tally->set_bytes);
  fprintf(
      out, ", \"syncs\": %" PRIu64,
      calls[kCallStreamSynchronize] + calls[kCallEventSynchronize] + calls[kCallCtxSynchronize]);
  PrintMap(out, "calls", kCallNames, calls, kCallCount);
  PrintMap(out, "kernels_by_name", kKernelNames, tally->kernels, kKernelCount);
  PrintMap(out, "copies_by_kind", kCopyKindNames, tally->copies, kCopyKindCount);
  PrintMap(out, "copy_bytes_by_kind", kCopyKindNames, tally->copy_bytes, kCopyKindCount);
  PrintMap(out, "ranges", kRangeNames, tally->ranges, kRangeCount);
  fputc('}', out);
}
