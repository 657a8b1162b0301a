#pragma once
// Which physical device an ordinal of a process stands for.
//
// Purpose: a process counts the devices that CUDA_VISIBLE_DEVICES leaves it from 0; people and
// tools of the machine count them all.
// Thread rule: pure. Failure rule: where the variable does not tell (names of devices instead of
// numbers), the process's own ordinal.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace stepagent::proto {

// `visible`: the variable's value, "" unset.
[[nodiscard]] inline int64_t PhysicalDevice(int32_t ordinal, std::string_view visible) {
  const char* at = visible.data();
  const char* const end = at + visible.size();
  for (int32_t i = 0; at != end; ++i) {
    while (at != end && *at == ' ') ++at;
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) break;  // UUIDs have no order of their own
    if (i == std::max(ordinal, 0)) return number;
    if (rest == end || *rest != ',') break;
    at = rest + 1;
  }
  return ordinal;
}

}  // namespace stepagent::proto
