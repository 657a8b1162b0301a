// The text of `diff`: what is cut to the width of a column stays told apart.
#include "collector/analysis/diff.h"

#include <set>
#include <sstream>

#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using ::stepagent::testing::CycleMaker;

// `names`: kernels of 100 us, three steps; `times` of each in a step.
model::Cycle CycleOf(const std::vector<std::string>& names, int times) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "train"), lane = m.Lane(0, 1, 7);
  uint32_t correlation = 0;
  for (int step = 0; step < 3; ++step) {
    const model::TimeNs begin = 1'000'000 + step * 10'000'000;
    m.Step(static_cast<uint64_t>(step), begin, begin + 9'000'000, thread);
    model::TimeNs at = begin + 1000;
    for (const std::string& name : names) {
      for (int i = 0; i < times; ++i, at += 200'000) {
        const int32_t call = m.Call("cudaLaunchKernel", model::CallClass::kLaunch, thread, at,
                                    at + 500, ++correlation);
        m.Kernel(m.Shape(name), lane, at + 1000, at + 101'000, call);
      }
    }
  }
  return m.Finish();
}

// First columns of the rows below a title.
std::vector<std::string> NamesBelow(const std::string& text, const std::string& title) {
  std::istringstream lines(text.substr(text.find(title)));
  std::string line;
  std::getline(lines, line);
  std::vector<std::string> names;
  while (std::getline(lines, line) && line.starts_with("  ")) names.push_back(line.substr(2, 40));
  return names;
}

TEST(Diff, SlicesOfTheClockHaveNoStepTimeToCompare) {
  model::Cycle slices = CycleOf({"k"}, 1);
  const Json steps = Summarize(slices);
  slices.session.step_source = "every:20ms";
  const Json clock = Summarize(slices);
  EXPECT_EQ(Diff({"a", {&steps}}, {"b", {&steps}}).at("steps").at("verdict"), "inside the noise");
  const Json diff = Diff({"a", {&steps}}, {"b", {&clock}});
  EXPECT_EQ(diff.at("steps").at("verdict"), "not told");
  EXPECT_EQ(diff.at("steps").at("ratio").at("reason"),
            "not measured: steps are slices of the clock (every:20ms)");
}

TEST(DiffText, RowsOfLongNamesAreToldApart) {
  const std::string a(60, 'a'), z(60, 'z');
  const std::vector<std::string> names = {a + "float" + z, a + "half" + z, a + "bfloat" + z};
  ASSERT_EQ(Fit(names[0], 40), Fit(names[1], 40));
  const Json one = Summarize(CycleOf(names, 1)), two = Summarize(CycleOf(names, 2));
  const std::string text = RenderDiff(Diff({"a", {&one}}, {"b", {&two}}), 8);
  const std::vector<std::string> shown = NamesBelow(text, "Kernels per step");
  ASSERT_EQ(shown.size(), 3U) << text;
  EXPECT_EQ(std::set<std::string>(shown.begin(), shown.end()).size(), 3U) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(Columns(line), 100U) << line;
}

TEST(DiffText, ValuesThatDifferLookDifferent) {
  model::Cycle cycle = CycleOf({"k"}, 1);
  const std::string a(60, 'a'), z(60, 'z');
  cycle.session.labels["config" + a + "1" + z] = a + "x" + z;
  cycle.session.labels["config" + a + "2" + z] = a + "x" + z;
  const Json one = Summarize(cycle);
  for (auto& [name, value] : cycle.session.labels) value = a + "y" + z;
  const Json two = Summarize(cycle);
  const std::string text = RenderDiff(Diff({"a", {&one}}, {"b", {&two}}), 8);
  std::istringstream lines(text.substr(text.find("these differ")));
  std::string line;
  std::getline(lines, line);
  std::set<std::string> labels;
  for (int row = 0; row < 2; ++row) {
    ASSERT_TRUE(std::getline(lines, line)) << text;
    labels.insert(line.substr(0, 32));
    EXPECT_NE(line.substr(32, 32), line.substr(66)) << line;
  }
  EXPECT_EQ(labels.size(), 2U) << text;
}

TEST(TextFormat, InANarrowColumnANumberTellsNamesApart) {
  const std::vector<std::string> cut = FitApart({"abcdefghijklm1", "abcdefghijklm2"}, 10);
  EXPECT_NE(cut[0], cut[1]);
  for (const std::string& name : cut) EXPECT_LE(Columns(name), 10U);
}

}  // namespace
}  // namespace stepagent::analysis
