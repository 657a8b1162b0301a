// HOT PATH B: Request and Complete run under CUPTI's locks on anybody's thread. No lock,
// allocation, system call, log or CUPTI call in them.
#include "agent/cupti/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "agent/core/clock.h"

namespace stepagent::cupti {
namespace {

// A buffer that fills faster than this is too small (twice the size halves the callbacks); one that
// takes four times as long holds a slow program's data back (a plain flush returns no buffer with
// an unfinished record in it).
constexpr uint64_t kQuickFillNs = 50'000'000;
constexpr uint64_t kSlowFillNs = 200'000'000;
// Full: no further record fits. Longer than any record known.
constexpr size_t kFullMargin = 512;

uint8_t* MapBytes(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  (void)madvise(memory, bytes, MADV_DONTDUMP);
  return static_cast<uint8_t*>(memory);
}

uint32_t ActivityOf(uint32_t kind) {
  for (const KindSpec& spec : kKinds) {
    if (spec.kind == kind) return spec.activity;
  }
  return kind == kKindKernel ? kActivityKernel : kActivityNone;
}

}  // namespace

void BufferPool::Stack::Push(Slot* slots, uint32_t slot) noexcept {
  uint64_t head = head_.load(std::memory_order_relaxed);
  uint64_t next;
  do {
    slots[slot].next.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    next = (((head >> 32) + 1) << 32) | slot;
    // release pairs with the acquire in Pop: the taker sees what we left in the slot.
  } while (!head_.compare_exchange_weak(head, next, std::memory_order_release,
                                        std::memory_order_relaxed));
}

uint32_t BufferPool::Stack::Pop(Slot* slots) noexcept {
  uint64_t head = head_.load(std::memory_order_acquire);
  for (;;) {
    const auto slot = static_cast<uint32_t>(head);
    if (slot == kNone) return kNone;
    const uint32_t below = slots[slot].next.load(std::memory_order_relaxed);
    const uint64_t next = (((head >> 32) + 1) << 32) | below;
    if (head_.compare_exchange_weak(head, next, std::memory_order_acquire,
                                    std::memory_order_acquire)) {
      return slot;
    }
  }
}

bool BufferPool::Map(size_t cap_bytes) {
  cap_bytes_ = cap_bytes;
  if (base_ != nullptr) return true;
  // Under a limit on address space (ulimit -v, strict overcommit) fewer slots must do.
  for (slot_count_ = kSlots; slot_count_ >= 8 && base_ == nullptr; slot_count_ /= 2) {
    base_ = MapBytes(slot_count_ * kLargest);
    if (base_ != nullptr) break;
  }
  if (discard_base_ == nullptr) discard_base_ = MapBytes((kDiscardSlots + 1) * kDiscardBytes);
  if (base_ == nullptr || discard_base_ == nullptr) return false;
  for (uint32_t slot = slot_count_; slot-- > 0;) free_.Push(slots_, slot);
  for (uint32_t slot = kDiscardSlots; slot-- > 0;) discard_free_.Push(discards_, slot);
  return true;
}

void BufferPool::Begin(const Layouts* layouts) {
  layouts_.store(layouts, std::memory_order_release);  // pairs with CountDiscarded
  next_bytes_.store(kSmallest, std::memory_order_relaxed);
}

bool BufferPool::ReserveBytes(Slot* slot, size_t want, size_t* granted) noexcept {
  for (size_t bytes = want; bytes >= kSmallest; bytes /= 2) {
    if (bytes <= slot->touched_bytes) {
      *granted = bytes;
      return true;
    }
    const size_t more = bytes - slot->touched_bytes;
    if (held_bytes_.fetch_add(more, std::memory_order_relaxed) + more <= cap_bytes_) {
      slot->touched_bytes = bytes;
      *granted = bytes;
      return true;
    }
    held_bytes_.fetch_sub(more, std::memory_order_relaxed);
  }
  return false;
}

void BufferPool::Request(uint8_t** buffer, size_t* bytes) noexcept {
  requested_.fetch_add(1, std::memory_order_relaxed);
  const uint32_t number = free_.Pop(slots_);
  if (number == kNone) return RequestDiscard(buffer, bytes);
  Slot& slot = slots_[number];
  if (!ReserveBytes(&slot, next_bytes_.load(std::memory_order_relaxed), &slot.handed_bytes)) {
    free_.Push(slots_, number);
    return RequestDiscard(buffer, bytes);
  }
  slot.since_ns = core::HostClock::MonotonicNs();
  slot.state.store(kOut, std::memory_order_relaxed);
  *buffer = Address(number);
  *bytes = slot.handed_bytes;
}

void BufferPool::RequestDiscard(uint8_t** buffer, size_t* bytes) noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  const uint32_t number = discard_free_.Pop(discards_);
  // The last place is the bin: several threads may write there at once, nobody reads it.
  *buffer = DiscardAddress(number == kNone ? kDiscardSlots : number);
  *bytes = kDiscardBytes;
  if (number != kNone) discards_[number].state.store(kOut, std::memory_order_relaxed);
}

void BufferPool::Complete(uint8_t* buffer, size_t valid_bytes) noexcept {
  const size_t offset = static_cast<size_t>(buffer - base_);
  const size_t discard_offset = static_cast<size_t>(buffer - discard_base_);
  if (buffer >= base_ && offset < slot_count_ * kLargest && offset % kLargest == 0) {
    CompleteSlot(static_cast<uint32_t>(offset / kLargest), valid_bytes);
  } else if (buffer >= discard_base_ && discard_offset < (kDiscardSlots + 1) * kDiscardBytes &&
             discard_offset % kDiscardBytes == 0) {
    CompleteDiscard(static_cast<uint32_t>(discard_offset / kDiscardBytes), valid_bytes);
  } else {
    foreign_.fetch_add(1, std::memory_order_relaxed);
  }
}

