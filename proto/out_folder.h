#pragma once
// Whether a folder for traces can be made.
//
// Purpose: one check for `doctor` before a run, for an agent that is asked to start, and for the
// launcher's last lines.
// Thread rule: any. It makes and removes a folder of its own: what root may write, and what a file
// system refuses, no look can tell.
// Failure rule: the reason as text, with path and errno.
#include <string>

namespace stepagent::proto {

// The nearest path at or above `path` that exists.
[[nodiscard]] std::string ExistingFolder(const std::string& path);
[[nodiscard]] bool IsFolder(const std::string& path);
// "" when it can, else "OUT: cannot be created: WHERE: errno text".
[[nodiscard]] std::string WhyNotCreatable(const std::string& out);
// What to type then.
[[nodiscard]] std::string OutFolderCure();

}  // namespace stepagent::proto
