#pragma once
// What is read of /proc and of an environment block: small texts, no state.
//
// Purpose: the ground identity.cc and run_name.cc share.
// Thread rule: any thread. Failure rule: what cannot be read is empty or 0.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepagent::proto {

// The value of a variable, "" when it is not there.
[[nodiscard]] std::string_view Variable(char* const* environment, std::string_view name);
// The first `most` bytes of a file; its descriptor is closed again at once.
[[nodiscard]] std::string ReadFile(const std::string& path, size_t most);

// Fields of /proc/PID/stat, counted from 1 as in proc(5).
inline constexpr int kParentField = 4, kStartTimeField = 22, kArgStartField = 48, kArgEndField = 49;
// A numeric field; 0 unknown.
[[nodiscard]] uint64_t StatField(const std::string& stat, int wanted);

[[nodiscard]] std::string Hex(uint64_t value, int digits);

}  // namespace stepagent::proto
