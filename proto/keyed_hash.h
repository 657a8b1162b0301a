#pragma once
// KeyedHash: SipHash-2-4, a keyed hash of short texts.
//
// Purpose: a name that must not be told becomes a number that nobody without the key can try names
// against. Small enough for the agent, which carries no library for it.
// Thread rule: pure functions.
// Failure rule: none.
#include <cstdint>
#include <string>
#include <string_view>

namespace stepagent::proto {

struct HashKey {
  uint64_t low = 0, high = 0;
};

[[nodiscard]] uint64_t KeyedHash(const HashKey& key, std::string_view text);
// 16 hex digits of it: the chance that two of a million names share one is below 10^-7.
[[nodiscard]] std::string KeyedHex(const HashKey& key, std::string_view text);
// A key from a text of any length; equal texts give equal keys.
[[nodiscard]] HashKey KeyFromText(std::string_view text);

}  // namespace stepagent::proto
