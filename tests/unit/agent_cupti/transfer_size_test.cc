// The offsets are those of the vendor's own parameter structures.
#include "agent/cupti/transfer_size.h"

#define __CUDA_API_VERSION_INTERNAL  // the first versions' types, too
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <generated_cuda_meta.h>
#include <generated_cuda_runtime_api_meta.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace stepagent::cupti {
namespace {

#define EXPECT_SIZE_AT(function, member)                                                        \
  EXPECT_EQ(TransferSizeOf(#function).first, offsetof(function##_params, member)) << #function; \
  EXPECT_EQ(sizeof(function##_params{}.member), 8U) << #function

#define EXPECT_AREA_AT(function, width, height) \
  EXPECT_SIZE_AT(function, width);              \
  EXPECT_EQ(TransferSizeOf(#function).second, offsetof(function##_params, height)) << #function

TEST(TransferSize, OfTheRuntime) {
  EXPECT_SIZE_AT(cudaMemset_v3020, count);
  EXPECT_SIZE_AT(cudaMemsetAsync_v3020, count);
  EXPECT_SIZE_AT(cudaMemsetAsync_ptsz_v7000, count);
  EXPECT_AREA_AT(cudaMemset2D_v3020, width, height);
  EXPECT_AREA_AT(cudaMemset2DAsync_v3020, width, height);
  EXPECT_SIZE_AT(cudaMemcpy_v3020, count);
  EXPECT_SIZE_AT(cudaMemcpyAsync_v3020, count);
  EXPECT_SIZE_AT(cudaMemcpyAsync_ptsz_v7000, count);
  EXPECT_AREA_AT(cudaMemcpy2D_v3020, width, height);
  EXPECT_AREA_AT(cudaMemcpy2DAsync_v3020, width, height);
  EXPECT_SIZE_AT(cudaMemcpyPeer_v4000, count);
  EXPECT_SIZE_AT(cudaMemcpyPeerAsync_v4000, count);
  EXPECT_SIZE_AT(cudaMemcpyToSymbol_v3020, count);
  EXPECT_SIZE_AT(cudaMemcpyToSymbolAsync_v3020, count);
  EXPECT_SIZE_AT(cudaMemcpyFromSymbol_v3020, count);
  EXPECT_SIZE_AT(cudaMemcpyFromSymbolAsync_v3020, count);
}

TEST(TransferSize, OfTheDriver) {
  EXPECT_SIZE_AT(cuMemsetD8_v2, N);
  EXPECT_SIZE_AT(cuMemsetD16_v2, N);
  EXPECT_SIZE_AT(cuMemsetD32_v2_ptds, N);
  EXPECT_SIZE_AT(cuMemsetD8Async, N);
  EXPECT_SIZE_AT(cuMemsetD16Async, N);
  EXPECT_SIZE_AT(cuMemsetD32Async_ptsz, N);
  EXPECT_AREA_AT(cuMemsetD2D8_v2, Width, Height);
  EXPECT_AREA_AT(cuMemsetD2D16_v2, Width, Height);
  EXPECT_AREA_AT(cuMemsetD2D32_v2, Width, Height);
  EXPECT_AREA_AT(cuMemsetD2D8Async, Width, Height);
  EXPECT_AREA_AT(cuMemsetD2D16Async, Width, Height);
  EXPECT_AREA_AT(cuMemsetD2D32Async, Width, Height);
  EXPECT_SIZE_AT(cuMemcpy, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyAsync, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyHtoD_v2, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyDtoH_v2, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyDtoD_v2, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyHtoDAsync_v2, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyDtoHAsync_v2_ptsz, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyDtoDAsync_v2, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyPeer, ByteCount);
  EXPECT_SIZE_AT(cuMemcpyPeerAsync, ByteCount);
}

// The first versions count in 32 bits, arrays and volumes lie behind pointers: never read.
TEST(TransferSize, OfOthersIsNotKnown) {
  for (const char* name :
       {"cuMemsetD8", "cuMemcpyHtoD", "cuMemcpyDtoHAsync", "cuMemsetD2D32", "cuMemcpy2D_v2",
        "cuMemcpy3D_v2", "cudaMemset3D_v3020", "cudaMemcpyToArray_v3020", "cuMemcpyHtoD_v2020",
        "cuMemcpyBatchAsync_v2", "cuLaunchKernel", "cu64MemcpyDtoH", ""}) {
    EXPECT_EQ(TransferSizeOf(name).first, 0U) << name;
  }
}

}  // namespace
}  // namespace stepagent::cupti
