#include "agent/core/ring_registry.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "agent/core/phase_words.h"

namespace stepagent::core {
namespace {

constexpr size_t kRingBytes = kRingSlots * sizeof(Record);
constexpr size_t kGrownRingBytes = kGrownRingSlots * sizeof(Record);
static_assert((kRingSlots & (kRingSlots - 1)) == 0);
static_assert((kGrownRingSlots & (kGrownRingSlots - 1)) == 0);
// glibc runs key destructors up to four times; on the third we go, after everyone else's.
constexpr uint8_t kRetireRound = 3;
constexpr uint32_t kNoSlot = UINT32_MAX;

// Zero until used: a process that records nothing never touches this megabyte.
constinit ThreadRing rings[kMaxRings];
constinit Record* memory_of[kMaxRings];
constinit Record* grown_memory_of[kMaxRings];
constinit uint32_t next_free[kMaxRings];

alignas(64) constinit std::atomic<uint32_t> high_water{0};
constinit std::atomic<uint64_t> free_head{0};  // tag << 32 | slot + 1; 0 in the low half: empty
constinit std::atomic<uint32_t> next_index{0};
constinit std::atomic<size_t> ring_bytes{0};
constinit std::atomic<size_t> grown_bytes{0};
constinit std::atomic<size_t> max_grown_bytes{kDefaultGrownBytes};
constinit std::atomic<uint64_t> lost_launch{0}, lost_sync{0}, lost_nvtx{0}, lost_memory{0};
constinit RingRegistry::Totals reclaimed{};  // drainer's

constinit std::atomic<uint32_t> key_state{0};  // 0 none, 1 under way, 2 there, 3 refused
constinit pthread_key_t key{};

// Marks a thread whose key destructors are over: it gets no second ring.
constinit ThreadRing departed{};

void OnThreadExit(void* value) {
  auto* ring = static_cast<ThreadRing*>(value);
  if (++ring->exit_rounds < kRetireRound && pthread_setspecific(key, ring) == 0) return;
  RingRegistry::RetireLocal(ring);
}

bool EnsureKey() {
  uint32_t state = key_state.load(std::memory_order_acquire);
  if (state == 0 && key_state.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) {
    const bool made = pthread_key_create(&key, OnThreadExit) == 0;
    key_state.store(made ? 2 : 3, std::memory_order_release);
    return made;
  }
  // 1, where nobody prepared: another thread is making it right now. This record is counted; the
  // next one finds the key.
  return state == 2;
}

// Treiber stack: app threads pop, the drainer pushes. The tag keeps a slot that came back apart.
uint32_t PopFree() {
  uint64_t head = free_head.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    const uint32_t slot = static_cast<uint32_t>(head) - 1;
    const uint32_t after = __atomic_load_n(&next_free[slot], __ATOMIC_RELAXED);
    const uint64_t next = ((head >> 32) + 1) << 32 | after;
    if (free_head.compare_exchange_weak(head, next, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      return slot;
    }
  }
  return kNoSlot;
}
void PushFree(uint32_t slot) {
  uint64_t head = free_head.load(std::memory_order_relaxed);
  uint64_t next;
  do {
    __atomic_store_n(&next_free[slot], static_cast<uint32_t>(head), __ATOMIC_RELAXED);
    next = ((head >> 32) + 1) << 32 | (slot + 1);
  } while (!free_head.compare_exchange_weak(head, next, std::memory_order_release,
                                            std::memory_order_relaxed));
}

uint32_t TakeSlot() {
  const uint32_t slot = PopFree();
  if (slot != kNoSlot) return slot;
  uint32_t count = high_water.load(std::memory_order_relaxed);
  while (count < kMaxRings) {
    if (high_water.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return count;
  }
  return kNoSlot;
}

// Memory the child of a fork finds empty: it costs the child no copy and shows it nothing.
Record* MapWithin(size_t bytes, std::atomic<size_t>* sum, size_t limit) {
  if (sum->fetch_add(bytes, std::memory_order_relaxed) + bytes > limit) {
    sum->fetch_sub(bytes, std::memory_order_relaxed);
    return nullptr;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    sum->fetch_sub(bytes, std::memory_order_relaxed);
    return nullptr;
  }
  madvise(memory, bytes, MADV_WIPEONFORK);
  return static_cast<Record*>(memory);
}
Record* MapRing() { return MapWithin(kRingBytes, &ring_bytes, kMaxRingBytes); }

void UnmapRing(uint32_t slot) {
  munmap(memory_of[slot], kRingBytes);
  memory_of[slot] = nullptr;
  ring_bytes.fetch_sub(kRingBytes, std::memory_order_relaxed);
  if (grown_memory_of[slot] == nullptr) return;
  munmap(grown_memory_of[slot], kGrownRingBytes);
  grown_memory_of[slot] = nullptr;
  grown_bytes.fetch_sub(kGrownRingBytes, std::memory_order_relaxed);
}

ThreadRing* MakeRing(uint32_t epoch) {
  const uint32_t slot = TakeSlot();
  if (slot == kNoSlot) return nullptr;
  Record* memory = MapRing();
  if (memory == nullptr) {
    PushFree(slot);
    return nullptr;
  }
  ThreadRing* ring = &rings[slot];
  memory_of[slot] = memory;
  ring->ring.Init(memory, kRingSlots);
  ring->index = next_index.fetch_add(1, std::memory_order_relaxed);
  ring->tid = static_cast<uint32_t>(syscall(SYS_gettid));
  prctl(PR_GET_NAME, ring->name);
  ring->announced = false;
  ring->exit_rounds = 0;
  ring->is_growth_refused = false;
  ring->epoch = epoch;
  ring->state.store(1, std::memory_order_release);  // pairs with the acquire in ForEach
  return ring;
}

void AddRing(const ThreadRing& ring, RingRegistry::Totals* to) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  to->produced_launch += ring.produced_launch.load(kRelaxed);
  to->produced_sync += ring.produced_sync.load(kRelaxed);
  to->produced_nvtx += ring.produced_nvtx.load(kRelaxed);
  to->produced_memory += ring.produced_memory.load(kRelaxed);
  to->dropped_launch += ring.dropped_launch.load(kRelaxed);
  to->dropped_sync += ring.dropped_sync.load(kRelaxed);
  to->dropped_nvtx += ring.dropped_nvtx.load(kRelaxed);
  to->dropped_memory += ring.dropped_memory.load(kRelaxed);
}

void ClearRing(ThreadRing* ring) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  ring->ring.Reset();
  for (auto* count :
       {&ring->produced_launch, &ring->produced_sync, &ring->produced_nvtx, &ring->produced_memory,
        &ring->dropped_launch, &ring->dropped_sync, &ring->dropped_nvtx, &ring->dropped_memory}) {
    count->store(0, kRelaxed);
  }
  ring->state.store(0, kRelaxed);
}

}  // namespace

