// The offsets the decoder uses, against the vendor's structures of the headers at hand.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "agent/cupti/api_table.h"

namespace stepagent::cupti {
namespace {

#if CUPTI_API_VERSION >= 130000
// The newest structure of each family is the one that is written.
#if CUPTI_API_VERSION >= 130500
using Kernel = CUpti_ActivityKernel13;
using Memcpy = CUpti_ActivityMemcpy7;
using Memset = CUpti_ActivityMemset5;
#elif CUPTI_API_VERSION >= 130100
using Kernel = CUpti_ActivityKernel11;
using Memcpy = CUpti_ActivityMemcpy6;
using Memset = CUpti_ActivityMemset4;
#else
using Kernel = CUpti_ActivityKernel10;
using Memcpy = CUpti_ActivityMemcpy6;
using Memset = CUpti_ActivityMemset4;
#endif
#if CUPTI_API_VERSION >= 130200
using Device = CUpti_ActivityDevice6;
#else
using Device = CUpti_ActivityDevice5;
#endif
#if CUPTI_API_VERSION >= 130100
using Context = CUpti_ActivityContext4;
#else
using Context = CUpti_ActivityContext3;
#endif

TEST(HeaderOffsets, Kernels) {
  EXPECT_EQ(offsetof(Kernel, registersPerThread), 6U);
  EXPECT_EQ(offsetof(Kernel, start), 16U);
  EXPECT_EQ(offsetof(Kernel, end), 24U);
  EXPECT_EQ(offsetof(Kernel, deviceId), 40U);
  EXPECT_EQ(offsetof(Kernel, contextId), 44U);
  EXPECT_EQ(offsetof(Kernel, streamId), 48U);
  EXPECT_EQ(offsetof(Kernel, gridX), 52U);
  EXPECT_EQ(offsetof(Kernel, blockX), 64U);
  EXPECT_EQ(offsetof(Kernel, staticSharedMemory), 76U);
  EXPECT_EQ(offsetof(Kernel, dynamicSharedMemory), 80U);
  EXPECT_EQ(offsetof(Kernel, localMemoryPerThread), 84U);
  EXPECT_EQ(offsetof(Kernel, correlationId), 92U);
  EXPECT_EQ(offsetof(Kernel, name), 104U);
  EXPECT_EQ(offsetof(Kernel, graphNodeId), 144U);
  EXPECT_EQ(offsetof(Kernel, graphId), 156U);
  EXPECT_EQ(offsetof(Kernel, channelID), 168U);
  EXPECT_EQ(offsetof(Kernel, channelType), 172U);
  EXPECT_EQ(offsetof(Kernel, clusterX), 176U);
  EXPECT_EQ(offsetof(Kernel, isDeviceLaunched), 208U);
}

TEST(HeaderOffsets, CopiesAndSets) {
  EXPECT_EQ(offsetof(Memcpy, copyKind), 4U);
  EXPECT_EQ(offsetof(Memcpy, flags), 7U);
  EXPECT_EQ(offsetof(Memcpy, bytes), 8U);
  EXPECT_EQ(offsetof(Memcpy, start), 16U);
  EXPECT_EQ(offsetof(Memcpy, deviceId), 32U);
  EXPECT_EQ(offsetof(Memcpy, correlationId), 44U);
  EXPECT_EQ(offsetof(Memcpy, runtimeCorrelationId), 48U);
  EXPECT_EQ(offsetof(Memcpy, graphNodeId), 64U);
  EXPECT_EQ(offsetof(Memcpy, graphId), 72U);
  EXPECT_EQ(offsetof(Memcpy, channelID), 76U);
  EXPECT_EQ(offsetof(Memcpy, isDeviceLaunched), 84U);
  EXPECT_EQ(offsetof(Memcpy, copyCount), 88U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, srcDeviceId), 44U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, dstDeviceId), 52U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, correlationId), 60U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, graphNodeId), 72U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, graphId), 80U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, channelID), 84U);
  EXPECT_EQ(offsetof(Memset, bytes), 8U);
  EXPECT_EQ(offsetof(Memset, deviceId), 32U);
  EXPECT_EQ(offsetof(Memset, correlationId), 44U);
  EXPECT_EQ(offsetof(Memset, memoryKind), 50U);
  EXPECT_EQ(offsetof(Memset, graphNodeId), 64U);
  EXPECT_EQ(offsetof(Memset, graphId), 72U);
  EXPECT_EQ(offsetof(Memset, channelID), 76U);
  EXPECT_EQ(offsetof(Memset, isDeviceLaunched), 84U);
}

TEST(HeaderOffsets, TheRest) {
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, start), 8U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, correlationId), 24U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, contextId), 28U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, streamId), 32U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, cudaEventId), 36U);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, objectKind), 8U);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, objectId), 12U);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, start), 24U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, start), 8U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, deviceId), 24U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, graphId), 28U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, contextId), 32U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, streamId), 36U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemory4, address), 16U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemory4, timestamp), 32U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemory4, deviceId), 52U);
  EXPECT_EQ(offsetof(Context, deviceId), 8U);
  EXPECT_EQ(offsetof(Context, nullStreamId), 14U);
  EXPECT_EQ(offsetof(CUpti_ActivityStream, streamId), 8U);
  EXPECT_EQ(offsetof(CUpti_ActivityStream, priority), 12U);
  EXPECT_EQ(offsetof(Device, globalMemorySize), 16U);
  EXPECT_EQ(offsetof(Device, numMultiprocessors), 44U);
  EXPECT_EQ(offsetof(Device, maxWarpsPerMultiprocessor), 52U);
  EXPECT_EQ(offsetof(Device, maxThreadsPerBlock), 76U);
  EXPECT_EQ(offsetof(Device, computeCapabilityMajor), 104U);
  EXPECT_EQ(offsetof(Device, id), 112U);
  EXPECT_EQ(offsetof(Device, uuid), 120U);
  EXPECT_EQ(offsetof(Device, name), 136U);
  EXPECT_EQ(offsetof(Device, isCudaVisible), 144U);
  EXPECT_GE(sizeof(CUpti_SubscriberParams), sizeof(SubscriberParams));
  EXPECT_EQ(offsetof(CUpti_SubscriberParams, oldSubscriberName),
            offsetof(SubscriberParams, holder));
}
#else
TEST(HeaderOffsets, AgreeWithTheDecoder) {
  GTEST_SKIP() << "the CUPTI headers of this build are older than 13.0";
}
#endif

}  // namespace
}  // namespace stepagent::cupti
