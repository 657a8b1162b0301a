#include "collector/launch/seen_folder.h"

#include <algorithm>
#include <filesystem>

namespace stepagent::launch {
namespace {

// A run that is worth keeping lasts longer; a look is one system call.
constexpr int kLongestPauseMs = 5'000;

}  // namespace

int SeenFolder::Look() {
  std::error_code error;
  was_there_ = was_there_ || std::filesystem::exists(path_, error);
  pause_ms_ = std::min(pause_ms_ * 2, kLongestPauseMs);
  return was_there_ ? -1 : pause_ms_;
}

}  // namespace stepagent::launch
