#pragma once
// Dictionary: equal keys to one small index, within a batch.
//
// Purpose: what repeats about records (launch shapes, lanes, threads) is written once a batch.
// Thread rule: belongs to one builder.
// Failure rule: cannot fail but for memory; bounded by the records of a batch.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace stepagent::drain {

// `Key`: a struct of whole 64-bit words without padding (compared and hashed as such).
template <typename Key>
class Dictionary {
 public:
  static_assert(sizeof(Key) % 8 == 0);

  // The key's index; *is_new says that it had none yet.
  uint32_t Find(const Key& key, bool* is_new) {
    *is_new = false;
    // Records come in runs of one thread or stream: try the last key before hashing.
    if (last_ < keys_.size() && std::memcmp(&keys_[last_], &key, sizeof key) == 0) return last_;
    if ((keys_.size() + 1) * 2 > slots_.size()) [[unlikely]] Rehash();
    uint32_t at = Hash(key) & mask_;
    while (slots_[at] != 0) {
      const uint32_t index = slots_[at] - 1;
      if (std::memcmp(&keys_[index], &key, sizeof key) == 0) return last_ = index;
      at = (at + 1) & mask_;
    }
    keys_.push_back(key);
    slots_[at] = static_cast<uint32_t>(keys_.size());
    *is_new = true;
    return last_ = static_cast<uint32_t>(keys_.size() - 1);
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  void Clear() {
    if (keys_.empty()) return;
    keys_.clear();
    std::fill(slots_.begin(), slots_.end(), 0);
  }

 private:
  // Two words at a time through one wide multiplication, the pairs independent of each other: about
  // 3 ns for the 64 bytes of a launch shape.
  static uint32_t Hash(const Key& key) {
    constexpr size_t kWords = sizeof(Key) / 8;
    uint64_t words[kWords + (kWords & 1)] = {};
    std::memcpy(words, &key, sizeof key);
    uint64_t hash = 0;
    for (size_t i = 0; i < std::size(words); i += 2) {
      const auto product = static_cast<unsigned __int128>(words[i] ^ kSeeds[i & 7]) *
                           (words[i + 1] ^ kSeeds[(i + 1) & 7]);
      hash ^= static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    hash *= kSeeds[0];
    return static_cast<uint32_t>(hash >> 32);
  }
  [[gnu::noinline]] void Rehash() {
    slots_.assign(std::max<size_t>(64, slots_.size() * 2), 0);
    mask_ = static_cast<uint32_t>(slots_.size() - 1);
    for (size_t i = 0; i < keys_.size(); ++i) {
      uint32_t at = Hash(keys_[i]) & mask_;
      while (slots_[at] != 0) at = (at + 1) & mask_;
      slots_[at] = static_cast<uint32_t>(i + 1);
    }
  }

  // Odd numbers without a pattern: digits of pi, e and square roots.
  static constexpr uint64_t kSeeds[8] = {
      0x9e3779b97f4a7c15, 0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1,
      0x082efa98ec4e6c89, 0x452821e638d01377, 0xbe5466cf34e90c6d, 0xc0ac29b7c97c50dd};

  std::vector<Key> keys_;
  std::vector<uint32_t> slots_;   // index + 1; 0 free
  uint32_t mask_ = 0;
  uint32_t last_ = 0;
};

}  // namespace stepagent::drain
