#include "agent/cupti/loader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace stepagent::cupti {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Names(const std::vector<Loader::Candidate>& candidates) {
  std::vector<std::string> names;
  for (const auto& candidate : candidates) names.push_back(fs::path(candidate.path).filename());
  return names;
}

TEST(Loader, ParsesFileNames) {
  EXPECT_EQ(Loader::Parse("/a/libcupti.so.13").major, 13U);
  EXPECT_EQ(Loader::Parse("libcupti.so.12").major, 12U);
  EXPECT_EQ(Loader::Parse("/a/libcupti.so.11.8").major, 11U);
  EXPECT_EQ(Loader::Parse("/a/libcupti.so.11.8").minor, 8U);
  EXPECT_EQ(Loader::Parse("/a/libcupti.so.2024.1.0").major, 1U);
  EXPECT_EQ(Loader::Parse("/a/libcupti.so").major, 1U);
  EXPECT_EQ(Loader::Parse("/a/libcuda.so.1").major, 0U);
  EXPECT_EQ(Loader::Parse("/libcupti.so.13/libc.so.6").major, 0U);
  EXPECT_EQ(Loader::Parse("").major, 0U);
}

TEST(Loader, NewestThatTheDriverSupportsFirst) {
  std::vector<Loader::Candidate> candidates;
  for (const char* name : {"libcupti.so.14", "libcupti.so.11.2", "libcupti.so.13", "libcupti.so",
                           "libcupti.so.12", "libcupti.so.11.8"}) {
    candidates.push_back(Loader::Parse(name));
  }
  Loader::Order(&candidates, 12);
  EXPECT_EQ(Names(candidates),
            (std::vector<std::string>{"libcupti.so.12", "libcupti.so.11.8", "libcupti.so.11.2",
                                      "libcupti.so", "libcupti.so.13", "libcupti.so.14"}));
}

class LoaderFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "stepagent-loader-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override {
    unsetenv("STEPAGENT_CUPTI");
    fs::remove_all(root_);
  }
  std::string Touch(const std::string& path) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << "not a library";
    return (root_ / path).string();
  }
  fs::path root_;
};

TEST_F(LoaderFilesTest, WheelLayouts) {
  const std::string packages = "venv/lib/python3.11/site-packages/nvidia/";
  Touch(packages + "cuda_cupti/lib/libcupti.so.12");
  Touch(packages + "cu13/lib/libcupti.so.13");
  Touch(packages + "cuda_runtime/lib/libcudart.so.12");
  Touch("venv/lib/python3.9/site-packages/nvidia/cuda_cupti/lib/libcupti.so.11.8");
  auto found = Loader::InWheels({(root_ / "venv").string()});
  Loader::Order(&found, 13);
  EXPECT_EQ(Names(found),
            (std::vector<std::string>{"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}));
  EXPECT_TRUE(Loader::InWheels({(root_ / "elsewhere").string()}).empty());
}

TEST_F(LoaderFilesTest, AnOverrideIsFinal) {
  const std::string broken = Touch("libcupti.so.13");
  setenv("STEPAGENT_CUPTI", broken.c_str(), 1);
  LoadedLibrary library = Loader::Load(13000, {});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_NE(library.tried.find(broken), std::string::npos);
  setenv("STEPAGENT_CUPTI", (root_ / "none").c_str(), 1);
  EXPECT_EQ(Loader::Load(13000, {}).handle, nullptr);
  setenv("STEPAGENT_CUPTI", root_.c_str(), 1);  // a folder whose only copy does not load
  library = Loader::Load(13000, {});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_NE(library.tried.find(broken + " cannot be loaded ("), std::string::npos);
  std::filesystem::remove(broken);
  EXPECT_NE(Loader::Load(13000, {}).tried.find("no libcupti.so"), std::string::npos);
}

}  // namespace
}  // namespace stepagent::cupti
