// A diff for a person: what was set differently, the step time, then rows that changed.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "collector/analysis/diff.h"
#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNameColumns = 40, kValueColumns = 26;
constexpr std::string_view kTooFew = "not told: too few";  // steps
constexpr size_t kLabelColumns = 28, kSideColumns = 32;  // of what differs besides the times

std::string Time(const Json& value) {
  return value.is_number() ? Duration(std::llround(value.get<double>())) : "-";
}

std::string HeadLine(const char* side, const Json& head) {
  const auto cycles = head.at("cycles").get<uint64_t>();
  return Paragraph(
      side, 3,
      fmt::format("{}: {}, rank {}, {} {}, steps {}",
                  Fit(head.at("origin").get<std::string>(), 200),
                  Fit(head.at("program").get<std::string>(), 40),
                  Fit(head.at("ranks").get<std::string>(), 30), cycles,
                  cycles == 1 ? "cycle" : "cycles", Fit(head.at("steps").get<std::string>(), 80)),
      kTextColumns);
}

std::string DifferenceLines(const Json& differences) {
  if (differences.empty()) {
    return "Besides the times nothing differs: settings, labels, devices and boundaries are the "
           "same.\n";
  }
  std::string out = "Besides the times these differ\n";
  std::vector<std::string> labels;
  for (const Json& d : differences) {
    labels.push_back(d.at("what").get<std::string>() + " " + d.at("name").get<std::string>());
  }
  labels = FitApart(labels, kLabelColumns);
  for (size_t i = 0; i < labels.size(); ++i) {
    const Json& d = differences.at(i);
    const std::vector<std::string> values =
        FitApart({d.at("a").get<std::string>(), d.at("b").get<std::string>()}, kSideColumns);
    out += "  " + PadRight(labels[i], kLabelColumns + 2) + PadRight(values[0], kSideColumns + 2) +
           values[1] + "\n";
  }
  return out;
}

std::string GroupText(const Json& group) {
  if (!group.at("median_ns").is_number()) return "no whole step";
  if (const Json& values = group.at("values_ns"); values.is_array()) {
    std::string out;
    for (const Json& value : values) out += (out.empty() ? "" : ", ") + Time(value);
    return fmt::format("{} (n={})", out, values.size());
  }
  return fmt::format("median {}, {} to {} (n={})", Time(group.at("median_ns")),
                     Time(group.at("min_ns")), Time(group.at("max_ns")),
                     group.at("steps").get<uint64_t>());
}

std::string StepLines(const Json& steps) {
  std::string out = "Step time\n";
  out += "  A  " + GroupText(steps.at("a")) + "\n  B  " + GroupText(steps.at("b")) + "\n";
  const Json& ratio = steps.at("ratio");
  std::string text = steps.at("verdict").get<std::string>();
  if (text.starts_with(kTooFew)) {
    // The values stand above: an interval of so few would only look like a finding.
  } else if (ratio.at("low").is_number()) {
    text = fmt::format(
        "B/A {:.3f}, between {:.3f} and {:.3f} (covers the true ratio in at least "
        "{:.0f} % of such samples): {}",
        ratio.at("value").get<double>(), ratio.at("low").get<double>(),
        ratio.at("high").get<double>(), ratio.at("coverage").get<double>() * 100, text);
  } else if (ratio.at("reason").is_string()) {
    text += " (" + ratio.at("reason").get<std::string>() + ")";
  }
  return out + Paragraph("  ", 2, text, kTextColumns);
}

std::string PerStepText(const Json& figures) {
  if (!figures.is_object()) return "-";
  return fmt::format("{:.4g} x, {}", figures.at("count").get<double>(),
                     Time(figures.at("total_ns")));
}

// Where nothing is said of the difference: the least and the most of one step, which of two are all.
std::string RangesLine(const Json& row) {
  std::string out;
  for (const char* side : {"a", "b"}) {
    const Json& figures = row.at(side);
    if (!figures.is_object()) return {};
    out += fmt::format("{}{} {} to {}", out.empty() ? "    one step: " : ", ",
                       side[0] == 'a' ? "A" : "B", Time(figures.at("min_ns")),
                       Time(figures.at("max_ns")));
  }
  return out + "\n";
}

bool IsQuiet(const Json& row) {
  const std::string& verdict = row.at("verdict").get_ref<const std::string&>();
  return verdict == "inside the noise";
}

// The column is narrow: why a row is not told stands once, below the table.
std::string ShortVerdict(const std::string& verdict, std::set<std::string>* untold) {
  constexpr std::string_view kUntold = "not told: ";
  if (!verdict.starts_with(kUntold)) return verdict;
  untold->insert(verdict.substr(kUntold.size()));
  return "not told";
}

std::string TableLines(const Json& table, const char* title, size_t top) {
  std::string out = std::string(title) + " per step\n";
  if (!table.is_array()) return out + "  not collected on one side\n";
  if (table.empty()) return out + "  none on either side\n";
  std::vector<const Json*> rows;
  std::vector<std::string> names;
  for (const Json& row : table) {
    if (IsQuiet(row)) continue;
    rows.push_back(&row);
    names.push_back(row.at("name").get<std::string>());
  }
  const size_t quiet = table.size() - rows.size();
  const size_t shown = top == 0 ? rows.size() : std::min(top, rows.size());
  const size_t left_out = rows.size() - shown;
  names.resize(shown);
  names = FitApart(names, kNameColumns);
  std::set<std::string> untold;
  for (size_t i = 0; i < shown; ++i) {
    const Json& row = *rows[i];
    out += "  " + PadRight(names[i], kNameColumns) +
           PadRight("  " + PerStepText(row.at("a")), kValueColumns - 5) +
           PadRight("  " + PerStepText(row.at("b")), kValueColumns - 5) + "  " +
           ShortVerdict(row.at("verdict").get_ref<const std::string&>(), &untold) + "\n";
    if (row.at("verdict").get_ref<const std::string&>().starts_with(kTooFew)) out += RangesLine(row);
  }
  if (left_out > 0) out += fmt::format("  … {} more (--top 0 shows all)\n", Count(left_out));
  for (const std::string& why : untold) out += "  not told: " + why + "\n";
  if (quiet > 0) {
    out += fmt::format("  {}{} inside the noise: the steps' totals of both sides overlap\n",
                       Count(quiet), rows.empty() ? ", all of them," : "");
  }
  return out;
}

}  // namespace

std::string RenderDiff(const Json& diff, size_t top) {
  return Printable(
      HeadLine("A", diff.at("a")) + HeadLine("B", diff.at("b")) + "\n" +
         DifferenceLines(diff.at("differences")) + "\n" + StepLines(diff.at("steps")) + "\n" +
         TableLines(diff.at("kernels"), "Kernels", top) + "\n" +
         TableLines(diff.at("copies"), "Copies", top) + "\n" +
         TableLines(diff.at("calls"), "Calls", top) +
         "\nThis compares times, not results: whether both sides computed the same is not looked "
         "at.\n",
      true);
}

}  // namespace stepagent::analysis
