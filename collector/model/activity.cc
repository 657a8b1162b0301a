#include <algorithm>

#include "collector/model/cycle.h"

namespace stepagent::model {
namespace {

constexpr std::array<std::string_view, kActivityCount> kNames = {
    "", "kernel", "memcpy", "memset", "launch", "sync", "nvtx", "memory", "overhead"};

}  // namespace

std::string_view ActivityName(Activity a) {
  const auto index = static_cast<size_t>(a);
  return index < kNames.size() ? kNames[index] : std::string_view();
}

std::optional<Activity> ActivityFromName(std::string_view name) {
  const auto found = std::find(kNames.begin() + 1, kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Activity>(found - kNames.begin());
}

}  // namespace stepagent::model
