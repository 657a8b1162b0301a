#include "tests/bench/support/bare_ring.h"

namespace stepagent::bench {

thread_local BareRing* t_bare_ring = nullptr;

BareRing* MakeBareRing() {
  static thread_local BareRing ring;
  return t_bare_ring = &ring;
}

[[gnu::noinline]] void BarePush(uint32_t number) {
  BareRing& ring = *t_bare_ring;
  const uint64_t head = ring.head.load(std::memory_order_relaxed);
  if (head - ring.cached_tail >= BareRing::kSlots) [[unlikely]] {
    ring.cached_tail = ring.tail.load(std::memory_order_acquire);
    if (head - ring.cached_tail >= BareRing::kSlots) {
      ++ring.dropped;
      return;
    }
  }
  BareRecord& record = ring.items[head & (BareRing::kSlots - 1)];
  record.ticks = BareTicks();
  record.correlation = number;
  record.stream = number & 3;
  record.name = number & 255;
  record.device = 0;
  record.kind = 1;
  record.pad = 0;
  record.grid[0] = number & 1023;
  record.grid[1] = record.grid[2] = 1;
  record.block[0] = 256;
  record.block[1] = record.block[2] = 1;
  ring.head.store(head + 1, std::memory_order_release);
}

}  // namespace stepagent::bench
