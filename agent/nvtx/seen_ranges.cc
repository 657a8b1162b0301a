#include "agent/nvtx/seen_ranges.h"

#include <algorithm>
#include <atomic>

#include "agent/nvtx/storage.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {
namespace {

constexpr uint32_t kMaxProbes = 64;
constexpr uint64_t kUsed = uint64_t{1} << 63;  // so that no key is 0
constexpr uint64_t kRegistered = uint64_t{1} << 62;

constexpr uint32_t kCountedSingly = 1024;

alignas(64) constinit std::atomic<uint64_t> total{0};

uint32_t DistanceOf(uint32_t state) { return 32 + (state >> 16 & 63); }

uint64_t KeyOf(core::NameId domain, core::NameId name, bool is_registered) {
  return kUsed | (is_registered ? kRegistered : 0) | uint64_t{domain} << 32 | name;
}
uint32_t PlaceOf(uint64_t key) {
  return static_cast<uint32_t>(key * 0x9E3779B97F4A7C15U >> 48) % kSeenSlots;
}

}  // namespace

void CountSeen(core::NameId domain, core::NameId name, bool is_registered,
               uint32_t weight) noexcept {
  total.fetch_add(weight, std::memory_order_relaxed);
  const uint64_t key = KeyOf(domain, name, is_registered);
  uint32_t place = PlaceOf(key);
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe, place = (place + 1) % kSeenSlots) {
    SeenSlot& slot = g_storage.seen[place];
    uint64_t seen = slot.key.load(std::memory_order_relaxed);
    if (seen == 0 && slot.key.compare_exchange_strong(seen, key, std::memory_order_relaxed)) {
      seen = key;
    }
    if (seen == key) {
      slot.count.fetch_add(weight, std::memory_order_relaxed);
      return;
    }
  }
}

uint32_t NextSeenWeight(ThreadBlock* block) noexcept {
  uint32_t& state = block->count_state;
  if (state < kCountedSingly) {
    ++state;
    return 1;
  }
  // From here on `state` is a random number, never below kCountedSingly, that says the distance.
  const uint32_t weight = state == kCountedSingly ? 1 : DistanceOf(state);
  state = (state * 1664525U + 1013904223U) | (kCountedSingly + 1);
  block->count_left = DistanceOf(state) - 1;
  return weight;
}

uint64_t SeenTotal() noexcept { return total.load(std::memory_order_relaxed); }

uint32_t TopSeen(SeenRange* out, uint32_t room) noexcept {
  if (g_storage.seen == nullptr) return 0;
  uint32_t used = 0;
  const auto more = [](const SeenRange& a, const SeenRange& b) { return a.count > b.count; };
  for (uint32_t i = 0; i < kSeenSlots; ++i) {
    const uint64_t key = g_storage.seen[i].key.load(std::memory_order_relaxed);
    if (key == 0) continue;
    const SeenRange range{static_cast<core::NameId>(key),
                          static_cast<core::NameId>((key & ~(kUsed | kRegistered)) >> 32),
                          g_storage.seen[i].count.load(std::memory_order_relaxed),
                          (key & kRegistered) != 0};
    if (used == room && (room == 0 || !more(range, out[room - 1]))) continue;
    if (used < room) ++used;
    SeenRange* at = std::upper_bound(out, out + used - 1, range, more);
    std::move_backward(at, out + used - 1, out + used);
    *at = range;
  }
  return used;
}

void ForgetSeen() noexcept {
  total.store(0, std::memory_order_relaxed);
  WipeSeen();
}

}  // namespace stepagent::nvtx