constinit thread_local ThreadRing* RingRegistry::local_ = nullptr;
constinit std::atomic<uint32_t> RingRegistry::epoch_{1};

void RingRegistry::Prepare() noexcept { (void)EnsureKey(); }

ThreadRing* RingRegistry::MakeLocal() noexcept {
  if (local_ == &departed || g_words->alive.load(std::memory_order_acquire) == 0) return nullptr;
  const int saved = errno;  // the application's, not ours to change
  ThreadRing* ring = nullptr;
  if (EnsureKey()) ring = MakeRing(epoch_.load(std::memory_order_relaxed));
  if (ring != nullptr) {
    local_ = ring;
    // Refused (no memory): the ring works and is never retired.
    (void)pthread_setspecific(key, ring);
  }
  errno = saved;
  return ring;
}

void RingRegistry::RetireLocal(ThreadRing* ring) noexcept {
  local_ = &departed;
  // A thread that survived a fork still carries its parent's ring.
  if (ring->epoch != epoch_.load(std::memory_order_relaxed)) return;
  ring->state.store(2, std::memory_order_release);  // after the thread's last record
}

void RingRegistry::Reclaim() noexcept {
  const uint32_t count = Count();
  for (uint32_t slot = 0; slot < count; ++slot) {
    ThreadRing* ring = &rings[slot];
    // Acquire: pairs with RetireLocal, so that an empty Peek means empty for good.
    if (ring->state.load(std::memory_order_acquire) != 2 || ring->ring.Peek().count != 0) continue;
    AddRing(*ring, &reclaimed);
    UnmapRing(slot);
    ClearRing(ring);
    PushFree(slot);
  }
}

