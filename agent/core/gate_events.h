#pragma once
// GateEvents: what the step gate leaves for the drainer.
//
// Purpose: a ring of events in order. A cycle's own events always fit: a step's begin is refused
// when less than a reserve is left, and its end has its place kept from then on.
// Thread rule: Push* under the gate's lock, Pop on the thread `stepagent`.
// Failure rule: a refused step (begin and end) is counted; a cycle that finds no room for its own
// events must not begin (HasRoomForCycle).
#include <atomic>
#include <cstdint>

#include "agent/core/step_gate.h"

namespace stepagent::core {

class GateEvents {
 public:
  // 320 KiB, touched as it fills. A drain that comes every millisecond keeps up with steps of 1 us;
  // beyond that steps are counted as dropped, which half the size would do at 2 us.
  static constexpr uint32_t kSlots = 8192;
  // Warmup, active begin and end of the cycles that may begin between two looks at the room left.
  static constexpr uint32_t kReserve = 64;

  void Reset() noexcept {
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    dropped_.store(0, std::memory_order_relaxed);
  }
  [[nodiscard]] bool HasRoomForCycle() const noexcept { return Room() > kReserve; }
  [[nodiscard]] bool HasRoomForStep() const noexcept { return Room() > kReserve + 2; }

  void Push(const GateEvent& event) noexcept {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (Room() == 0) {
      CountDropped();
      return;
    }
    events_[head % kSlots] = event;
    head_.store(head + 1, std::memory_order_release);  // pairs with Pop
  }
  void CountDropped() noexcept {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool Pop(GateEvent* out) noexcept {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return false;
    *out = events_[tail % kSlots];
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  [[nodiscard]] uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] uint64_t Room() const noexcept {
    return kSlots - (head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire));
  }

  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> dropped_{0};
  GateEvent events_[kSlots] = {};
};

}  // namespace stepagent::core
