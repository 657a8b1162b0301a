#include "agent/unwind/module_map.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "agent/unwind/stack_resolver.h"

namespace stepagent::unwind {
namespace {

std::string PathOf(const Module& module) { return std::string(core::NameTable::Text(module.path)); }

class ModuleMapTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(core::NameTable::Init()); }
};

[[gnu::noinline]] int SomeFunction() { return 3; }

TEST_F(ModuleMapTest, KnowsTheProgramAndLibc) {
  ModuleMap map;
  EXPECT_FALSE(map.Refresh());
  const Module* own = map.Find(reinterpret_cast<uintptr_t>(&SomeFunction));
  ASSERT_NE(own, nullptr);
  EXPECT_NE(PathOf(*own).find("/agent_unwind_test"), std::string::npos);
  EXPECT_TRUE(own->is_below_call);  // what is compiled in here is ours
  const Module* libc = map.Find(reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "qsort")));
  ASSERT_NE(libc, nullptr);
  EXPECT_NE(PathOf(*libc).find("libc"), std::string::npos);
  EXPECT_EQ(libc->build_id.size(), 20U);
  EXPECT_FALSE(libc->is_below_call);
  int here = 0;
  EXPECT_EQ(map.Find(reinterpret_cast<uintptr_t>(&here)), nullptr);
  EXPECT_EQ(map.Find(0), nullptr);
  EXPECT_EQ(map.Find(UINTPTR_MAX), nullptr);
}

TEST_F(ModuleMapTest, SeesLibrariesComeAndGo) {
  ModuleMap map;
  (void)map.Refresh();
  void* plugin = dlopen(STEPAGENT_UNWIND_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto at = reinterpret_cast<uintptr_t>(dlsym(plugin, "unwind_plugin_function"));
  EXPECT_FALSE(map.Refresh());  // came, none went
  const Module* module = map.Find(at);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(PathOf(*module), STEPAGENT_UNWIND_PLUGIN);
  EXPECT_EQ(module->build_id, "\x5c\xa1\xab\x1e\x5c\xa1\xab\x1e");
  ASSERT_EQ(dlclose(plugin), 0);
  EXPECT_TRUE(map.Refresh());
  EXPECT_EQ(map.Find(at), nullptr);
  EXPECT_FALSE(map.Refresh());
}

// The same addresses in another library are another stack.
TEST_F(ModuleMapTest, StacksBeforeAndAfterAnUnloadDiffer) {
  StackTable table;
  ASSERT_TRUE(table.Map());
  StackResolver resolver(&table);
  void* plugin = dlopen(STEPAGENT_UNWIND_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto at = reinterpret_cast<uintptr_t>(dlsym(plugin, "unwind_plugin_function")) + 4;
  const uintptr_t frames[] = {at};
  const uint32_t before = table.Intern(frames, 1, false);
  const ResolvedStack* stack = resolver.Resolve(before);
  ASSERT_NE(stack, nullptr);
  ASSERT_EQ(stack->frames.size(), 1U);
  ASSERT_NE(stack->frames[0].module, 0U);
  const ModuleName& module = resolver.modules()[stack->frames[0].module - 1];
  EXPECT_EQ(core::NameTable::Text(module.path), STEPAGENT_UNWIND_PLUGIN);
  EXPECT_LT(stack->frames[0].address, at);
  ASSERT_EQ(dlclose(plugin), 0);
  resolver.WatchUnloads();
  const uint32_t after = table.Intern(frames, 1, false);
  EXPECT_NE(after, before);
  const ResolvedStack* gone = resolver.Resolve(after);
  ASSERT_NE(gone, nullptr);
  EXPECT_EQ(gone->frames[0].module, 0U);
  EXPECT_EQ(gone->frames[0].address, at);
  EXPECT_EQ(resolver.Resolve(before), stack);  // what was known stays
}

}  // namespace
}  // namespace stepagent::unwind
