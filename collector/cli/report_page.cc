#include "collector/cli/report_page.h"

#include <cstdio>
#include <filesystem>
#include <vector>

#include "collector/analysis/text_format.h"
#include "collector/cli/arguments.h"
#include "collector/cli/convert_output.h"
#include "collector/cli/convert_source.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kProblems = 1, kUsage = 2, kUnreadable = 3;

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Several cycles become a folder, which nobody means who gives a page's name.
bool IsPageName(const std::string& out) {
  const std::string extension = fs::path(out).extension().string();
  return (extension == ".html" || extension == ".htm") && !IsFolder(out);
}

// The only session of OUT's latest run, or of a run; anything else stays what it is.
std::string SessionOf(const std::string& given, std::string* why) {
  fs::path path(given);
  if (IsFolder(path / "latest")) path /= "latest";
  if (!IsFolder(path / "sessions")) return path.string();
  std::vector<std::string> sessions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path / "sessions", error)) {
    if (IsFolder(entry.path())) sessions.push_back(entry.path().string());
  }
  if (sessions.size() == 1) return sessions.front();
  *why = given + " holds " + std::to_string(sessions.size()) +
         " sessions, a page shows one: name it (" + (path / "sessions").string() + "/...)";
  return {};
}

void Say(const std::string& line) {
  std::fprintf(stderr, "stepagent: report: %s\n", analysis::Fit(line, 1000).c_str());
}

}  // namespace

int WriteReportPage(const std::string& path, const std::string& out) {
  std::error_code error;
  if (out != "-" && !IsFolder(out) && fs::exists(fs::symlink_status(out, error))) {
    return FailUsage("report: --html " + out + " exists already; nothing is replaced");
  }
  std::string why;
  const std::string session = SessionOf(path, &why);
  if (!why.empty()) return FailUsage("report: " + why);
  ConvertOutput output("html", out);
  const bool is_one_file = IsPageName(out);
  size_t cycles = 0;
  const ConvertReport report = ReadForConvert(session, [&](SourceCycle source) {
    if (++cycles == 1 || !is_one_file) output.Take(std::move(source));
  });
  if (is_one_file && cycles > 1) {
    return FailUsage("report: --html " + out + ": " + session + " holds " +
                     std::to_string(cycles) +
                     " cycles, and a page shows one; name one of them, or a folder for all");
  }
  output.Finish();
  for (const std::string& file : output.files()) std::printf("%s\n", file.c_str());
  for (const std::string& line : report.problems) Say(line);
  for (const std::string& line : {report.error, output.error()}) {
    if (!line.empty()) Say(line);
  }
  if (!report.error.empty()) return kUnreadable;
  if (output.is_out_unusable()) return kUsage;
  return report.problems.empty() && output.error().empty() ? 0 : kProblems;
}

}  // namespace stepagent::cli
