// `stepagent convert` on raw files of one and of several cycles, and what it refuses.
#include "collector/cli/convert.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

#include "collector/cli/convert_output.h"
#include "collector/writers/writer.h"

namespace stepagent::testing {
namespace {

int Convert(const std::vector<std::string>& words) {
  std::vector<std::string> all{"convert"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  return cli::ConvertMain(static_cast<int>(argv.size()), argv.data());
}

model::Cycle Numbered(uint32_t index) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.index = index;
  return cycle;
}

TEST(ConvertOutput, OneCycleIsTheFileItself) {
  Folder folder;
  std::optional<cli::ConvertOutput> held(std::in_place, "folded", folder / "x.folded");
  cli::ConvertOutput& output = *held;
  output.Take({Numbered(3), "", false});
  output.Finish();
  EXPECT_EQ(output.error(), "");
  ASSERT_EQ(output.files().size(), 3U);
  EXPECT_EQ(output.files()[0], folder / "x.folded");
  EXPECT_EQ(output.files()[1], folder / "x.launches.folded");
  held.reset();
  EXPECT_EQ(folder.FileCount(), 3U);  // nothing of ours stays beside them
}

TEST(ConvertOutput, SeveralCyclesAreAFolder) {
  Folder folder;
  cli::ConvertOutput output("perfetto", folder / "out");
  for (const uint32_t index : {0U, 1U, 2U}) output.Take({Numbered(index), "", false});
  output.Finish();
  EXPECT_EQ(output.error(), "");
  EXPECT_EQ(output.files(), (std::vector<std::string>{folder / "out/cycle-0000/trace.pftrace",
                                                      folder / "out/cycle-0001/trace.pftrace",
                                                      folder / "out/cycle-0002/trace.pftrace"}));
}

TEST(ConvertOutput, StdoutTakesOneFile) {
  cli::ConvertOutput one("perfetto", "-");
  one.Take({Numbered(0), "", false});
  ::testing::internal::CaptureStdout();
  one.Finish();
  std::fflush(stdout);
  const std::string written = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(one.error(), "");
  EXPECT_TRUE(one.files().empty());
  Folder folder;
  cli::ConvertOutput file("perfetto", folder / "x.pftrace");
  file.Take({Numbered(0), "", false});
  file.Finish();
  EXPECT_EQ(written, ReadFile(folder / "x.pftrace"));
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(ConvertOutput, StdoutRefusesWhatIsSeveralFiles) {
  cli::ConvertOutput cycles("perfetto", "-"), files("folded", "-");
  ::testing::internal::CaptureStdout();
  for (const uint32_t index : {0U, 1U}) cycles.Take({Numbered(index), "", false});
  cycles.Finish();
  files.Take({Numbered(0), "", false});
  files.Finish();
  std::fflush(stdout);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_TRUE(cycles.is_out_unusable() && files.is_out_unusable());
  EXPECT_NE(cycles.error().find("several cycles"), std::string::npos) << cycles.error();
  EXPECT_NE(files.error().find("makes 3 files"), std::string::npos) << files.error();
}

TEST(Convert, KinetoFilesGoIn) {
  Folder folder;
  const auto chrome = writers::MakeWriter("chrome")->Write(
      GoldenCycle("train"), {folder.path(), folder.path(), "stem.0", {}});
  ASSERT_TRUE(chrome.ok);
  EXPECT_EQ(Convert({chrome.files[0].path, "--to", "sqlite", "-o", folder / "x.sqlite"}), 0);
  EXPECT_EQ(ReadFile(folder / "x.sqlite").substr(0, 15), "SQLite format 3");
}

TEST(Convert, ReplacesNothing) {
  Folder folder;
  const auto chrome = writers::MakeWriter("chrome")->Write(
      GoldenCycle("train"), {folder.path(), folder.path(), "stem.0", {}});
  std::ofstream(folder / "there") << "mine";
  EXPECT_EQ(Convert({chrome.files[0].path, "--to", "sqlite", "-o", folder / "there"}), 2);
  EXPECT_EQ(ReadFile(folder / "there"), "mine");
}

// One taken name among several: none of them is given, and it is named.
TEST(ConvertOutput, ATakenNameLeavesEverythingAsItWas) {
  Folder folder;
  std::ofstream(folder / "x.launches.folded") << "mine";
  cli::ConvertOutput one("folded", folder / "x.folded");
  one.Take({Numbered(3), "", false});
  one.Finish();
  EXPECT_NE(one.error().find(folder / "x.launches.folded exists already"), std::string::npos);
  EXPECT_TRUE(one.is_out_unusable());
  EXPECT_TRUE(one.files().empty());
  EXPECT_EQ(ReadFile(folder / "x.launches.folded"), "mine");

  std::filesystem::create_directories(folder / "out/cycle-0001");
  std::ofstream(folder / "out/cycle-0001/trace.pftrace") << "mine";
  cli::ConvertOutput several("perfetto", folder / "out");
  for (const uint32_t index : {0U, 1U, 2U}) several.Take({Numbered(index), "", false});
  several.Finish();
  EXPECT_NE(several.error().find(folder / "out/cycle-0001/trace.pftrace exists already"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/cycle-0000"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/cycle-0002"));
  EXPECT_EQ(ReadFile(folder / "out/cycle-0001/trace.pftrace"), "mine");
}

TEST(ConvertOutput, NothingHiddenStaysBehind) {
  Folder folder;
  {
    cli::ConvertOutput output("perfetto", folder / "out");
    for (const uint32_t index : {0U, 1U}) output.Take({Numbered(index), "", false});
    output.Finish();
    EXPECT_EQ(output.error(), "");
  }
  EXPECT_EQ(folder.FileCount(), 1U);
}

TEST(Convert, AnOutThatCannotBeMadeIsUsage) {
  Folder folder;
  const auto chrome = writers::MakeWriter("chrome")->Write(
      GoldenCycle("train"), {folder.path(), folder.path(), "stem.0", {}});
  ASSERT_TRUE(chrome.ok);
  std::ofstream(folder / "file") << "mine";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Convert({chrome.files[0].path, "--to", "sqlite", "-o", folder / "file/x.sqlite"}), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "stepagent: convert: " + (folder / "file/x.sqlite") + ": create: Not a directory\n");
  cli::ConvertOutput several("perfetto", folder / "file/out");
  for (const uint32_t index : {0U, 1U}) several.Take({Numbered(index), "", false});
  several.Finish();
  EXPECT_EQ(several.error(), (folder / "file/out") + ": create: Not a directory");
  EXPECT_TRUE(several.is_out_unusable());
}

TEST(Convert, EndsAsTheContractSays) {
  Folder folder;
  EXPECT_EQ(Convert({folder / "absent", "--to", "sqlite", "-o", folder / "x"}), 3);
  EXPECT_EQ(Convert({folder.path(), "--to", "sqlite", "-o", folder / "x"}), 3);
  EXPECT_EQ(Convert({folder.path(), "--to", "pdf", "-o", folder / "x"}), 2);
  EXPECT_EQ(Convert({folder.path(), "--to", "sqlite"}), 2);
  EXPECT_EQ(folder.FileCount(), 0U);
}

}  // namespace
}  // namespace stepagent::testing
