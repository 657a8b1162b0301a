#pragma once
// The rings of all threads: made on a thread's first record, retired after its exit.
//
// Purpose: hand a thread its ring without a lock, let the drainer walk them all, bound their number
// and bytes.
// Thread rule: Local() on any application thread; everything else on the thread `stepagent`.
// Failure rule: beyond a cap Local() returns nullptr and the record is counted as dropped_no_ring.
//
// A ring is carved from memory mapped for it on the thread's first record of a warmup or active
// phase, never in wait; a ring that fills up goes on in a larger one, once, while the memory for
// that lasts (two mmaps per thread and session: the only system calls the path may make, outside
// the steady state). The descriptor blocks come from a fixed table, so registration is one
// fetch_add.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "agent/core/record.h"
#include "agent/core/spsc_ring.h"

namespace stepagent::core {

// Why 4096 and 256 MiB: 512 live threads at 384 KiB fit; beyond, records are dropped and counted.
inline constexpr uint32_t kMaxRings = 4096;
inline constexpr uint32_t kRingSlots = 8192;  // 384 KiB: 4 ms at 2 M records/s
inline constexpr size_t kMaxRingBytes = size_t{256} << 20;
// 12 MiB: 130 ms at 2 M records/s, which is what a drain can be kept off a busy processor for; with
// 4 ms a quarter of a per cent was lost at that rate. Only threads that need it get it.
inline constexpr uint32_t kGrownRingSlots = 262144;
// For the larger rings of all threads: 21 of them.
inline constexpr size_t kDefaultGrownBytes = size_t{256} << 20;

struct ThreadRing {
  SpscRing<Record> ring;
  uint32_t index = 0;  // Threads.index on the wire, unique within the session
  uint32_t tid = 0;
  char name[16] = {};              // comm when the ring was made
  std::atomic<uint32_t> state{0};  // 0 free, 1 live, 2 owner exited (drain, then free)
  bool announced = false;          // drainer's: thread row sent at least once
  bool is_growth_refused = false;  // owner's: no memory for a larger ring
  uint8_t exit_rounds = 0;         // owner's: passes of the thread's key destructors
  uint32_t epoch = 0;              // of the session it belongs to; a revived child has another
  // Counts per activity kind of records appended or refused by this ring, written by the owner.
  std::atomic<uint64_t> produced_launch{0}, produced_sync{0}, produced_nvtx{0}, produced_memory{0};
  std::atomic<uint64_t> dropped_launch{0}, dropped_sync{0}, dropped_nvtx{0}, dropped_memory{0};
};

class RingRegistry {
 public:
  // This thread's ring, made if need be; nullptr beyond the caps or while inert. One TLS access
  // (initial-exec, a single pointer: the library may also arrive by dlopen).
  [[nodiscard]] static ThreadRing* Local() noexcept {
    ThreadRing* ring = LocalIfMade();
    return ring != nullptr ? ring : MakeLocal();
  }
  [[nodiscard]] static ThreadRing* LocalIfMade() noexcept {
    ThreadRing* ring = local_;
    const bool is_ours = ring != nullptr && ring->epoch == epoch_.load(std::memory_order_relaxed);
    return is_ours ? ring : nullptr;
  }
  // Makes the threads' key, before anybody records: threads whose first records come at the same
  // moment would else lose one while the first of them makes it.
  static void Prepare() noexcept;
  // Called by the pthread key destructor, in its last pass but one, so that destructors of other
  // keys may still append.
  static void RetireLocal(ThreadRing* ring) noexcept;

  // A slot for a ring that is full: in larger memory if there is some, else nullptr (counted).
  [[nodiscard]] static Record* ReserveInFull(ThreadRing* ring) noexcept;
  // The most that larger rings may take together; 0: none grows.
  static void SetGrownBytes(size_t bytes) noexcept;

