// Settings of the simulator: the environment family STEPAGENT_SIM_*, and a text file named by
// STEPAGENT_SIM_CONFIG with lines "KEY=value" (KEY without the prefix). The environment wins.
//
// Threads: any; the file is read once, on the first lookup. Failure: a value that does not parse
// ends the program with a message, since a test that misspells a setting proves nothing.
#pragma once

#include <cstdint>
#include <string>

namespace stepagent::sim {

// The raw text of STEPAGENT_SIM_<key>, or `fallback` when it is set nowhere.
[[nodiscard]] std::string SettingText(const char* key, const char* fallback = "");

// A whole number, with an optional unit ns, us, ms or s when it is a time in nanoseconds.
[[nodiscard]] int64_t SettingInt(const char* key, int64_t fallback);

[[nodiscard]] double SettingReal(const char* key, double fallback);

[[nodiscard]] bool SettingFlag(const char* key, bool fallback);

// "%p" in a path becomes the process id.
[[nodiscard]] std::string ExpandPath(const std::string& path);

// Shell pattern with * and ? only.
[[nodiscard]] bool MatchesGlob(const char* pattern, const char* text);

// Prints "stepagent-sim: <text>" to standard error and aborts: the program broke a rule that the
// real driver or the real CUPTI enforces less politely.
[[noreturn]] void Violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace stepagent::sim
