// `stepagent convert` on raw files of one and of several cycles, and what it refuses.
#include "collector/cli/convert.h"

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
  cli::ConvertOutput output("folded", folder / "x.folded");
  output.Take({Numbered(3), "", false});
  output.Finish();
  EXPECT_EQ(output.error(), "");
  ASSERT_EQ(output.files().size(), 3U);
  EXPECT_EQ(output.files()[0], folder / "x.folded");
  EXPECT_EQ(output.files()[1], folder / "x.launches.folded");
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
