#include "collector/cli/report.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "collector/analysis/rank_report.h"
#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"
#include "collector/cli/arguments.h"
#include "collector/cli/report_page.h"
#include "collector/cli/report_source.h"
#include "fmt/format.h"

namespace stepagent::cli {
namespace {

using Json = nlohmann::ordered_json;
using analysis::Duration;
using analysis::PadLeft;
using analysis::PadRight;

constexpr int kProblems = 1, kUnreadable = 3;

std::string RankWord(const Json& summary) {
  const Json& rank = summary.at("session").at("rank");
  return rank.is_number() ? std::to_string(rank.get<int64_t>()) : "-";
}

std::string Time(const std::optional<int64_t>& ns) { return ns ? Duration(*ns) : "-"; }

std::optional<int64_t> StepMedian(const Json& summary) {
  const Json& median = summary.at("steps").at("median_ns");
  if (!median.is_number()) return std::nullopt;
  return median.get<int64_t>();
}

// One row each: step median, busy, idle, collective, and which one is slowest.
std::string RankTable(const std::vector<const ReportedCycle*>& cycles) {
  const ReportedCycle* slowest = nullptr;
  for (const ReportedCycle* cycle : cycles) {
    const auto median = StepMedian(cycle->summary);
    if (median && (slowest == nullptr || *median > *StepMedian(slowest->summary))) slowest = cycle;
  }
  std::string out =
      "  rank  cycle  steps  step median       busy       idle  collective  program\n";
  std::vector<std::string> programs;
  for (const ReportedCycle* cycle : cycles) {
    programs.push_back(cycle->summary.at("session").at("exe").get<std::string>());
  }
  programs = analysis::FitApart(programs, 22);
  for (size_t i = 0; i < cycles.size(); ++i) {
    const ReportedCycle* cycle = cycles[i];
    const Json& s = cycle->summary;
    const analysis::DeviceFigures device = analysis::DeviceFiguresOf(s);
    const auto figure = [&device](const std::optional<int64_t>& ns) {
      return analysis::FigureText(ns, device.is_partial);
    };
    out += "  " + PadLeft(RankWord(s), 4) +
           PadLeft(std::to_string(s.at("cycle").at("index").get<uint64_t>()), 7) +
           PadLeft(std::to_string(s.at("steps").at("count").get<uint64_t>()), 7) +
           PadLeft(Time(StepMedian(s)), 13) + PadLeft(figure(device.busy_ns), 11) +
           PadLeft(figure(device.idle_ns), 11) + PadLeft(figure(device.collective_ns), 12) + "  " +
           programs[i] + (cycle == slowest && cycles.size() > 1 ? "  slowest" : "") + "\n";
  }
  return out +
         "  busy, idle and collective: unions within each device's span, added over its devices\n";
}

std::string RunOf(const Json& summary) {
  const Json& session = summary.at("session");
  const auto run = session.find("run");
  return run != session.end() && run->is_string() ? run->get<std::string>() : "";
}

// Cycles of one number belong together within a run: ranks are compared within it.
std::string Overview(const std::vector<const ReportedCycle*>& cycles) {
  std::map<std::pair<std::string, uint64_t>, std::vector<const ReportedCycle*>> by_cycle;
  std::set<std::string> runs;
  for (const ReportedCycle* cycle : cycles) {
    const std::string run = RunOf(cycle->summary);
    runs.insert(run);
    by_cycle[{run, cycle->summary.at("cycle").at("index").get<uint64_t>()}].push_back(cycle);
  }
  std::string out;
  for (auto& [key, group] : by_cycle) {
    std::stable_sort(group.begin(), group.end(), [](const auto* a, const auto* b) {
      const Json &ra = a->summary.at("session").at("rank"),
                 &rb = b->summary.at("session").at("rank");
      return ra.is_number() && rb.is_number() && ra.get<int64_t>() < rb.get<int64_t>();
    });
    const bool is_named = runs.size() > 1 && !key.first.empty();
    out += fmt::format("Cycle {}{}\n", key.second, is_named ? " of run " + key.first : "") +
           RankTable(group);
  }
  return out;
}

Json Compared(const ReportSource& source) {
  std::vector<const Json*> summaries;
  for (const ReportedCycle& cycle : source.cycles()) summaries.push_back(&cycle.summary);
  return analysis::CompareRanks(summaries);
}

std::string Text(const ReportSource& source, const analysis::RenderOptions& options) {
  const Json compared = Compared(source);
  std::string out;
  std::set<std::string> in_rows;
  for (const Json& cycle : compared) {
    out += (out.empty() ? "" : "\n") + analysis::RanksText(cycle, options.top);
    const Json& run = cycle.at("run");
    in_rows.insert(run.is_string() ? run.get<std::string>() : "");
  }
  // Of many ranks the rows say enough; name one (or --by) for its tables.
  std::vector<const ReportedCycle*> shown;
  for (const ReportedCycle& cycle : source.cycles()) {
    if (!options.by.empty() || !in_rows.contains(RunOf(cycle.summary))) shown.push_back(&cycle);
  }
  if (shown.size() > 1 && compared.empty()) out += Overview(shown);
  for (const ReportedCycle* cycle : shown) {
    analysis::RenderOptions own = options;
    own.files = cycle->files;
    out += (out.empty() ? "" : "\n") + analysis::RenderSummaryText(cycle->summary, own);
  }
  return out;
}

// With --by only that table's rows, in the order and the number asked for, and what is true of all
// of them.
Json Document(const ReportedCycle& cycle, const analysis::RenderOptions& options) {
  if (options.by.empty())
    return options.top == 0 ? cycle.summary : analysis::WithFewerRows(cycle.summary, options.top);
  Json out = {{"session", cycle.summary.at("session")}, {"cycle", cycle.summary.at("cycle")}};
  out.update(analysis::TableDocument(cycle.summary, options.by, options));
  return out;
}

std::string JsonText(const ReportSource& source, const analysis::RenderOptions& options) {
  Json cycles = Json::array();
  for (const ReportedCycle& cycle : source.cycles()) {
    Json summary = Document(cycle, options);
    summary["origin"] = cycle.origin;
    summary["files"] = cycle.files;
    cycles.push_back(std::move(summary));
  }
  const Json out = {{"schema", "stepagent.report/1"},
                    {"cycles", std::move(cycles)},
                    {"ranks", Compared(source)},
                    {"problems", source.problems()},
                    {"remarks", source.remarks()}};
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <typename Words>
std::vector<std::string> Strings(const Words& words) {
  return {words.begin(), words.end()};
}

int Report(const std::vector<std::string>& paths, const analysis::RenderOptions& options,
           bool as_json) {
  ReportSource source;
  // OUT/*/… names the newest run twice: by its own name and by `latest`.
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    if (error || seen.insert(real).second) source.Add(path);
  }
  const std::string text = as_json ? JsonText(source, options) : Text(source, options);
  std::fwrite(text.data(), 1, text.size(), stdout);
  for (const std::string& line : source.problems()) {
    std::fprintf(stderr, "stepagent: report: %s\n", analysis::Fit(line, 1000).c_str());
  }
  for (const std::string& line : source.remarks()) {
    if (!as_json)
      std::fprintf(stderr, "stepagent: report: %s\n", analysis::Fit(line, 1000).c_str());
  }
  if (source.unreadable() > 0 && source.cycles().empty()) return kUnreadable;
  if (source.cycles().empty() && source.problems().empty()) {
    std::fprintf(stderr, "stepagent: report: no cycle is written here\n");
    return kProblems;
  }
  return source.problems().empty() ? 0 : kProblems;
}

}  // namespace

int ReportMain(int argc, char** argv) {
  CLI::App app("The summary of a run, a session, a cycle, a raw file or a Kineto trace.",
               "stepagent report");
  std::vector<std::string> paths;
  std::string page;
  analysis::RenderOptions options;
  bool as_json = false;
  app.add_option("path", paths, "OUT, a run, a session, a cycle, raw.steps or a Kineto file")
      ->required();
  app.add_option("--html", page,
                 "Write the report of one session or cycle as a page instead, - for stdout");
  app.add_option("--top", options.top, "Rows a table; 0 shows all")
      ->capture_default_str()
      ->check(CheckRows);
  app.add_option("--sort", options.sort, "The column to sort by")
      ->check(CLI::IsMember(Strings(analysis::KnownSortKeys())));
  app.add_option("--by", options.by, "Only this table")
      ->check(CLI::IsMember(Strings(analysis::KnownTables())));
  app.add_flag("--json", as_json,
               "The whole summaries, or with --by that table's rows with the totals of all, for "
               "scripts");
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::optional<int> status = ParseArguments(&app, words)) return *status;
  if (const std::string why = analysis::WhyNotSorted(options.by, options.sort); !why.empty()) {
    return FailUsage("report: " + why);
  }
  for (const char* printed : {"--by", "--sort", "--top", "--json"}) {
    if (page.empty() || app.count(printed) == 0) continue;
    return FailUsage(std::string("report: --html writes the whole report as a page; ") + printed +
                     " is for what is printed: leave one of them out");
  }
  if (as_json && app.count("--top") == 0) options.top = 0;  // a script wants all rows
  if (app.count("--html") > 0 && page.empty()) {
    return FailUsage("report: --html is empty; allowed: a file, a folder or -");
  }
  if (!page.empty() && paths.size() != 1) return FailUsage("report: --html takes one path");
  try {
    if (!page.empty()) return WriteReportPage(paths.front(), page);
    return Report(paths, options, as_json);
  } catch (const std::exception& error) {
    // A summary of a damaged file may lack any key; the reader must not end with a signal.
    std::fprintf(stderr, "stepagent: report: not readable: %s\n", error.what());
    return kUnreadable;
  }
}

}  // namespace stepagent::cli