  // Drainer: visits each ring that is live or retiring.
  template <typename F>
  static void ForEach(F&& visit) {
    const uint32_t count = Count();
    for (uint32_t i = 0; i < count; ++i) {
      ThreadRing* ring = At(i);
      if (ring != nullptr && ring->state.load(std::memory_order_acquire) != 0) visit(ring);
    }
  }
  // Drainer: frees the memory of retired, empty rings.
  static void Reclaim() noexcept;
  // Records that found no ring, per activity kind (launch, sync, nvtx, memory).
  struct NoRing {
    uint64_t launch, sync, nvtx, memory;
  };
  [[nodiscard]] static NoRing no_ring() noexcept;
  static void CountNoRing(RecordKind kind, CallClass call_class) noexcept;
  [[nodiscard]] static size_t bytes() noexcept;
  // Totals carried over from rings already reclaimed, so that session totals never go back. Records
  // that found no ring are in no_ring() only.
  struct Totals {
    uint64_t produced_launch, produced_sync, produced_nvtx, produced_memory;
    uint64_t dropped_launch, dropped_sync, dropped_nvtx, dropped_memory;
  };
  [[nodiscard]] static Totals totals() noexcept;  // live + reclaimed
  // In a forked child before it revives, while the phase words are still inert: forget everything
  // of the parent.
  static void ForgetAll() noexcept;

 private:
  [[nodiscard]] static ThreadRing* MakeLocal() noexcept;
  [[nodiscard]] static uint32_t Count() noexcept;
  [[nodiscard]] static ThreadRing* At(uint32_t index) noexcept;

  static constinit thread_local ThreadRing* local_ [[gnu::visibility("hidden")]];
  static std::atomic<uint32_t> epoch_ [[gnu::visibility("hidden")]];
};

[[gnu::always_inline]] inline void CountProduced(ThreadRing* ring, RecordKind kind,
                                                 CallClass call_class) noexcept {
  const bool is_call = kind == RecordKind::kCall;
  auto* produced = !is_call                          ? &ring->produced_nvtx
                   : call_class == CallClass::kSync  ? &ring->produced_sync
                   : call_class == CallClass::kAlloc ? &ring->produced_memory
                                                     : &ring->produced_launch;
  produced->store(produced->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// The usual case of Append: the thread has a ring, and room in it. There is no call in it, so a
// function that ends in a tail call where it cannot saves no register: a tenth of an NVTX pair.
// False: nothing was done or counted.
template <typename Fill>
[[nodiscard, gnu::always_inline]] inline bool TryAppend(RecordKind kind, CallClass call_class,
                                                        Fill&& fill) noexcept {
  ThreadRing* ring = RingRegistry::LocalIfMade();
  if (ring == nullptr) [[unlikely]]
    return false;
  Record* slot = ring->ring.TryReserve();
  if (slot == nullptr) [[unlikely]]
    return false;
  CountProduced(ring, kind, call_class);
  slot->kind = kind;
  slot->call_class = call_class;
  fill(slot);
  ring->ring.Publish();
  return true;
}

// The one append used by hot path A: fills `record` by `fill(Record*)`, counts, drops when full.
// Inlined always: as a call, `fill` would go through memory, a third of the path's instructions.
template <typename Fill>
[[gnu::always_inline]] inline void Append(RecordKind kind, CallClass call_class,
                                          Fill&& fill) noexcept {
  ThreadRing* ring = RingRegistry::Local();
  if (ring == nullptr) [[unlikely]] {
    RingRegistry::CountNoRing(kind, call_class);
    return;
  }
  CountProduced(ring, kind, call_class);
  Record* slot = ring->ring.TryReserve();
  if (slot == nullptr) [[unlikely]]
    slot = RingRegistry::ReserveInFull(ring);
  if (slot == nullptr) [[unlikely]] {
    const bool is_call = kind == RecordKind::kCall;
    auto* dropped = !is_call                          ? &ring->dropped_nvtx
                    : call_class == CallClass::kSync  ? &ring->dropped_sync
                    : call_class == CallClass::kAlloc ? &ring->dropped_memory
                                                      : &ring->dropped_launch;
    dropped->store(dropped->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  slot->kind = kind;
  slot->call_class = call_class;
  fill(slot);
  ring->ring.Publish();
}

}  // namespace stepagent::core
