#pragma once
// HOT PATH A. Ids of start/end ranges.
//
// Purpose: ids unique in the process without a counter that all threads share: the thread's block
// and the block's own count. Ends that come twice or were never started are told from good ones.
// Thread rule: NextStartId on the block's thread; TakeStart on any thread.
// Failure rule: of one thread's starts the latest 63 are tracked; an older one's end is taken on
// trust.
//
// An id is (block + 1) << kSequenceBits | sequence, sequence from 1: never 0. Word 0 of a block's
// start words is its count, which outlives the thread so that no id comes twice; word 1 + n holds
// the latest sequence s with s % 63 == n as s << 1 | ended.
#include <atomic>
#include <cstdint>

#include "agent/nvtx/storage.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {

inline constexpr int kSequenceBits = 44;
inline constexpr uint64_t kSequenceMask = (uint64_t{1} << kSequenceBits) - 1;
inline constexpr uint32_t kTracked = kStartWords - 1;
// The block number of ids from threads that found no block: a shared count, not tracked.
inline constexpr uint64_t kSharedBlock = kBlocks;

[[nodiscard]] inline uint64_t NextStartId(const ThreadBlock* block) noexcept {
  const uint32_t index = IndexOf(block);
  std::atomic<uint64_t>* words = g_storage.starts + size_t{index} * kStartWords;
  const uint64_t sequence = words[0].load(std::memory_order_relaxed) + 1;
  words[1 + sequence % kTracked].store(sequence << 1, std::memory_order_relaxed);
  words[0].store(sequence, std::memory_order_relaxed);
  return (uint64_t{index} + 1) << kSequenceBits | sequence;
}
[[nodiscard]] uint64_t NextSharedStartId() noexcept;

// Ends the range of this id. False: no such range is open (never started, or ended before).
[[nodiscard]] inline bool TakeStart(uint64_t id) noexcept {
  const uint64_t block = (id >> kSequenceBits) - 1;
  const uint64_t sequence = id & kSequenceMask;
  if (block == kSharedBlock) return true;
  if (block > kSharedBlock || sequence == 0 || g_storage.starts == nullptr) return false;
  auto* word = g_storage.starts + block * kStartWords + 1 + sequence % kTracked;
  uint64_t seen = word->load(std::memory_order_relaxed);
  if (seen >> 1 > sequence) return true;  // too many since: taken on trust
  if (seen != sequence << 1) return false;
  return word->compare_exchange_strong(seen, seen | 1, std::memory_order_relaxed) ||
         seen >> 1 > sequence;
}

}  // namespace stepagent::nvtx
