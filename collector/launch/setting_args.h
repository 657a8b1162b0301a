#pragma once
// Takes the settings out of a command line, by the one table.
//
// Purpose: `run` and `start` accept every setting as a flag; a value may be empty or begin with
// '-' (--activities -sync), which general parsers cannot take, and every refusal is one line that
// names flag, value and what is allowed.
// Thread rule: pure. Failure rule: an error line, and nothing else is to be used.
#include <string>
#include <utility>
#include <vector>

namespace stepagent::launch {

struct SettingArgs {
  std::vector<std::pair<std::string, std::string>> settings;  // flag without dashes, value
  std::vector<std::string> rest;                              // what the table does not know
  std::vector<std::string> command;                           // after `--`, or from the first word
  std::string error;                                          // one line, "" good
};

// `has_command`: the first word that is no flag begins a command.
[[nodiscard]] SettingArgs TakeSettings(const std::vector<std::string>& args, bool has_command);
// The settings as help text, one paragraph each.
// `skips`: names ("arm") of settings that the command does not take.
[[nodiscard]] std::string SettingsHelp(bool (*skips)(const std::string& name) = nullptr);
// A path as it is from the current folder; unchanged when absolute.
[[nodiscard]] std::string AbsolutePath(const std::string& path);

}  // namespace stepagent::launch
