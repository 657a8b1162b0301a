#pragma once
// Command lines of the subcommands, parsed by CLI11 with one-line refusals.
//
// Purpose: what the table of settings does not know (targets, --json, --timeout) goes through one
// place, so that usage errors look alike and end with 2.
// Thread rule: pure, but for printing. Failure rule: a status to exit with.
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stepagent::cli {

inline constexpr int kUsageError = 2;

// nullopt: parsed, go on; else the status to exit with (help: 0).
[[nodiscard]] std::optional<int> ParseArguments(CLI::App* app, std::vector<std::string> words);
int FailUsage(const std::string& line);
// Check of --top: "" or why the value is none.
[[nodiscard]] std::string CheckRows(const std::string& value);

}  // namespace stepagent::cli
