// The kernels of train_loop and train.py as PTX text, and their common parameter block.
//
// Thread rule: constants only.
// Failure rule: none; the text is PTX 5.0 for sm_52 and later and needs no compiler but the
// driver's own.
#pragma once

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Every kernel takes the same arguments, so one launch function serves all of them.
typedef struct KernelArguments {
  CUdeviceptr pointers[4];
  float factor;
  uint32_t count;
  uint64_t min_ns;  // each thread stays at least this long, by %globaltimer
} KernelArguments;

typedef enum KernelId {
  kKernelForwardLinear,  // out(2) = in(0) * weight(1) + factor
  kKernelForwardRelu,    // in(0) = max(in(0), 0)
  kKernelLossSum,        // delta(2) = in(0) - label(1); loss(3) += round(4096 * delta^2)
  kKernelBackward,       // grad(3) += delta(0) * in(2), delta(0) *= weight(1), where relu was open
  kKernelSgdUpdate,      // weight(0) += factor * grad(1)
  kKernelCount
} KernelId;

extern const char* const kKernelNames[kKernelCount];
extern const char kStepPtx[];

#ifdef __cplusplus
}
#endif
