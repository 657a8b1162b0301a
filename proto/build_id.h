#pragma once
// Which build this is: the id that the linker gave the program or library this code is part of.
//
// Purpose: two builds of one version are told apart, in `--version`, in Hello and Welcome. The id is
// a hash of the file's contents: the same sources built twice have the same one.
// Thread rule: any; reads this module's own headers, takes no lock of the loader's.
// Failure rule: "" where the file has no such note.
#include <string>

namespace stepagent::proto {

// The first eight hex digits.
[[nodiscard]] std::string BuildId();
// "0.1.0+1a2b3c4d", or the version alone.
[[nodiscard]] std::string VersionText(const std::string& version);

}  // namespace stepagent::proto
