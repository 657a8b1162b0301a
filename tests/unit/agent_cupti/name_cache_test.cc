#include "agent/cupti/name_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace stepagent::cupti {
namespace {

TEST(NameCache, ThePointerIsOnlyAHint) {
  ASSERT_TRUE(core::NameTable::Init());
  NameCache cache;
  char name[64] = "first_kernel";
  const core::NameId first = cache.Intern(name);
  EXPECT_EQ(cache.Intern(name), first);
  // The library freed the name and the address holds another now.
  std::strcpy(name, "second");
  cache.BeginBuffer();
  const core::NameId second = cache.Intern(name);
  EXPECT_NE(first, second);
  EXPECT_EQ(core::NameTable::Text(second), "second");
  std::strcpy(name, "second_and_more");  // a prefix is no match
  cache.BeginBuffer();
  EXPECT_EQ(core::NameTable::Text(cache.Intern(name)), "second_and_more");
  std::strcpy(name, "first_kernel");
  cache.BeginBuffer();
  EXPECT_EQ(cache.Intern(name), first);
  cache.Clear();
  EXPECT_EQ(cache.Intern(name), first);
}

TEST(NameCache, ManyNames) {
  ASSERT_TRUE(core::NameTable::Init());
  NameCache cache;
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("kernel_" + std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      ASSERT_EQ(core::NameTable::Text(cache.Intern(name.c_str())), name);
    }
  }
}

}  // namespace
}  // namespace stepagent::cupti
