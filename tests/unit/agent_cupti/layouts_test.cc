#include "agent/cupti/layouts.h"

#include <gtest/gtest.h>

#include "tests/unit/agent_cupti/fake_iterator.h"
#include "tests/unit/agent_cupti/real_library.h"

namespace stepagent::cupti {
namespace {

TEST(Layouts, FindsEachVersionsSizes) {
  for (const FakeVersion& version : kFakeVersions) {
    SCOPED_TRACE(version.name);
    FakeIterator::Set(version);
    const ApiTable api = FakeIterator::Table();
    Layouts layouts;
    layouts.Calibrate(api);
    EXPECT_EQ(layouts.bytes(kKindConcurrentKernel), version.kernel);
    EXPECT_EQ(layouts.bytes(kKindKernel), version.kernel);
    EXPECT_EQ(layouts.bytes(kKindMemcpy), version.memcpy);
    EXPECT_EQ(layouts.bytes(kKindMemcpyPeer), version.memcpy_peer);
    EXPECT_EQ(layouts.bytes(kKindMemset), version.memset);
    EXPECT_EQ(layouts.bytes(kKindSync), version.sync);
    EXPECT_EQ(layouts.bytes(kKindContext), version.context);
    EXPECT_EQ(layouts.bytes(kKindMemory2), version.memory2);
    EXPECT_EQ(layouts.bytes(kKindGraphTrace), version.graph);
    EXPECT_EQ(layouts.IsDecodable(kKindGraphTrace), version.graph != 0);
    EXPECT_EQ(layouts.is_newer(), std::string(version.name) == "future");
    EXPECT_EQ(layouts.memset_has_device_launched(), version.kernel >= 216);
  }
}

TEST(Layouts, ShorterThanTheFamilyIsNotDecodable) {
  FakeIterator::Set(kFakeVersions[4]);
  FakeIterator::SetSize(kKindConcurrentKernel, 136);
  Layouts layouts;
  layouts.Calibrate(FakeIterator::Table());
  EXPECT_EQ(layouts.bytes(kKindConcurrentKernel), 136U);
  EXPECT_FALSE(layouts.IsDecodable(kKindConcurrentKernel));
  EXPECT_FALSE(layouts.IsDecodable(kKindLimit));
  EXPECT_EQ(layouts.bytes(kKindLimit), 0U);
}

TEST(Layouts, RealLibrariesHaveTheSizesTheTableNames) {
  if (RealLibraries().empty()) GTEST_SKIP() << "no libcupti is installed here";
  for (const auto& [version, api] : RealLibraries()) {
    SCOPED_TRACE(version);
    Layouts layouts;
    layouts.Calibrate(api);
    for (const KindSpec& spec : kKinds) {
      if (spec.kind == kKindGraphTrace && version < 15) continue;  // came with 11.7
      EXPECT_TRUE(layouts.IsDecodable(spec.kind)) << spec.name;
      EXPECT_EQ(layouts.bytes(spec.kind) % 8, 0U) << spec.name;
    }
    EXPECT_EQ(layouts.is_newer(), version > 130500);
    if (version != 130001) continue;
    EXPECT_EQ(layouts.bytes(kKindConcurrentKernel), 216U);
    EXPECT_EQ(layouts.bytes(kKindMemcpy), 96U);
    EXPECT_EQ(layouts.bytes(kKindMemset), 88U);
    EXPECT_EQ(layouts.bytes(kKindSync), 56U);
    EXPECT_EQ(layouts.bytes(kKindContext), 32U);
    EXPECT_EQ(layouts.bytes(kKindDevice), 184U);
  }
}

}  // namespace
}  // namespace stepagent::cupti
