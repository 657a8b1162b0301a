#pragma once
// The bare ring: what one record costs when nothing but the record is made.
//
// Purpose: the common baseline of every recording row. One call, one TLS access, one time stamp,
// one 48-byte store into a ring that fits the second-level cache; a ratio to it means the same on
// any machine. Thread rule: a ring per thread, drained by its own thread between bursts. Failure
// rule: a full ring drops and counts.
#include <atomic>
#include <cstdint>
#include <memory>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <ctime>
#endif

namespace stepagent::bench {

struct BareRecord {
  uint64_t ticks;
  uint32_t correlation, stream, name;
  uint8_t device, kind;
  uint16_t pad;
  uint32_t grid[3], block[3];
};
static_assert(sizeof(BareRecord) == 48);

struct BareRing {
  static constexpr uint64_t kSlots = 16384;  // 768 KiB
  alignas(64) std::atomic<uint64_t> head{0};
  uint64_t cached_tail = 0, dropped = 0;
  alignas(64) std::atomic<uint64_t> tail{0};
  std::unique_ptr<BareRecord[]> items = std::make_unique<BareRecord[]>(kSlots);

  void Empty() { tail.store(head.load(std::memory_order_relaxed), std::memory_order_release); }
};

inline uint64_t BareTicks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000U + static_cast<uint64_t>(t.tv_nsec);
#endif
}

// The ring of this thread, as a hook would find it.
extern thread_local BareRing* t_bare_ring;
BareRing* MakeBareRing();
// Not inlined: a hook is always a call.
void BarePush(uint32_t number);

}  // namespace stepagent::bench
