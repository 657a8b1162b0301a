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

// `names`: kernels of 100 us; `times` of each in a step; a step is of 9 ms and `more_ns`.
model::Cycle CycleOf(const std::vector<std::string>& names, int times, int steps = 5,
                     int64_t more_ns = 0) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "train"), lane = m.Lane(0, 1, 7);
  uint32_t correlation = 0;
  for (int step = 0; step < steps; ++step) {
    const model::TimeNs begin = 1'000'000 + step * 10'000'000;
    m.Step(static_cast<uint64_t>(step), begin, begin + 9'000'000 + more_ns + step, thread);
    model::TimeNs at = begin + 1000;
    for (const std::string& name : names) {
      for (int i = 0; i < times; ++i, at += 200'000) {
        const int32_t call = m.Call("cudaLaunchKernel", model::CallClass::kLaunch, thread, at,
                                    at + 500, ++correlation);
        m.Kernel(m.Shape(name), lane, at + 1000, at + 101'000 + more_ns / 10 + step, call);
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

// Of three steps a side the values lie apart by chance in one row of ten.
TEST(Diff, TooFewStepsAreShownAndNotJudged) {
  for (const int steps : {1, 2, 3}) {
    const Json a = Summarize(CycleOf({"k"}, 1, steps)), b = Summarize(CycleOf({"k"}, 1, steps, 500'000));
    const Json diff = Diff({"a", {&a}}, {"b", {&b}});
    const std::string why = "not told: too few whole steps (" + std::to_string(steps) + " and " +
                            std::to_string(steps) + "), 4 on each side are needed";
    EXPECT_EQ(diff.at("steps").at("verdict"), why);
    EXPECT_EQ(diff.at("steps").at("a").at("values_ns").size(), static_cast<size_t>(steps));
    EXPECT_EQ(diff.at("steps").at("b").at("values_ns").at(0), 9'500'000);
    EXPECT_EQ(diff.at("kernels").at(0).at("verdict"), why);
    const std::string text = RenderDiff(diff, 8);
    EXPECT_EQ(text.find("slower"), std::string::npos) << text;
    EXPECT_EQ(text.find("between"), std::string::npos) << text;
    EXPECT_NE(text.find("9.50 ms"), std::string::npos) << text;
    EXPECT_NE(text.find("one step: A 100 us to 100 us, B 150 us to 150 us"), std::string::npos)
        << text;
    EXPECT_NE(text.find("  not told: too few whole steps"), std::string::npos) << text;
  }
}

TEST(Diff, FourStepsASideTell) {
  const Json a = Summarize(CycleOf({"k"}, 1, 4)), b = Summarize(CycleOf({"k"}, 1, 4, 500'000));
  const Json three = Summarize(CycleOf({"k"}, 1, 3));
  const Json diff = Diff({"a", {&a}}, {"b", {&b}});
  EXPECT_EQ(diff.at("steps").at("verdict"), "slower");
  EXPECT_TRUE(diff.at("steps").at("a").at("values_ns").is_null());
  EXPECT_EQ(diff.at("kernels").at(0).at("verdict"), "slower");
  EXPECT_EQ(Diff({"a", {&b}}, {"b", {&a}}).at("steps").at("verdict"), "faster");
  EXPECT_NE(Diff({"a", {&a}}, {"b", {&three}})
                .at("steps").at("verdict").get<std::string>()
                .find("too few whole steps (4 and 3)"),
            std::string::npos);
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
