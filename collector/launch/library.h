#pragma once
// Where libstepagent.so is, under a name that LD_PRELOAD can carry.
//
// Purpose: the library is found relative to this program, so a moved prefix works. The loader
// splits LD_PRELOAD at spaces and colons and expands $TOKENS, with no escape: a path with one of
// these is reached through a symbolic link to its folder in a private runtime folder.
// Thread rule: called once, from the launcher's main thread.
// Failure rule: a Library without a path says why in one line.
#include <string>
#include <string_view>
#include <vector>

#include "proto/address.h"

namespace stepagent::launch {

struct Library {
  std::string path;  // "": not found or not to be named
  std::string error;
};

// `override_path`: STEPAGENT_LIB. `executable`: this program's absolute path.
[[nodiscard]] Library FindLibrary(const std::string& executable, const std::string& override_path);
// The same library under a path that LD_PRELOAD can carry.
[[nodiscard]] Library PreloadableLibrary(const std::string& path, const proto::RuntimeDirs& dirs);
[[nodiscard]] bool IsPreloadable(std::string_view path);
[[nodiscard]] std::string OwnExecutable();

}  // namespace stepagent::launch
