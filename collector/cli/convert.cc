#include "collector/cli/convert.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "CLI/CLI.hpp"
#include "collector/analysis/text_format.h"
#include "collector/cli/arguments.h"
#include "collector/cli/convert_output.h"
#include "collector/cli/convert_source.h"
#include "collector/symbols/symbolize.h"
#include "collector/writers/writer.h"

namespace stepagent::cli {
namespace {

constexpr int kProblems = 1, kUsage = 2, kUnreadable = 3;

void Say(const std::string& line) {
  std::fprintf(stderr, "stepagent: convert: %s\n", analysis::Fit(line, 1000).c_str());
}

int Convert(const std::string& in, const std::string& format, const std::string& out) {
  ConvertOutput output(format, out);
  const ConvertReport report = ReadForConvert(in, [&](SourceCycle source) {
    symbols::Symbolize(&source.cycle);
    output.Take(std::move(source));
  });
  output.Finish();
  for (const std::string& file : output.files()) std::printf("%s\n", file.c_str());
  for (const std::string& line : report.problems) Say(line);
  if (!output.error().empty()) Say(output.error());
  if (!report.error.empty()) {
    Say(report.error);
    return kUnreadable;
  }
  if (output.is_out_unusable()) return kUsage;
  return report.problems.empty() && output.error().empty() ? 0 : kProblems;
}

}  // namespace

int ConvertMain(int argc, char** argv) {
  CLI::App app("A raw file, a cycle, a session, a run or a Kineto file as another format.",
               "stepagent convert");
  std::string in, format, out;
  std::vector<std::string> formats;
  for (const std::string_view known : writers::KnownFormats()) formats.emplace_back(known);
  app.add_option("in", in, "raw.steps, a cycle, a session, a run or a Kineto file")->required();
  app.add_option("--to", format, "The format")->required()->check(CLI::IsMember(formats));
  app.add_option("-o,--out", out, "The file, - for stdout; a folder where there are several cycles")
      ->required();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::optional<int> status = ParseArguments(&app, words)) return *status;
  std::error_code error;
  if (out.empty()) return FailUsage("convert: -o is empty; allowed: a file, a folder or -");
  if (out == "-" && isatty(STDOUT_FILENO) != 0 && format != "html") {
    return FailUsage("convert: -o -: " + format +
                     " is not for a terminal; send it to a file or a "
                     "pipe");
  }
  const bool is_folder = std::filesystem::is_directory(out, error);
  if (out != "-" && !is_folder &&
      std::filesystem::exists(std::filesystem::symlink_status(out, error))) {
    return FailUsage("convert: -o " + out + " exists already; nothing is replaced");
  }
  // Readers go by the name's ending.
  if (format == "chrome" && !is_folder && out.ends_with(".json")) {
    return FailUsage("convert: -o " + out +
                     ": Chrome traces are written compressed; allowed: a name that ends in "
                     ".json.gz");
  }
  try {
    return Convert(in, format, out);
  } catch (const std::exception& problem) {
    Say(std::string("not readable: ") + problem.what());
    return kUnreadable;
  }
}

}  // namespace stepagent::cli
