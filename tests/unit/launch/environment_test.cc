// What the target's environment gets, and under which name the library goes in.
#include "collector/launch/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "collector/launch/library.h"
#include "tests/unit/launch/temp_folder.h"

namespace stepagent::launch {
namespace {

TEST(Environment, SetsReplacesAndKeepsTheRest) {
  char a[] = "A=1", path[] = "PATH=/x", prefix[] = "PATHS=/y", odd[] = "odd";
  char* entries[] = {a, path, prefix, odd, nullptr};
  Environment environment(entries);
  environment.Set("PATH", "/z");
  environment.Set("B", "");
  EXPECT_EQ(environment.Get("PATH"), "/z");
  EXPECT_EQ(environment.Get("PATHS"), "/y");
  EXPECT_TRUE(environment.Has("B"));
  EXPECT_FALSE(environment.Has("odd"));
  const auto pointers = environment.Pointers();
  ASSERT_EQ(pointers.size(), 6U);
  EXPECT_STREQ(pointers[3], "odd");
  EXPECT_STREQ(pointers[4], "B=");
  EXPECT_EQ(pointers[5], nullptr);
}

TEST(ComposePreload, ComesFirstButForSanitizers) {
  EXPECT_EQ(ComposePreload("", "/l.so"), "/l.so");
  EXPECT_EQ(ComposePreload("/a.so", "/l.so"), "/l.so:/a.so");
  EXPECT_EQ(ComposePreload("/a.so /b.so:/c.so", "/l.so"), "/l.so:/a.so:/b.so:/c.so");
  EXPECT_EQ(ComposePreload("/a.so:libasan.so.8:/c.so", "/l.so"), "libasan.so.8:/l.so:/a.so:/c.so");
  EXPECT_EQ(ComposePreload("/x/libclang_rt.asan-x86_64.so", "/l.so"),
            "/x/libclang_rt.asan-x86_64.so:/l.so");
  EXPECT_EQ(ComposePreload("/x/libtsan.so.2 /x/libubsan.so", "/l.so"),
            "/x/libtsan.so.2:/x/libubsan.so:/l.so");
  EXPECT_EQ(ComposePreload(":: ", "/l.so"), "/l.so");
  EXPECT_EQ(ComposePreload("/a.so:/l.so:/b.so", "/l.so"), "/l.so:/a.so:/b.so");
}

TEST(AddInjection, NeverOverwritesAndSaysSo) {
  char cuda[] = "CUDA_INJECTION64_PATH=/other.so", asan[] = "ASAN_OPTIONS=detect_leaks=0";
  char* entries[] = {cuda, asan, nullptr};
  Environment environment(entries);
  std::vector<std::string> notes;
  AddInjection("/l.so", &environment, &notes);
  EXPECT_EQ(environment.Get("CUDA_INJECTION64_PATH"), "/other.so");
  EXPECT_EQ(environment.Get("NVTX_INJECTION64_PATH"), "/l.so");
  EXPECT_EQ(environment.Get("LD_PRELOAD"), "/l.so");
  EXPECT_EQ(environment.Get("ASAN_OPTIONS"), "detect_leaks=0:verify_asan_link_order=0");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("/other.so"), std::string::npos);
  AddInjection("/l.so", &environment, &notes);
  EXPECT_EQ(environment.Get("ASAN_OPTIONS"), "detect_leaks=0:verify_asan_link_order=0");
  EXPECT_EQ(environment.Get("LD_PRELOAD"), "/l.so");
}

TEST(Library, IsFoundBesideTheProgramAlsoAfterAMove) {
  const TempFolder folder;
  folder.Write("p/lib/libstepagent.so", "");
  folder.Write("p/bin/stepagent", "");
  EXPECT_EQ(FindLibrary(folder.path() + "/p/bin/stepagent", "").path,
            folder.path() + "/p/lib/libstepagent.so");
  std::filesystem::rename(folder.path() + "/p", folder.path() + "/q");
  EXPECT_EQ(FindLibrary(folder.path() + "/q/bin/stepagent", "").path,
            folder.path() + "/q/lib/libstepagent.so");
  EXPECT_NE(FindLibrary(folder.path() + "/p/bin/stepagent", "").error, "");
  EXPECT_NE(FindLibrary(folder.path() + "/q/bin/stepagent", "/none/x.so").error, "");
  EXPECT_EQ(FindLibrary("/none/bin/x", folder.path() + "/q/lib/libstepagent.so").path,
            folder.path() + "/q/lib/libstepagent.so");
}

TEST(Library, IsReachedThroughALinkWhereThePathCannotBePreloaded) {
  const TempFolder folder, runtime;
  ASSERT_EQ(chmod(runtime.path().c_str(), 0700), 0);
  const proto::RuntimeDirs dirs{runtime.path(), ""};
  for (const char* name : {"a b", "a:b", "$LIB", "a'b é"}) {
    const std::string path = folder.Write(std::string(name) + "/libstepagent.so", "x");
    const Library library = PreloadableLibrary(path, dirs);
    EXPECT_EQ(library.error, "") << name;
    EXPECT_TRUE(IsPreloadable(library.path)) << library.path;
    EXPECT_TRUE(std::filesystem::equivalent(library.path, path));
    EXPECT_EQ(PreloadableLibrary(path, dirs).path, library.path);
  }
  EXPECT_EQ(PreloadableLibrary("/a'\"é/l.so", dirs).path, "/a'\"é/l.so");
}

}  // namespace
}  // namespace stepagent::launch
