// Small helpers over the simulated driver for tests.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "common/clock.h"
#include "include/stepagent_sim.h"
#include "tests/isolated.h"

namespace stepagent::sim_test {

#define ASSERT_CUDA(call) ASSERT_EQ((call), CUDA_SUCCESS)
#define EXPECT_CUDA(call) EXPECT_EQ((call), CUDA_SUCCESS)

// cuInit and the primary context of a device, current on this thread.
inline CUcontext UseDevice(int ordinal = 0) {
  EXPECT_CUDA(cuInit(0));
  CUcontext context = nullptr;
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, ordinal));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  return context;
}

inline CUfunction Kernel(const char* name, uint64_t duration_ns) {
  return static_cast<CUfunction>(stepagent_sim_register_kernel(name, duration_ns));
}

inline CUresult Launch(CUfunction kernel, CUstream stream = nullptr) {
  return cuLaunchKernel(kernel, 2, 1, 1, 64, 1, 1, 0, stream, nullptr, nullptr);
}

inline CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  EXPECT_CUDA(cuStreamCreate(&stream, flags));
  return stream;
}

inline CUdeviceptr NewMemory(size_t bytes) {
  CUdeviceptr memory = 0;
  EXPECT_CUDA(cuMemAlloc(&memory, bytes));
  return memory;
}

constexpr uint64_t kMs = 1000000;

}  // namespace stepagent::sim_test
