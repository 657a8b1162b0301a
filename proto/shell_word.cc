#include "proto/shell_word.h"

#include <string_view>

namespace stepagent::proto {

std::string ShellWord(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%#";
  if (!text.empty() && text[0] != '#' && text.find_first_not_of(kPlain) == std::string::npos)
    return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace stepagent::proto
