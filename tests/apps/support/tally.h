// Counts of what a program asked of the device and of NVTX, and their JSON form.
//
// Tests compare a program's plan (--print-expected), its own count (--print-counts) and what the
// tool under test wrote, so all three use one shape.
//
// Thread rule: a tally is changed by one thread at a time; the caller hands it over.
// Failure rule: none.
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "step_ptx.h"

typedef enum CallId {
  kCallLaunchKernel,
  kCallGraphLaunch,
  kCallHtoDAsync,
  kCallDtoHAsync,
  kCallDtoDAsync,
  kCallDtoH,
  kCallSetD8Async,
  kCallSetD32Async,
  kCallStreamSynchronize,
  kCallEventSynchronize,
  kCallCtxSynchronize,
  kCallStreamWaitEvent,
  kCallEventRecord,
  kCallCount
} CallId;

typedef enum CopyKind {
  kCopyHtoDPinned,
  kCopyHtoDPageable,
  kCopyDtoHPinned,
  kCopyDtoHPageable,
  kCopyDtoD,
  kCopyKindCount
} CopyKind;

typedef enum RangeId {
  kRangeStep,
  kRangeLoadBatch,
  kRangeCopyIn,
  kRangeForward,
  kRangeBackward,
  kRangeBackwardWorker,
  kRangeBackwardLayer,
  kRangeOptimizer,
  kRangeCount
} RangeId;

typedef struct Tally {
  uint64_t calls[kCallCount];
  uint64_t kernels[kKernelCount];  // executions on the device, those of graphs included
  uint64_t copies[kCopyKindCount];
  uint64_t copy_bytes[kCopyKindCount];
  uint64_t sets;
  uint64_t set_bytes;
  uint64_t ranges[kRangeCount];
} Tally;

extern const char* const kRangeNames[kRangeCount];

void TallyCopy(Tally* tally, CallId call, CopyKind kind, uint64_t bytes);
void TallySet(Tally* tally, CallId call, uint64_t bytes);
void TallyAdd(Tally* sum, const Tally* part);

// One JSON object on one line, without a newline. Counts that are zero are left out of the maps.
void TallyPrint(FILE* out, const Tally* tally);
