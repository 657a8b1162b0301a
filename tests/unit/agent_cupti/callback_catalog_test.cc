#include "agent/cupti/callback_catalog.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/unit/agent_cupti/real_library.h"

namespace stepagent::cupti {
namespace {

using core::CallClass;

TEST(CallbackCatalog, ClassesByName) {
  const std::map<std::string, CallClass> expected = {
      {"cuLaunchKernel", CallClass::kLaunch},
      {"cuLaunchKernel_ptsz", CallClass::kLaunch},
      {"cuLaunchKernelEx", CallClass::kLaunch},
      {"cuLaunchCooperativeKernelMultiDevice", CallClass::kLaunch},
      {"cudaLaunchKernel_v7000", CallClass::kLaunch},
      {"cudaLaunchKernelExC_ptsz_v11060", CallClass::kLaunch},
      {"__cudaLaunchKernel_v13000", CallClass::kLaunch},
      {"cuLaunchHostFunc", CallClass::kOther},
      {"cudaLaunchHostFunc_v10000", CallClass::kOther},
      {"cuGraphLaunch", CallClass::kGraphLaunch},
      {"cudaGraphLaunch_ptsz_v10000", CallClass::kGraphLaunch},
      {"cudaGraphKernelNodeSetParams_v10000", CallClass::kOther},
      {"cuGraphAddMemcpyNode", CallClass::kOther},
      {"cuMemcpyHtoDAsync_v2", CallClass::kMemcpy},
      {"cu64MemcpyDtoH", CallClass::kMemcpy},
      {"cudaMemcpy2DToArrayAsync_ptsz_v7000", CallClass::kMemcpy},
      {"cuMemcpy3DBatchAsync_v2_ptsz", CallClass::kMemcpy},
      {"cuMemsetD2D32Async", CallClass::kMemset},
      {"cudaMemset3D_v3020", CallClass::kMemset},
      {"cuMemSetAccess", CallClass::kOther},
      {"cudaMemSetMemPool_v13000", CallClass::kOther},
      {"cuCtxSynchronize", CallClass::kSync},
      {"cuCtxSynchronize_v2", CallClass::kSync},
      {"cudaDeviceSynchronize_v3020", CallClass::kSync},
      {"cudaEventSynchronize_v3020", CallClass::kSync},
      {"cudaStreamSynchronize_ptsz_v7000", CallClass::kSync},
      {"cuStreamWaitEvent", CallClass::kOther},
      {"cudaStreamQuery_v3020", CallClass::kOther},
      {"cuMemAlloc_v2", CallClass::kAlloc},
      {"cuMemAllocAsync_ptsz", CallClass::kAlloc},
      {"cudaMallocManaged_v6000", CallClass::kAlloc},
      {"cudaFreeAsync_v11020", CallClass::kAlloc},
      {"cuBinaryFree", CallClass::kOther},
      {"cudaGetDevice_v3020", CallClass::kOther},
      {"INVALID", CallClass::kOther},
      {"", CallClass::kOther},
  };
  for (const auto& [name, call_class] : expected) {
    EXPECT_EQ(CallbackCatalog::Classify(name), call_class) << name;
  }
}

TEST(CallbackCatalog, ShownNames) {
  EXPECT_EQ(CallbackCatalog::Shown("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(CallbackCatalog::Shown("cudaLaunchKernel_ptsz_v7000"), "cudaLaunchKernel_ptsz");
  EXPECT_EQ(CallbackCatalog::Shown("cudaMemcpyBatchAsync_v12080"), "cudaMemcpyBatchAsync");
  EXPECT_EQ(CallbackCatalog::Shown("cuMemcpyHtoD_v2"), "cuMemcpyHtoD_v2");
  EXPECT_EQ(CallbackCatalog::Shown("cuCtxGetDevice_v2_ptsz"), "cuCtxGetDevice_v2_ptsz");
  EXPECT_EQ(CallbackCatalog::Shown("cuInit"), "cuInit");
}

TEST(CallbackCatalog, RealNamesGiveTheKnownIds) {
  if (RealLibraries().empty()) GTEST_SKIP() << "no libcupti is installed here";
  ASSERT_TRUE(core::NameTable::Init());
  for (const auto& [version, api] : RealLibraries()) {
    SCOPED_TRACE(version);
    CallbackCatalog catalog;
    catalog.Build(api);
    // No number ever changed, 11.8 to 13.0.
    EXPECT_EQ(CallbackCatalog::Site(kDomainDriver, 307).call_class, CallClass::kLaunch);
    EXPECT_EQ(CallbackCatalog::Site(kDomainDriver, 514).call_class, CallClass::kGraphLaunch);
    EXPECT_EQ(CallbackCatalog::Site(kDomainDriver, 126).call_class, CallClass::kSync);
    EXPECT_EQ(CallbackCatalog::Site(kDomainDriver, 277).call_class, CallClass::kMemcpy);
    EXPECT_EQ(CallbackCatalog::Site(kDomainRuntime, 211).call_class, CallClass::kLaunch);
    EXPECT_EQ(CallbackCatalog::Site(kDomainRuntime, 311).call_class, CallClass::kGraphLaunch);
    EXPECT_EQ(CallbackCatalog::Site(kDomainRuntime, 165).call_class, CallClass::kSync);
    EXPECT_EQ(core::NameTable::Text(CallbackCatalog::Site(kDomainRuntime, 211).name),
              "cudaLaunchKernel");
    EXPECT_GT(catalog.functions().size(), 200U);
    EXPECT_LT(catalog.functions().size(), 600U);
  }
}

}  // namespace
}  // namespace stepagent::cupti
