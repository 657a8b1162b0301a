#pragma once
// HOT PATH A. Hash of a short text.
//
// Purpose: one multiply for names up to 16 bytes, one more per further 16: a range name is hashed
// on every recorded push. Not for untrusted keys: whoever can make names collide is in the process.
// Thread rule: pure.
// Failure rule: none.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stepagent::core {

inline uint64_t Load64(const char* at) noexcept {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline uint64_t Load32(const char* at) noexcept {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
inline uint64_t Fold(uint64_t a, uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Two odd constants with no pattern (digits of pi and e, made odd).
inline constexpr uint64_t kHashA = 0x3141592653589793U;
inline constexpr uint64_t kHashB = 0x2718281828459045U;

inline uint64_t HashName(const char* text, size_t bytes) noexcept {
  uint64_t hash = kHashA + bytes;
  while (bytes > 16) {
    hash = Fold(Load64(text) ^ hash, Load64(text + 8) ^ kHashB);
    text += 16;
    bytes -= 16;
  }
  // The last 1 to 16 bytes as two words that may overlap.
  uint64_t low = 0, high = 0;
  if (bytes >= 8) {
    low = Load64(text);
    high = Load64(text + bytes - 8);
  } else if (bytes >= 4) {
    low = Load32(text);
    high = Load32(text + bytes - 4);
  } else if (bytes > 0) {
    low = static_cast<unsigned char>(text[0]);
    high = static_cast<uint64_t>(static_cast<unsigned char>(text[bytes / 2])) << 8 |
           static_cast<unsigned char>(text[bytes - 1]);
  }
  return Fold(low ^ hash, high ^ kHashB);
}

}  // namespace stepagent::core
