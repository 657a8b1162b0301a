#include "collector/cli/arguments.h"

#include <algorithm>
#include <cstdio>

#include "CLI/CLI.hpp"

namespace stepagent::cli {

int FailUsage(const std::string& line) {
  std::fprintf(stderr, "stepagent: %s\n", line.c_str());
  return kUsageError;
}

std::string CheckRows(const std::string& value) {
  const bool is_whole = !value.empty() && value.size() < 10 &&
                        value.find_first_not_of("0123456789") == std::string::npos;
  // The option's name is put before it.
  return is_whole ? "" : "'" + value + "': allowed: a whole number; 0 shows all";
}

std::optional<int> ParseArguments(CLI::App* app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app->parse(words);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app->help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    const std::string name = app->get_name();  // "stepagent start"
    return FailUsage(name.substr(name.find(' ') + 1) + ": " + line);
  }
  return std::nullopt;
}

}  // namespace stepagent::cli
