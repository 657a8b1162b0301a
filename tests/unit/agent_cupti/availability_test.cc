#include "agent/cupti/availability.h"

#include <gtest/gtest.h>

#include <map>

namespace stepagent::cupti {
namespace {

TEST(Availability, DriverResults) {
  EXPECT_FALSE(ReasonOfDriver(0).is_set());
  const std::map<int, std::string> expected = {{34, "stub_driver"},      {100, "no_device"},
                                               {803, "driver_mismatch"}, {804, "driver_mismatch"},
                                               {304, "no_device"},       {719, "error"}};
  for (const auto& [result, code] : expected) {
    EXPECT_EQ(ReasonOfDriver(result).code, code) << result;
    EXPECT_FALSE(ReasonOfDriver(result).sentence.empty());
  }
}

TEST(Availability, CuptiResults) {
  EXPECT_FALSE(ReasonOfCupti("f", 0, "", "").is_set());
  const std::map<int, std::string> expected = {
      {35, "not_permitted"},          {39, "slot_taken"},        {40, "vgpu_not_permitted"},
      {41, "confidential_computing"}, {42, "cmp_not_supported"}, {43, "mig_not_supported"},
      {45, "wsl_not_supported"},      {14, "not_compatible"},    {777, "error"}};
  for (const auto& [result, code] : expected) {
    EXPECT_EQ(ReasonOfCupti("cuptiSubscribe", result, "TEXT", "").code, code) << result;
  }
  EXPECT_NE(ReasonOfCupti("cuptiSubscribe", 39, "", "CUPTI for Kineto").sentence.find("Kineto"),
            std::string::npos);
  EXPECT_NE(ReasonOfCupti("cuptiX", 777, "TEXT (777)", "").sentence.find("TEXT (777)"),
            std::string::npos);
  EXPECT_TRUE(MeansNotInitialized(15));
  EXPECT_TRUE(MeansNotInitialized(999));
  EXPECT_FALSE(MeansNotInitialized(35));
}

TEST(Availability, Versions) {
  EXPECT_EQ(CudaVersionText(12040), "12.4");
  EXPECT_EQ(CudaVersionText(13000), "13.0");
  EXPECT_NE(CuptiTooNewReason("/x/libcupti.so.13", 130000, 12020).sentence.find("12.2"),
            std::string::npos);
  EXPECT_NE(CuptiMissingReason(12040, "tried").sentence.find("CUDA 12 "), std::string::npos);
}

}  // namespace
}  // namespace stepagent::cupti
