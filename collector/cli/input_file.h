#pragma once
// What a file that a reader was given is: a trace in JSON, a raw file, or nothing that is read.
//
// Purpose: `report`, `diff` and `convert` tell files apart alike, by what is in them, and say of
// another tool's file what it is. Thread rule: one call, one thread.
// Failure rule: what is not read is one line with the path.
#include <cstdint>
#include <string>

namespace stepagent::cli {

enum class InputKind : uint8_t { kJson, kRaw, kNone };

// `why` is set for kNone. The file is there and no folder.
[[nodiscard]] InputKind KindOfFile(const std::string& path, std::string* why);

}  // namespace stepagent::cli
