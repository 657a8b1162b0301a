// HOT PATH A: runs inside the application's CUDA calls. No lock, allocation, system call or log.
#include "agent/unwind/stack_table.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>

namespace stepagent::unwind {
namespace {

// Ids below are taken: none, overflow, not taken.
constexpr uint64_t kFirst = 3;
// Beyond so many neighbours the table counts as full. At three quarters full a search looks at
// fewer than 8.
constexpr uint32_t kProbes = 32;

constexpr uint64_t kCountMask = 0xFF;
constexpr uint64_t kTruncated = 0x100;
constexpr int kEpochShift = 16;
static_assert(StackTable::kMaxFrames <= kCountMask);

// Four chains, so that the multiplications of one do not wait for those of another.
uint64_t HashOf(uint64_t header, const uintptr_t* frames, uint32_t count) noexcept {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t chains[4] = {header, 0x243f6a8885a308d3, 0x13198a2e03707345, 0xa4093822299f31d1};
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (uint32_t k = 0; k < 4; ++k) {
      chains[k] = std::rotl((chains[k] ^ frames[i + k]) * kOdd, 29);
    }
  }
  for (; i < count; ++i) chains[i & 3] = std::rotl((chains[i & 3] ^ frames[i]) * kOdd, 29);
  uint64_t hash = chains[0];
  for (uint32_t k = 1; k < 4; ++k)
    hash = (hash ^ std::rotl(chains[k], static_cast<int>(16 * k))) * kOdd;
  return hash ^ (hash >> 32);
}

void* MapBytes(size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

bool StackTable::Map(uint32_t words, uint32_t slots) noexcept {
  if (is_mapped()) return true;
  void* memory = MapBytes(words * sizeof(uintptr_t));
  void* table = MapBytes(slots * sizeof(std::atomic<uint64_t>));
  if (memory == nullptr || table == nullptr) {
    if (memory != nullptr) munmap(memory, words * sizeof(uintptr_t));
    if (table != nullptr) munmap(table, slots * sizeof(std::atomic<uint64_t>));
    return false;
  }
  slots_ = static_cast<std::atomic<uint64_t>*>(table);  // zero bytes are free slots
  word_count_ = words;
  slot_mask_ = slots - 1;
  used_.store(kFirst, std::memory_order_relaxed);
  words_.store(static_cast<uintptr_t*>(memory), std::memory_order_release);  // pairs with is_mapped
  return true;
}

bool StackTable::IsAt(uint32_t id, uint64_t header, const uintptr_t* frames) const noexcept {
  const uintptr_t* words = words_.load(std::memory_order_relaxed);
  return words[id] == header &&
         std::memcmp(words + id + 1, frames, (header & kCountMask) * sizeof(uintptr_t)) == 0;
}

// Puts the stack into a slot that was free a moment ago: its id, or 0 when another stack was
// quicker or (then kOverflow) no words are left. `stored`: where this stack's words are already, so
// that a lost race costs them once.
uint32_t StackTable::Insert(std::atomic<uint64_t>* slot, uint64_t tag, uint64_t header,
                            const uintptr_t* frames, uint32_t* stored) noexcept {
  if (*stored == 0) {
    const uint64_t need = 1 + (header & kCountMask);
    if (used_.load(std::memory_order_relaxed) + need > word_count_) return kOverflow;
    const uint64_t at = used_.fetch_add(need, std::memory_order_relaxed);
    if (at + need > word_count_) return kOverflow;
    uintptr_t* words = words_.load(std::memory_order_relaxed);
    words[at] = header;
    std::memcpy(words + at + 1, frames, (need - 1) * sizeof(uintptr_t));
    *stored = static_cast<uint32_t>(at);
  }
  uint64_t expected = 0;
  // release pairs with the acquire loads in Intern: who sees the id sees the words.
  if (slot->compare_exchange_strong(expected, tag | *stored, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
    return *stored;
  }
  const auto other = static_cast<uint32_t>(expected);
  return (expected ^ tag) >> 32 == 0 && IsAt(other, header, frames) ? other : 0;
}

uint32_t StackTable::Intern(const uintptr_t* frames, uint32_t count, bool truncated) noexcept {
  if (count == 0) return kNotTaken;
  if (!is_mapped()) return kOverflow;
  if (count > kMaxFrames) count = kMaxFrames;
  const uint64_t header =
      epoch_.load(std::memory_order_relaxed) << kEpochShift | (truncated ? kTruncated : 0) | count;
  const uint64_t hash = HashOf(header, frames, count);
  const uint64_t tag = hash & ~uint64_t{0xFFFFFFFF};
  uint32_t stored = 0;
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    std::atomic<uint64_t>& slot = slots_[(hash + probe) & slot_mask_];
    const uint64_t entry = slot.load(std::memory_order_acquire);  // pairs with Insert
    if (entry == 0) {
      const uint32_t id = Insert(&slot, tag, header, frames, &stored);
      if (id == kOverflow) break;
      if (id != 0) return id;
      continue;
    }
    const auto id = static_cast<uint32_t>(entry);
    if ((entry ^ tag) >> 32 == 0 && IsAt(id, header, frames)) return id;
  }
  overflowed_.fetch_add(1, std::memory_order_relaxed);
  return kOverflow;
}

StackTable::View StackTable::Get(uint32_t id) const noexcept {
  if (!is_mapped() || id < kFirst || id >= word_count_ ||
      id >= used_.load(std::memory_order_relaxed)) {
    return {};
  }
  const uintptr_t* words = words_.load(std::memory_order_relaxed);
  const auto count = static_cast<uint32_t>(words[id] & kCountMask);
  if (count > kMaxFrames || id + 1 + count > word_count_) return {};
  return {words + id + 1, count, (words[id] & kTruncated) != 0};
}

uint64_t StackTable::bytes() const noexcept {
  if (!is_mapped()) return 0;
  return used_.load(std::memory_order_relaxed) * sizeof(uintptr_t) +
         (uint64_t{slot_mask_} + 1) * sizeof(uint64_t);
}

}  // namespace stepagent::unwind
