#include "collector/launch/setting_args.h"

#include <algorithm>
#include <filesystem>

#include "proto/settings.h"

namespace stepagent::launch {
namespace {

// "--flag=value", "-oDIR": the value that is part of the word. False: the next word is the value.
bool SplitWord(const std::string& word, std::string* flag, std::string* value) {
  if (word.starts_with("-o") && word.size() > 2) {
    *flag = "-o";
    *value = word.substr(2);
    return true;
  }
  const size_t equals = word.find('=');
  *flag = word.substr(0, equals);
  if (equals == std::string::npos) return false;
  *value = word.substr(equals + 1);
  return true;
}

}  // namespace

SettingArgs TakeSettings(const std::vector<std::string>& args, bool has_command) {
  SettingArgs result;
  const auto end = args.end();
  for (auto word = args.begin(); word != end; ++word) {
    if (*word == "--") {
      result.command.assign(word + 1, end);
      return result;
    }
    if (has_command && (word->empty() || (*word)[0] != '-')) {
      result.command.assign(word, end);
      return result;
    }
    std::string flag, value;
    const bool has_value = SplitWord(*word, &flag, &value);
    const proto::SettingSpec* spec = flag.starts_with("-") ? proto::FindSetting(flag) : nullptr;
    if (!spec) {
      result.rest.push_back(*word);
      continue;
    }
    if (!has_value) {
      if (++word == end) {
        result.error = proto::SettingError{flag, "", "needs a value", spec->allowed}.Line();
        return result;
      }
      value = *word;
    }
    const std::string name = spec->flag + 2;
    const bool is_repeated = std::any_of(result.settings.begin(), result.settings.end(),
                                         [&](const auto& s) { return s.first == name; });
    if (is_repeated && !spec->repeatable) {
      result.error = proto::SettingError{flag, value, "given twice", spec->allowed}.Line();
      return result;
    }
    result.settings.emplace_back(name, value);
  }
  return result;
}

std::string SettingsHelp(bool (*skips)(const std::string& name)) {
  std::string text;
  for (const proto::SettingSpec& spec : proto::AllSettings()) {
    if (skips != nullptr && skips(std::string(spec.flag).substr(2))) continue;
    text += "  " + std::string(spec.flag) + (spec.alias ? ", " + std::string(spec.alias) : "") +
            " " + spec.value + "   [" + spec.variable + "]\n      " + spec.help +
            "\n      Allowed: " + spec.allowed + "." +
            (*spec.fallback ? " Default: " + std::string(spec.fallback) + "." : "") + "\n";
  }
  return text;
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace stepagent::launch