RingRegistry::NoRing RingRegistry::no_ring() noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {lost_launch.load(kRelaxed), lost_sync.load(kRelaxed), lost_nvtx.load(kRelaxed),
          lost_memory.load(kRelaxed)};
}

void RingRegistry::CountNoRing(RecordKind kind, CallClass call_class) noexcept {
  auto* count = kind != RecordKind::kCall         ? &lost_nvtx
                : call_class == CallClass::kSync  ? &lost_sync
                : call_class == CallClass::kAlloc ? &lost_memory
                                                  : &lost_launch;
  count->fetch_add(1, std::memory_order_relaxed);
}

Record* RingRegistry::ReserveInFull(ThreadRing* ring) noexcept {
  if (!ring->ring.has_grown() && !ring->is_growth_refused) {
    const int saved = errno;  // the application's, not ours to change
    Record* memory =
        MapWithin(kGrownRingBytes, &grown_bytes, max_grown_bytes.load(std::memory_order_relaxed));
    // Three thousand page faults become six.
    if (memory != nullptr) madvise(memory, kGrownRingBytes, MADV_HUGEPAGE);
    errno = saved;
    if (memory != nullptr) {
      grown_memory_of[ring - rings] = memory;
      ring->ring.Grow(memory, kGrownRingSlots);
      return ring->ring.TryReserve();
    }
    ring->is_growth_refused = true;
  }
  ring->ring.CountDropped();
  return nullptr;
}

void RingRegistry::SetGrownBytes(size_t bytes) noexcept {
  max_grown_bytes.store(bytes, std::memory_order_relaxed);
}

size_t RingRegistry::bytes() noexcept {
  return ring_bytes.load(std::memory_order_relaxed) + grown_bytes.load(std::memory_order_relaxed);
}

RingRegistry::Totals RingRegistry::totals() noexcept {
  Totals sum = reclaimed;
  ForEach([&sum](ThreadRing* ring) { AddRing(*ring, &sum); });
  return sum;
}

void RingRegistry::ForgetAll() noexcept {
  // The parent's ring memory stays mapped: wiped, so it costs address space only, and a signal
  // handler that forked in the middle of an append still finds it. A slot that was live stays out
  // of use: the thread that forked may still point at it.
  if (key_state.load(std::memory_order_relaxed) == 1) key_state.store(0, std::memory_order_relaxed);
  free_head.store(0, std::memory_order_relaxed);
  const uint32_t count = Count();
  for (uint32_t slot = 0; slot < count; ++slot) {
    const bool was_live = rings[slot].state.load(std::memory_order_relaxed) == 1;
    ClearRing(&rings[slot]);
    memory_of[slot] = grown_memory_of[slot] = nullptr;
    if (!was_live) PushFree(slot);
  }
  next_index.store(0, std::memory_order_relaxed);
  ring_bytes.store(0, std::memory_order_relaxed);
  grown_bytes.store(0, std::memory_order_relaxed);
  for (auto* lost : {&lost_launch, &lost_sync, &lost_nvtx, &lost_memory}) {
    lost->store(0, std::memory_order_relaxed);
  }
  reclaimed = {};
  epoch_.fetch_add(1, std::memory_order_relaxed);
}

uint32_t RingRegistry::Count() noexcept { return high_water.load(std::memory_order_acquire); }
ThreadRing* RingRegistry::At(uint32_t index) noexcept { return &rings[index]; }

}  // namespace stepagent::core
