#pragma once
// Dictionary: equal keys to one small index, within a batch.
//
// Purpose: what repeats about records (launch shapes, lanes, threads) is written once a batch.
// Thread rule: belongs to one builder.
// Failure rule: cannot fail but for memory; bounded by the records of a batch.
//
// Built for the drain's loop, where a mispredicted branch costs as much as all the rest: keys are
// whole words put together in registers (narrow stores read back wide would stall), compared
// without a branch a word, and a quarter of the table at most is used, so that the first probe
// hits.
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

namespace stepagent::drain {

template <size_t kWords>
class Dictionary {
 public:
  using Key = std::array<uint64_t, kWords>;

  // The key's index; *is_new says that it had none yet.
  uint32_t Find(const Key& key, bool* is_new) {
    *is_new = false;
    // Most kernels of a name and grid have one shape: tried before all words are hashed.
    uint32_t& hint = hints_[HintOf(key)];
    if (hint < keys_.size() && IsEqual(keys_[hint], key)) [[likely]]
      return hint;
    return hint = Search(key, is_new);
  }
  [[nodiscard]] const std::vector<Key>& keys() const { return keys_; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(keys_.size()); }
  void Clear() {
    if (keys_.empty()) return;
    keys_.clear();
    std::fill(slots_.begin(), slots_.end(), 0);
  }

 private:
  static constexpr uint32_t kHintBits = kWords == 7 ? 10 : 6;

  [[gnu::noinline]] uint32_t Search(const Key& key, bool* is_new) {
    uint32_t at = Hash(key) & mask_;
    while (slots_[at] != 0) {
      const uint32_t index = slots_[at] - 1;
      if (IsEqual(keys_[index], key)) [[likely]]
        return index;
      at = (at + 1) & mask_;
    }
    *is_new = true;
    return Insert(key, at);
  }
  static bool IsEqual(const Key& a, const Key& b) {
    uint64_t difference = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < kWords; ++i) difference |= a[i] ^ b[i];
    return difference == 0;
  }
  static uint32_t HintOf(const Key& key) {
    uint64_t word = key[0];
    if constexpr (kWords > 1) word += key[1];
    return static_cast<uint32_t>((word * kFactors[0]) >> (64 - kHintBits));
  }
  // A sum of products with fixed odd numbers, of which the upper half is used: one multiplication a
  // word, all independent of each other.
  static uint32_t Hash(const Key& key) {
    uint64_t hash = 0;
    for (size_t i = 0; i < kWords; ++i) hash += key[i] * kFactors[i];
    return static_cast<uint32_t>(hash >> 32);
  }
  uint32_t Insert(const Key& key, uint32_t at) {
    keys_.push_back(key);
    slots_[at] = size();
    if (keys_.size() * 4 > slots_.size()) Grow();
    return size() - 1;
  }
  void Grow() {
    slots_.assign(slots_.size() * 2, 0);
    mask_ = static_cast<uint32_t>(slots_.size() - 1);
    for (uint32_t i = 0; i < size(); ++i) {
      uint32_t at = Hash(keys_[i]) & mask_;
      while (slots_[at] != 0) at = (at + 1) & mask_;
      slots_[at] = i + 1;
    }
  }

  // Digits of the golden ratio and of pi: no pattern, nothing else.
  static constexpr uint64_t kFactors[7] = {
      0x9e3779b97f4a7c15, 0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1,
      0x082efa98ec4e6c89, 0x452821e638d01377, 0xc0ac29b7c97c50dd};
  static_assert(kWords <= std::size(kFactors));

  std::vector<Key> keys_;
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(64);  // index + 1; 0 free
  uint32_t mask_ = 63;
  std::array<uint32_t, 1U << kHintBits> hints_{};  // an index that it may be
};

// Two 32-bit numbers as one word of a key, and back.
inline uint64_t Pair(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }
inline uint32_t Low(uint64_t word) { return static_cast<uint32_t>(word); }
inline uint32_t High(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace stepagent::drain