void BufferPool::CompleteSlot(uint32_t number, size_t valid_bytes) noexcept {
  Slot& slot = slots_[number];
  uint32_t out = kOut;
  if (!slot.state.compare_exchange_strong(out, kDone, std::memory_order_relaxed)) {
    foreign_.fetch_add(1, std::memory_order_relaxed);  // not out: completed twice
    return;
  }
  completed_count_.fetch_add(1, std::memory_order_relaxed);
  slot.valid_bytes = std::min(valid_bytes, slot.handed_bytes);
  AdaptSize(slot);
  uint32_t head = completed_.load(std::memory_order_relaxed);
  do {
    slot.next.store(head, std::memory_order_relaxed);
    // release pairs with the acquire in TakeList: the drainer sees the records.
  } while (!completed_.compare_exchange_weak(head, number, std::memory_order_release,
                                             std::memory_order_relaxed));
}

void BufferPool::AdaptSize(const Slot& slot) noexcept {
  if (slot.valid_bytes + kFullMargin < slot.handed_bytes) return;  // flushed, not filled
  const uint64_t took_ns = core::HostClock::MonotonicNs() - slot.since_ns;
  size_t bytes = slot.handed_bytes;
  if (took_ns < kQuickFillNs) {
    bytes = std::min(bytes * 2, kLargest);
  } else if (took_ns > kSlowFillNs) {
    bytes = std::max(bytes / 2, kSmallest);
  } else {
    return;
  }
  next_bytes_.store(bytes, std::memory_order_relaxed);
}

void BufferPool::CompleteDiscard(uint32_t number, size_t valid_bytes) noexcept {
  if (number == kDiscardSlots) {
    uncounted_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Slot& slot = discards_[number];
  uint32_t out = kOut;
  if (!slot.state.compare_exchange_strong(out, kFree, std::memory_order_relaxed)) {
    foreign_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  CountDiscarded(DiscardAddress(number), std::min(valid_bytes, kDiscardBytes));
  discard_free_.Push(discards_, number);
}

// Counting is bounded (8 KiB hold some hundred records at most) and needs no CUPTI call, which is
// forbidden here: the calibrated lengths tell where the next record is.
void BufferPool::CountDiscarded(const uint8_t* data, size_t valid_bytes) noexcept {
  const Layouts* layouts = layouts_.load(std::memory_order_acquire);
  size_t offset = 0;
  while (layouts != nullptr && offset + sizeof(uint32_t) <= valid_bytes) {
    uint32_t kind;
    std::memcpy(&kind, data + offset, sizeof(kind));
    const uint32_t bytes = layouts->bytes(kind);
    if (bytes == 0) break;
    dropped_[ActivityOf(kind)].fetch_add(1, std::memory_order_relaxed);
    offset += bytes;
  }
  if (offset + sizeof(uint32_t) <= valid_bytes) uncounted_.fetch_add(1, std::memory_order_relaxed);
}

uint32_t BufferPool::TakeList() noexcept {
  uint32_t slot = completed_.exchange(kNone, std::memory_order_acquire);  // pairs with CompleteSlot
  uint32_t oldest = kNone;
  while (slot != kNone) {
    const uint32_t next = slots_[slot].next.load(std::memory_order_relaxed);
    slots_[slot].next.store(oldest, std::memory_order_relaxed);
    oldest = slot;
    slot = next;
  }
  return oldest;
}

void BufferPool::Recycle(uint32_t number) {
  Slot& slot = slots_[number];
  // Over half the cap the memory goes back at once, so that other slots can have it.
  if (held_bytes_.load(std::memory_order_relaxed) > cap_bytes_ / 2) {
    (void)madvise(Address(number), slot.touched_bytes, MADV_DONTNEED);
    held_bytes_.fetch_sub(slot.touched_bytes, std::memory_order_relaxed);
    slot.touched_bytes = 0;
  }
  slot.state.store(kFree, std::memory_order_relaxed);
  free_.Push(slots_, number);
}

void BufferPool::Trim() {
  // Slots are taken out one by one, so that a request meanwhile finds the rest.
  uint32_t kept = kNone;
  for (uint32_t i = 0; i < slot_count_; ++i) {
    const uint32_t number = free_.Pop(slots_);
    if (number == kNone) break;
    Slot& slot = slots_[number];
    if (slot.touched_bytes != 0) {
      (void)madvise(Address(number), slot.touched_bytes, MADV_DONTNEED);
      held_bytes_.fetch_sub(slot.touched_bytes, std::memory_order_relaxed);
      slot.touched_bytes = 0;
    }
    slot.next.store(kept, std::memory_order_relaxed);
    kept = number;
  }
  while (kept != kNone) {
    const uint32_t next = slots_[kept].next.load(std::memory_order_relaxed);
    free_.Push(slots_, kept);
    kept = next;
  }
}

PoolCounts BufferPool::counts() const {
  PoolCounts counts;
  counts.requested = requested_.load(std::memory_order_relaxed);
  counts.completed = completed_count_.load(std::memory_order_relaxed);
  counts.foreign = foreign_.load(std::memory_order_relaxed);
  counts.refused = refused_.load(std::memory_order_relaxed);
  counts.uncounted = uncounted_.load(std::memory_order_relaxed);
  counts.bytes = held_bytes_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < slot_count_; ++i) {
    if (slots_[i].state.load(std::memory_order_relaxed) == kOut) ++counts.outstanding;
  }
  for (uint32_t i = 0; i < kActivityCount; ++i) {
    counts.dropped[i] = dropped_[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace stepagent::cupti
