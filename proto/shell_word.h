#pragma once
// A text as one word of a POSIX shell: what a user pastes from one of our lines stays one word.
//
// Thread rule: pure. Failure rule: any bytes are taken.
#include <string>

namespace stepagent::proto {

[[nodiscard]] std::string ShellWord(const std::string& text);

}  // namespace stepagent::proto
