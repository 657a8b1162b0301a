#include "proto/keyed_hash.h"

#include <bit>
#include <cstddef>

namespace stepagent::proto {
namespace {

constexpr size_t kWord = 8;

// Little endian whatever the machine, so that a key given by hand means the same everywhere.
uint64_t LoadWord(const char* at, size_t bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes; ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  }
  return word;
}

struct State {
  uint64_t a, b, c, d;

  void Round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void Take(uint64_t word) {
    d ^= word;
    Round();
    Round();
    a ^= word;
  }
};

}  // namespace

uint64_t KeyedHash(const HashKey& key, std::string_view text) {
  State state{key.low ^ 0x736f6d6570736575U, key.high ^ 0x646f72616e646f6dU,
              key.low ^ 0x6c7967656e657261U, key.high ^ 0x7465646279746573U};
  const size_t whole = text.size() / kWord * kWord;
  for (size_t at = 0; at < whole; at += kWord) state.Take(LoadWord(text.data() + at, kWord));
  const uint64_t length = static_cast<uint64_t>(text.size()) << 56;
  state.Take(length | LoadWord(text.data() + whole, text.size() - whole));
  state.c ^= 0xFF;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

std::string KeyedHex(const HashKey& key, std::string_view text) {
  const uint64_t hash = KeyedHash(key, text);
  std::string hex;
  for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[hash >> shift & 15U];
  return hex;
}

HashKey KeyFromText(std::string_view text) {
  // Two hashes under fixed, different keys: no text gives the all-zero key by design.
  return {KeyedHash({1, 2}, text), KeyedHash({3, 4}, text)};
}

}  // namespace stepagent::proto
