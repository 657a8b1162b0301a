#pragma once
// HOT PATH A. ThreadBlock: what NVTX must remember per thread, in every phase.
//
// Purpose: push and pop return the true depth always, so the depth per domain is kept even while
// nothing is recorded; and the depth at which this thread's range is the open step.
// Thread rule: a block belongs to the thread whose TLS pointer names it.
// Failure rule: no block left: LocalBlock is nullptr for the rest of the thread's life, depths read
// 0, and the thread is counted once.
//
// Invariants: 1. A slot with depth 0 may be given to another domain, so a thread spills only while
// more than kSlots named domains have a range open on it. 2. A domain is in one slot at most.
#include <cstdint>

#include "agent/core/name_table.h"
#include "agent/nvtx/storage.h"

namespace stepagent::nvtx {

struct DomainDepth {
  core::NameId domain;
  uint32_t depth;
};

struct alignas(64) ThreadBlock {
  static constexpr uint32_t kSlots = 5;

  uint32_t default_depth;
  uint32_t step_depth;  // depth + 1 of the range that is the open step; 0 none
  core::NameId step_domain;
  uint32_t spill;       // index + 1 of a SpillBlock; 0 none
  uint32_t count_left;  // begins to let pass before the next is counted; see seen_ranges.h
  uint32_t count_state;
  DomainDepth slots[kSlots];
};
static_assert(sizeof(ThreadBlock) == 64);

struct alignas(64) SpillBlock {
  static constexpr uint32_t kSlots = 7;
  DomainDepth slots[kSlots];
  uint32_t next;  // index + 1
  uint32_t unused;
};
static_assert(sizeof(SpillBlock) == sizeof(ThreadBlock));

// The thread's block: nullptr or 1 when it has none (yet, or any more). See LocalBlock.
extern constinit thread_local ThreadBlock* t_block [[gnu::visibility("hidden")]];
inline ThreadBlock* const kNoBlock = reinterpret_cast<ThreadBlock*>(1);

// Takes a block for this thread; nullptr when there is none.
[[nodiscard]] ThreadBlock* TakeBlock() noexcept;
[[nodiscard]] inline ThreadBlock* LocalBlock() noexcept {
  ThreadBlock* block = t_block;
  if (reinterpret_cast<uintptr_t>(block) > 1) [[likely]]
    return block;
  return TakeBlock();
}
[[nodiscard]] inline ThreadBlock* ExistingBlock() noexcept {
  ThreadBlock* block = t_block;
  return reinterpret_cast<uintptr_t>(block) > 1 ? block : nullptr;
}

// The depth word of a domain; nullptr when it has none, or none can be had (the pool is empty).
[[nodiscard]] uint32_t* FindSpilledDepth(ThreadBlock* block, core::NameId domain) noexcept;
[[nodiscard]] uint32_t* TakeFreeDepth(ThreadBlock* block, core::NameId domain) noexcept;

[[nodiscard]] inline uint32_t* FindDepth(ThreadBlock* block, core::NameId domain) noexcept {
  if (domain == core::kNoName) return &block->default_depth;
  for (DomainDepth& slot : block->slots) {
    if (slot.domain == domain) return &slot.depth;
  }
  return block->spill == 0 ? nullptr : FindSpilledDepth(block, domain);
}
[[nodiscard]] inline uint32_t* MakeDepth(ThreadBlock* block, core::NameId domain) noexcept {
  uint32_t* depth = FindDepth(block, domain);
  return depth != nullptr ? depth : TakeFreeDepth(block, domain);
}

[[nodiscard]] inline uint32_t IndexOf(const ThreadBlock* block) noexcept {
  return static_cast<uint32_t>(block - g_storage.blocks);
}

// Makes the key whose destructor returns blocks. Called once, by InitStorage.
void InitBlocks() noexcept;
[[nodiscard]] uint64_t BlocksExhausted() noexcept;
void ForgetBlockCounters() noexcept;

}  // namespace stepagent::nvtx
