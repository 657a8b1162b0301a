#include "agent/nvtx/thread_block.h"

#include <pthread.h>

#include <atomic>
#include <cstring>

#include "agent/core/clock.h"
#include "agent/core/step_gate.h"

namespace stepagent::nvtx {
namespace {

constexpr uint32_t kNoIndex = UINT32_MAX;
// glibc runs key destructors up to four times; the block goes on the third, after everyone else's.
constexpr uintptr_t kReturnRound = 3;
constexpr uintptr_t kRoundMask = alignof(ThreadBlock) - 1;

alignas(64) constinit std::atomic<uint32_t> high_water{0};
constinit std::atomic<uint64_t> free_head{0};  // tag << 32 | index + 1; 0 in the low half: empty
constinit std::atomic<uint64_t> exhausted{0};
constinit bool has_key = false;
constinit pthread_key_t key{};

uint32_t PopFree() {
  uint64_t head = free_head.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    const uint32_t index = static_cast<uint32_t>(head) - 1;
    const uint32_t after = g_storage.next_block[index].load(std::memory_order_relaxed);
    const uint64_t next = ((head >> 32) + 1) << 32 | after;  // the tag keeps a returned block apart
    if (free_head.compare_exchange_weak(head, next, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      return index;
    }
  }
  uint32_t count = high_water.load(std::memory_order_relaxed);
  while (count < kBlocks) {
    if (high_water.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return count;
  }
  return kNoIndex;
}

void PushFree(uint32_t index) {
  uint64_t head = free_head.load(std::memory_order_relaxed);
  uint64_t next;
  do {
    g_storage.next_block[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    next = ((head >> 32) + 1) << 32 | (index + 1);
  } while (!free_head.compare_exchange_weak(head, next, std::memory_order_release,
                                            std::memory_order_relaxed));
}

SpillBlock* SpillAt(uint32_t index_plus_one) {
  return reinterpret_cast<SpillBlock*>(&g_storage.blocks[index_plus_one - 1]);
}

void ReturnBlock(ThreadBlock* block) {
  t_block = kNoBlock;
  // A thread that ends inside its step ends the step.
  if (block->step_depth != 0) core::Gate().OnStepEnd(core::HostClock::Ticks());
  for (uint32_t spill = block->spill; spill != 0;) {
    SpillBlock* at = SpillAt(spill);
    const uint32_t next = at->next;
    std::memset(at, 0, sizeof *at);
    PushFree(spill - 1);
    spill = next;
  }
  std::memset(block, 0, sizeof *block);
  PushFree(IndexOf(block));
}

void OnThreadExit(void* value) {
  const auto word = reinterpret_cast<uintptr_t>(value) + 1;
  auto* block = reinterpret_cast<ThreadBlock*>(word & ~kRoundMask);
  if ((word & kRoundMask) < kReturnRound &&
      pthread_setspecific(key, reinterpret_cast<void*>(word)) == 0) {
    return;
  }
  ReturnBlock(block);
}

DomainDepth* FirstFree(DomainDepth* slots, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    if (slots[i].depth == 0) return &slots[i];
  }
  return nullptr;
}

DomainDepth* AddSpill(ThreadBlock* block) {
  const uint32_t index = PopFree();
  if (index == kNoIndex) return nullptr;
  SpillBlock* spill = SpillAt(index + 1);
  std::memset(spill, 0, sizeof *spill);
  spill->next = block->spill;
  block->spill = index + 1;
  return &spill->slots[0];
}

}  // namespace

constinit thread_local ThreadBlock* t_block = nullptr;

void InitBlocks() noexcept { has_key = pthread_key_create(&key, OnThreadExit) == 0; }

ThreadBlock* TakeBlock() noexcept {
  if (t_block == kNoBlock || g_storage.blocks == nullptr) return nullptr;
  const uint32_t index = PopFree();
  if (index == kNoIndex) {
    t_block = kNoBlock;
    exhausted.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  ThreadBlock* block = &g_storage.blocks[index];
  t_block = block;  // before setspecific, which may allocate and so come back here
  if (has_key) (void)pthread_setspecific(key, block);
  return block;
}

uint32_t* FindSpilledDepth(ThreadBlock* block, core::NameId domain) noexcept {
  for (uint32_t spill = block->spill; spill != 0; spill = SpillAt(spill)->next) {
    for (DomainDepth& slot : SpillAt(spill)->slots) {
      if (slot.domain == domain) return &slot.depth;
    }
  }
  return nullptr;
}

uint32_t* TakeFreeDepth(ThreadBlock* block, core::NameId domain) noexcept {
  DomainDepth* free = FirstFree(block->slots, ThreadBlock::kSlots);
  for (uint32_t spill = block->spill; spill != 0 && free == nullptr;) {
    SpillBlock* at = SpillAt(spill);
    free = FirstFree(at->slots, SpillBlock::kSlots);
    spill = at->next;
  }
  if (free == nullptr) free = AddSpill(block);
  if (free == nullptr) {
    exhausted.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  free->domain = domain;
  return &free->depth;
}

uint64_t BlocksExhausted() noexcept { return exhausted.load(std::memory_order_relaxed); }
void ForgetBlockCounters() noexcept { exhausted.store(0, std::memory_order_relaxed); }

}  // namespace stepagent::nvtx
