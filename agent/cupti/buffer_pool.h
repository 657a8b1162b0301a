#pragma once
// HOT PATH B. BufferPool: the memory that CUPTI fills.
//
// Purpose: hand CUPTI buffers from its own threads and the application's, take them back full, and
// give them to the thread `stepagent`, without a lock, an allocation or a system call.
// Thread rule: Request and Complete on any thread, also concurrently and under CUPTI's locks; every
// other method on the thread `stepagent`.
// Failure rule: CUPTI never gets NULL (below API 27 it crashes on it). Over the cap it gets a small
// discard buffer whose records are counted per activity and thrown away; when even those are all
// out, a bin shared by everybody, whose content nobody can count (`uncounted`).
//
// One stretch of address space is divided into slots of the largest size; a buffer is the beginning
// of a slot, so any slot serves any size and memory is touched only as far as CUPTI writes.
// Invariants: 1. A slot is in exactly one place: free list, CUPTI, completed list, or the drainer.
// 2. A slot that CUPTI has is never reused or unmapped; one that never comes back is lost for good.
// 3. A buffer that is not from our slots, or not out, is a rival's: counted, not touched.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "agent/cupti/kinds.h"
#include "agent/cupti/layouts.h"

namespace stepagent::cupti {

struct PoolCounts {
  uint64_t requested = 0;
  uint64_t completed = 0;
  uint64_t foreign = 0;
  uint64_t refused = 0;    // discard buffers and the bin, handed out
  uint64_t uncounted = 0;  // times the bin came back: what it held is unknown
  uint64_t outstanding = 0;
  uint64_t bytes = 0;  // memory the slots hold
  uint64_t dropped[kActivityCount] = {};
};

class BufferPool {
 public:
  static constexpr size_t kSmallest = size_t{64} << 10;
  static constexpr size_t kLargest = size_t{4} << 20;
  static constexpr size_t kDiscardBytes = size_t{8} << 10;
  // 256 slots: one per application thread where CUPTI 13 buffers per thread, with room.
  static constexpr uint32_t kSlots = 256;
  static constexpr uint32_t kDiscardSlots = 256;
  // Memory the slots may hold. 128 MiB is 0.6 M kernel records: at one million a second more than
  // half a second of a stalled drain.
  static constexpr size_t kDefaultCap = size_t{128} << 20;

  // Maps the address space once. False: no memory; the pool must not be given to CUPTI.
  [[nodiscard]] bool Map(size_t cap_bytes = kDefaultCap);
  // A collection begins: sizes start small again. `layouts` counts what is discarded.
  void Begin(const Layouts* layouts);

  // Hot path B.
  void Request(uint8_t** buffer, size_t* bytes) noexcept;
  void Complete(uint8_t* buffer, size_t valid_bytes) noexcept;

  struct Completed {
    uint32_t slot;
    uint8_t* data;
    size_t valid_bytes;
  };
  // All buffers completed so far, oldest first, `visit(const Completed&)`; each is free afterwards.
  template <typename F>
  uint32_t TakeCompleted(F&& visit) {
    uint32_t count = 0;
    for (uint32_t slot = TakeList(); slot != kNone;) {
      const uint32_t next = slots_[slot].next.load(std::memory_order_relaxed);
      visit(Completed{slot, Address(slot), slots_[slot].valid_bytes});
      Recycle(slot);
      slot = next;
      ++count;
    }
    return count;
  }
  [[nodiscard]] bool HasCompleted() const {
    return completed_.load(std::memory_order_relaxed) != kNone;
  }
  // Gives the memory of free slots back to the system.
  void Trim();
  [[nodiscard]] PoolCounts counts() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  enum State : uint32_t { kFree, kOut, kDone };

  struct Slot {
    std::atomic<uint32_t> next{kNone};
    std::atomic<uint32_t> state{kFree};
    size_t handed_bytes = 0;  // while out: what CUPTI was told
    size_t valid_bytes = 0;
    size_t touched_bytes = 0;  // memory behind it; owned by whoever has the slot
    uint64_t since_ns = 0;
  };
  // A lock-free stack of slot numbers. The upper half counts changes, so that a slot that was taken
  // and returned meanwhile is not mistaken for the one seen before.
  class Stack {
   public:
    void Push(Slot* slots, uint32_t slot) noexcept;
    [[nodiscard]] uint32_t Pop(Slot* slots) noexcept;

   private:
    std::atomic<uint64_t> head_{kNone};
  };

  [[nodiscard]] uint8_t* Address(uint32_t slot) const { return base_ + slot * kLargest; }
  [[nodiscard]] uint8_t* DiscardAddress(uint32_t slot) const {
    return discard_base_ + slot * kDiscardBytes;
  }
  [[nodiscard]] bool ReserveBytes(Slot* slot, size_t want, size_t* granted) noexcept;
  void RequestDiscard(uint8_t** buffer, size_t* bytes) noexcept;
  void CompleteSlot(uint32_t slot, size_t valid_bytes) noexcept;
  void CompleteDiscard(uint32_t slot, size_t valid_bytes) noexcept;
  void CountDiscarded(const uint8_t* data, size_t valid_bytes) noexcept;
  void AdaptSize(const Slot& slot) noexcept;
  [[nodiscard]] uint32_t TakeList() noexcept;  // oldest first
  void Recycle(uint32_t slot);

  uint8_t* base_ = nullptr;
  uint8_t* discard_base_ = nullptr;  // kDiscardSlots buffers, then the bin
  uint32_t slot_count_ = 0;
  size_t cap_bytes_ = 0;
  std::atomic<const Layouts*> layouts_{nullptr};
  std::atomic<size_t> next_bytes_{kSmallest};
  std::atomic<size_t> held_bytes_{0};
  std::atomic<uint32_t> completed_{kNone};
  Stack free_;
  Stack discard_free_;
  std::atomic<uint64_t> requested_{0}, completed_count_{0}, foreign_{0}, refused_{0}, uncounted_{0};
  std::atomic<uint64_t> dropped_[kActivityCount] = {};
  Slot slots_[kSlots];
  Slot discards_[kDiscardSlots];
};

}  // namespace stepagent::cupti
