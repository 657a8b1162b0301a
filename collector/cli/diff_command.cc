#include "collector/cli/diff_command.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "collector/analysis/diff.h"
#include "collector/analysis/text_format.h"
#include "collector/cli/arguments.h"
#include "collector/cli/report_source.h"

namespace stepagent::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProblems = 1, kUnreadable = 3;

void Say(const std::string& line) {
  std::fprintf(stderr, "stepagent: diff: %s\n", analysis::Fit(line, 1000).c_str());
}

analysis::DiffSide SideOf(const std::string& path, const ReportSource& source) {
  analysis::DiffSide side{path, {}};
  for (const ReportedCycle& cycle : source.cycles()) side.cycles.push_back(&cycle.summary);
  return side;
}

int Compare(const std::string& a, const std::string& b, size_t top, bool as_json) {
  ReportSource of_a, of_b;
  of_a.Add(a), of_b.Add(b);
  bool has_problems = false, is_empty = false;
  for (const ReportSource* source : {&of_a, &of_b}) {
    for (const std::string& line : source->problems()) Say(line), has_problems = true;
    if (!as_json) {
      for (const std::string& line : source->remarks()) Say(line);
    }
    if (!source->cycles().empty()) continue;
    is_empty = true;
    if (source->problems().empty()) Say((source == &of_a ? a : b) + ": no cycle is written here");
  }
  if (is_empty) return kUnreadable;
  const Json diff = analysis::Diff(SideOf(a, of_a), SideOf(b, of_b));
  const std::string text = as_json ? diff.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"
                                   : analysis::RenderDiff(diff, top);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return has_problems ? kProblems : 0;
}

}  // namespace

int DiffMain(int argc, char** argv) {
  CLI::App app(
      "Two cycles, sessions, runs, raw files or Kineto files: what differs besides the times, "
      "then\n"
      "step time, kernels, copies and calls per step. It compares times, not results.",
      "stepagent diff");
  std::string a, b;
  size_t top = 8;
  bool as_json = false;
  app.add_option("A", a, "the one to compare with")->required();
  app.add_option("B", b, "the other")->required();
  app.add_option("--top", top, "Rows a table; 0 shows all")
      ->capture_default_str()
      ->check(CheckRows);
  app.add_flag("--json", as_json, "All rows, for scripts");
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::optional<int> status = ParseArguments(&app, words)) return *status;
  try {
    return Compare(a, b, top, as_json);
  } catch (const std::exception& error) {
    Say(std::string("not readable: ") + error.what());
    return kUnreadable;
  }
}

}  // namespace stepagent::cli
