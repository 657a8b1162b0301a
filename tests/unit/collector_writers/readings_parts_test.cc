// What readings are made of: intervals, ratios of medians, names that look private.
#include <utility>

#include "collector/analysis/cost.h"
#include "collector/analysis/intervals.h"
#include "collector/analysis/private_text.h"
#include "collector/analysis/readings.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

TEST(Intervals, WithoutCutsWhatTheOtherCovers) {
  const IntervalUnion a = MakeUnion({{0, 10}, {20, 30}, {40, 50}});
  const IntervalUnion b = MakeUnion({{2, 4}, {6, 22}, {29, 45}, {49, 60}});
  std::vector<std::pair<int64_t, int64_t>> parts;
  const IntervalUnion left = Without(a, b);
  for (const Interval& part : left.parts()) parts.push_back({part.begin_ns, part.end_ns});
  const std::vector<std::pair<int64_t, int64_t>> wanted{{0, 2}, {4, 6}, {22, 29}, {45, 49}};
  EXPECT_EQ(parts, wanted);
  EXPECT_EQ(Without(a, {}).TotalNs(), a.TotalNs());
  EXPECT_EQ(Without(a, a).TotalNs(), 0);
}

TEST(PrivateText, ShapesOfAddressesTokensAndPaths) {
  const auto kind = [](std::string_view name) { return FindPrivate(name).kind; };
  EXPECT_EQ(kind("job of jane.doe@example.org, second try"), PrivateKind::kMail);
  EXPECT_EQ(kind("load /home/jane/data.csv"), PrivateKind::kPath);
  EXPECT_EQ(kind("/data/sets/jane/x"), PrivateKind::kPath);
  EXPECT_EQ(kind("key=ghp_0123456789abcdefABCDEF0123456789abcd"), PrivateKind::kToken);
  EXPECT_EQ(kind("0123456789abcdef0123456789abcdef"), PrivateKind::kToken);
  for (const char* harmless :
       {"", "forward", "layer1/block2/attention", "train_step@torch", "x@y", "ProfilerStep#12",
        "aten::_scaled_dot_product_flash_attention_backward", "a@b@c.de", "/", "nccl:all_reduce",
        "Optimizer.step#AdamW.step", "triton_poi_fused_add_native_layer_norm_0d1d2d3d4d5d"}) {
    EXPECT_EQ(kind(harmless), PrivateKind::kNone) << harmless;
  }
  EXPECT_EQ(Masked("jane.doe@example.org"), "ja… (20 bytes)");
  EXPECT_EQ(kind(std::string(1 << 20, '@')), PrivateKind::kNone);
}

// The intervals of medians, against the coverage of fair coins worked out by hand.
TEST(Cost, RatioOfMediansWithItsInterval) {
  EXPECT_EQ(RatioOfMedians({1, 2}, {1, 2, 3}).at("reason"),
            "not measured: 2 and 3 values, 3 of each are needed");
  const Json three = RatioOfMedians({12, 10, 11}, {10, 9, 11});
  EXPECT_DOUBLE_EQ(three.at("value").get<double>(), 1.1);
  EXPECT_DOUBLE_EQ(three.at("low").get<double>(), 10.0 / 11);
  EXPECT_DOUBLE_EQ(three.at("high").get<double>(), 12.0 / 9);
  EXPECT_DOUBLE_EQ(three.at("coverage").get<double>(), 0.5);  // 3/4 each
  std::vector<int64_t> nine;
  for (int64_t i = 1; i <= 9; ++i) nine.push_back(i * 10);
  const Json of_nine = RatioOfMedians(nine, nine);
  EXPECT_DOUBLE_EQ(of_nine.at("low").get<double>(), 20.0 / 80);  // the second of nine: 96.1 %
  EXPECT_NEAR(of_nine.at("coverage").get<double>(), 2 * (1 - 20.0 / 512) - 1, 1e-12);
  EXPECT_TRUE(RatioOfMedians({1, 2, 3}, {0, 0, 0}).at("value").is_null());
}

}  // namespace
}  // namespace stepagent::analysis
