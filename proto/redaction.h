#pragma once
// What both processes know about redacted text.
//
// Purpose: the kinds of --redact, what a redacted host looks like, and sentences without paths.
// Thread rule: pure functions.
// Failure rule: none; a text too odd to take apart loses more of itself, never less.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::proto {

enum RedactBit : uint32_t {
  kRedactPaths = 1,
  kRedactNames = 2,
  kRedactArgs = 4,
  kRedactHosts = 8,
};
// Of the words of --redact; others are no bits.
[[nodiscard]] uint32_t RedactBits(const std::vector<std::string>& words);
[[nodiscard]] std::vector<std::string> RedactWords(uint32_t bits);

// The environment variable that holds the key: any text, the same for all processes of a run.
inline constexpr const char* kRedactKeyVariable = "STEPAGENT_REDACT_KEY";

// Whether a session's host is a hash: then nobody can tell whether it is this machine.
[[nodiscard]] bool IsRedactedHost(std::string_view host);
inline constexpr std::string_view kHostPrefix = "host-";

// From the first word with a slash to the last one: a path may hold spaces. npos: there is none.
struct PathSpan {
  size_t begin = std::string_view::npos, end = 0;
};
[[nodiscard]] PathSpan FindPaths(std::string_view text);
// The text with that span replaced.
[[nodiscard]] std::string WithoutPaths(std::string_view text, std::string_view instead);

}  // namespace stepagent::proto
