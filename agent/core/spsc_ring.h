#pragma once
// HOT PATH A. SpscRing: a thread's records on their way to the drainer.
//
// Purpose: single producer, single consumer, a power of two of fixed-size items.
// Thread rule: Push by the owning thread only, Peek/Consume by the drainer only.
// Failure rule, policy when full: the newest record is dropped and counted; Push never blocks,
// allocates or calls the system. The producer may go on in larger memory once (Grow).
//
// Invariants: 1. head_ is written by the producer only, tail_ by the consumer only, each on its own
// line. 2. The producer looks at tail_ only when its cached copy says full: a consumer that touches
// the producer's line makes each record about 4 times dearer (reference measurement), so the drain
// polls about every millisecond and reads in blocks.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stepagent::core {

template <typename T>
class SpscRing {
 public:
  // `slots` items, a power of two, in memory that outlives the ring.
  void Init(T* memory, uint32_t slots) noexcept {
    items_ = first_items_ = memory;
    mask_ = first_mask_ = slots - 1;
  }

  // Back to empty and without memory. Neither side may be using the ring.
  void Reset() noexcept {
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    dropped_.store(0, std::memory_order_relaxed);
    cached_tail_ = 0;
    items_ = first_items_ = grown_items_ = nullptr;
    mask_ = first_mask_ = grown_mask_ = 0;
    grown_from_.store(UINT64_MAX, std::memory_order_relaxed);
  }

  // Producer. The slot to fill, or nullptr when full. Publish() makes it visible.
  [[nodiscard]] T* TryReserve() noexcept {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - cached_tail_ > mask_) [[unlikely]] {
      cached_tail_ = tail_.load(std::memory_order_acquire);  // pairs with the release in Consume
      if (head - cached_tail_ > mask_) return nullptr;
    }
    return &items_[head & mask_];
  }
  void CountDropped() noexcept {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // The same, and full is counted.
  [[nodiscard]] T* Reserve() noexcept {
    T* slot = TryReserve();
    if (slot == nullptr) [[unlikely]]
      CountDropped();
    return slot;
  }
  void Publish() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Producer, once: from here on items go into `memory` of more slots, a power of two. What waits
  // in the first memory stays there until it is consumed.
  void Grow(T* memory, uint32_t slots) noexcept {
    grown_items_ = items_ = memory;
    grown_mask_ = mask_ = slots - 1;
    // Pairs with the acquire in Peek.
    grown_from_.store(head_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  [[nodiscard]] bool has_grown() const noexcept {
    return grown_from_.load(std::memory_order_relaxed) != UINT64_MAX;
  }

  // Consumer: a contiguous run of ready items; consume them with Consume(count).
  struct Span {
    const T* items;
    uint32_t count;
  };
  [[nodiscard]] Span Peek() const noexcept {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const uint64_t head = head_.load(std::memory_order_acquire);              // pairs with Publish
    const uint64_t grown_from = grown_from_.load(std::memory_order_acquire);  // pairs with Grow
    const bool is_grown = tail >= grown_from;
    T* const items = is_grown ? grown_items_ : first_items_;
    const uint64_t mask = is_grown ? grown_mask_ : first_mask_;
    const uint64_t end = is_grown || head < grown_from ? head : grown_from;
    const uint64_t ready = end - tail;
    const uint64_t to_edge = mask + 1 - (tail & mask);
    return {&items[tail & mask], static_cast<uint32_t>(ready < to_edge ? ready : to_edge)};
  }
  void Consume(uint32_t count) noexcept {
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

  // Any thread. produced() counts dropped ones too.
  [[nodiscard]] uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t produced() const noexcept {
    return head_.load(std::memory_order_relaxed) + dropped();
  }
  // What waits for the consumer; exact on the producer's thread while the consumer rests.
  [[nodiscard]] uint64_t waiting() const noexcept {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    return head_.load(std::memory_order_relaxed) - tail;
  }
  [[nodiscard]] uint32_t slots() const noexcept { return static_cast<uint32_t>(mask_ + 1); }

 private:
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t cached_tail_ = 0;
  std::atomic<uint64_t> dropped_{0};  // written by the producer only
  T* items_ = nullptr;                // where the producer writes
  uint64_t mask_ = 0;
  alignas(64) std::atomic<uint64_t> tail_{0};
  // What the consumer reads from, by the item's number.
  std::atomic<uint64_t> grown_from_{UINT64_MAX};
  T *first_items_ = nullptr, *grown_items_ = nullptr;
  uint64_t first_mask_ = 0, grown_mask_ = 0;
};

}  // namespace stepagent::core
