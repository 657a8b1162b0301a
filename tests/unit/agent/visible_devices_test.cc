// What an ordinal of a process stands for.
#include "proto/visible_devices.h"

#include "gtest/gtest.h"

namespace stepagent::proto {
namespace {

TEST(PhysicalDevice, IsWhatTheVariableNames) {
  EXPECT_EQ(PhysicalDevice(0, "3"), 3);
  EXPECT_EQ(PhysicalDevice(1, "6,2,4"), 2);
  EXPECT_EQ(PhysicalDevice(2, "6, 2, 4"), 4);
  EXPECT_EQ(PhysicalDevice(-1, "7"), 7);
}

TEST(PhysicalDevice, IsTheOrdinalWhereItDoesNotTell) {
  EXPECT_EQ(PhysicalDevice(1, ""), 1);
  EXPECT_EQ(PhysicalDevice(2, "5,6"), 2);
  EXPECT_EQ(PhysicalDevice(0, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"), 0);
  EXPECT_EQ(PhysicalDevice(1, "3,MIG-1"), 1);
  EXPECT_EQ(PhysicalDevice(1, "3;4"), 1);
  EXPECT_EQ(PhysicalDevice(0, "-1"), 0);
}

}  // namespace
}  // namespace stepagent::proto
