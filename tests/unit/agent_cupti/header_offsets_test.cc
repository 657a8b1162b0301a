// The offsets the decoder uses, against the vendor's structures of the headers at hand.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "agent/cupti/api_table.h"

namespace stepagent::cupti {
namespace {

#if CUPTI_API_VERSION >= 130000
TEST(HeaderOffsets, AgreeWithTheDecoder) {
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, registersPerThread), 6U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, start), 16U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, deviceId), 40U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, gridX), 52U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, blockX), 64U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, staticSharedMemory), 76U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, localMemoryPerThread), 84U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, correlationId), 92U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, name), 104U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, graphNodeId), 144U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, graphId), 156U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, channelID), 168U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, clusterX), 176U);
  EXPECT_EQ(offsetof(CUpti_ActivityKernel10, isDeviceLaunched), 208U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpy6, correlationId), 44U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpy6, runtimeCorrelationId), 48U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpy6, channelID), 76U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpy6, isDeviceLaunched), 84U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpy6, copyCount), 88U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, correlationId), 60U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, dstDeviceId), 52U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, graphNodeId), 72U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemcpyPtoP4, channelID), 84U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemset4, correlationId), 44U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemset4, memoryKind), 50U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemset4, isDeviceLaunched), 84U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, correlationId), 24U);
  EXPECT_EQ(offsetof(CUpti_ActivitySynchronization2, streamId), 32U);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, objectId), 12U);
  EXPECT_EQ(offsetof(CUpti_ActivityOverhead3, start), 24U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, graphId), 28U);
  EXPECT_EQ(offsetof(CUpti_ActivityGraphTrace2, streamId), 36U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemory4, timestamp), 32U);
  EXPECT_EQ(offsetof(CUpti_ActivityMemory4, deviceId), 52U);
  EXPECT_EQ(offsetof(CUpti_ActivityContext3, nullStreamId), 14U);
  EXPECT_EQ(offsetof(CUpti_ActivityStream, priority), 12U);
  EXPECT_EQ(offsetof(CUpti_ActivityDevice5, maxWarpsPerMultiprocessor), 52U);
  EXPECT_EQ(offsetof(CUpti_ActivityDevice5, maxThreadsPerBlock), 76U);
  EXPECT_EQ(offsetof(CUpti_ActivityDevice5, uuid), 120U);
  EXPECT_EQ(offsetof(CUpti_ActivityDevice5, name), 136U);
  EXPECT_EQ(offsetof(CUpti_ActivityDevice5, isCudaVisible), 144U);
  EXPECT_EQ(sizeof(CUpti_SubscriberParams), sizeof(SubscriberParams));
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
