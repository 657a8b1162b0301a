#pragma once
// How a process ended, in words.
//
// Thread rule: pure. Failure rule: a signal without a name is its number.
#include <cstdint>
#include <string>

namespace stepagent::model {

// The reason of a cycle that is read before its end.
inline constexpr const char* kGoesOnText = "recording goes on";

// `signal` 0: it exited with `exit_status`.
[[nodiscard]] std::string EndText(uint32_t signal, uint32_t exit_status);

}  // namespace stepagent::model
