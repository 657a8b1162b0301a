#pragma once
// HOT PATH A. StackTable: lists of return addresses to small ids, by content.
//
// Purpose: a record carries a stack's id; the addresses are kept once. Launches of one loop come
// from few places, so a table of a fixed size holds a long run.
// Thread rule: Map once, before the first Intern; Intern and Get from any thread, lock-free (one
// hash, a probe, rarely a CAS), also from a signal handler that interrupted Intern.
// Failure rule: a full table gives kOverflow; the count of refusals is kept. Nothing is ever freed.
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace stepagent::unwind {

class StackTable {
 public:
  // Deeper stacks lose their outermost frames and say so. Python programs are 60 to 150 deep, C++
  // loops 10 to 40: what launched is near the leaf. Twice as deep costs twice the walk.
  static constexpr uint32_t kMaxFrames = 64;

  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kOverflow = 1;  // the table is full
  static constexpr uint32_t kNotTaken = 2;  // could not be walked: re-entered, or nothing came back

  // Address space, touched as it is used: 40,000 stacks of 25 frames, 8 MiB and 1 MiB.
  static constexpr uint32_t kWords = 1U << 20;
  static constexpr uint32_t kSlots = 1U << 17;

  constexpr StackTable() = default;
  StackTable(const StackTable&) = delete;
  StackTable& operator=(const StackTable&) = delete;

  // False without memory: every Intern gives kOverflow. `slots` is a power of two.
  [[nodiscard]] bool Map(uint32_t words = kWords, uint32_t slots = kSlots) noexcept;
  [[nodiscard]] bool is_mapped() const noexcept {
    return words_.load(std::memory_order_acquire) != nullptr;  // pairs with Map
  }

  // `count` is at most kMaxFrames; kNotTaken when it is 0.
  [[nodiscard]] uint32_t Intern(const uintptr_t* frames, uint32_t count, bool truncated) noexcept;
  // A library was unloaded: the same addresses may mean something else from here on, and stacks get
  // new ids.
  void NewEpoch() noexcept { epoch_.fetch_add(1, std::memory_order_relaxed); }

  struct View {
    const uintptr_t* frames = nullptr;  // leaf first
    uint32_t count = 0;                 // 0: not an id of this table
    bool truncated = false;
  };
  // Of an id that a record carried.
  [[nodiscard]] View Get(uint32_t id) const noexcept;
  [[nodiscard]] uint64_t overflowed() const noexcept {
    return overflowed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t bytes() const noexcept;

 private:
  [[nodiscard]] uint32_t Insert(std::atomic<uint64_t>* slot, uint64_t tag, uint64_t header,
                                const uintptr_t* frames, uint32_t* stored) noexcept;
  [[nodiscard]] bool IsAt(uint32_t id, uint64_t header, const uintptr_t* frames) const noexcept;

  // A stack is a header word (epoch, truncated, count) and its addresses; its id is the header's
  // place in words_.
  std::atomic<uintptr_t*> words_{nullptr};
  // Upper half: the upper half of the hash; lower half: the id, 0 free.
  std::atomic<uint64_t>* slots_ = nullptr;
  uint32_t word_count_ = 0, slot_mask_ = 0;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint64_t> overflowed_{0};
};

}  // namespace stepagent::unwind
