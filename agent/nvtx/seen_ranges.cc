#include "agent/nvtx/seen_ranges.h"

#include <algorithm>
#include <atomic>

#include "agent/core/phase_words.h"
#include "agent/nvtx/storage.h"

namespace stepagent::nvtx {
namespace {

constexpr uint32_t kMaxProbes = 64;
constexpr uint64_t kUsed = uint64_t{1} << 63;  // so that no key is 0

alignas(64) constinit std::atomic<uint64_t> total{0};

uint64_t KeyOf(core::NameId domain, core::NameId name) {
  return kUsed | uint64_t{domain} << 32 | name;
}
uint32_t PlaceOf(uint64_t key) {
  return static_cast<uint32_t>(key * 0x9E3779B97F4A7C15U >> 48) % kSeenSlots;
}

}  // namespace

void CountSeen(core::NameId domain, core::NameId name) noexcept {
  const uint64_t counted = total.fetch_add(1, std::memory_order_relaxed) + 1;
  if (counted % kCountedBegins == 0) {
    core::g_words->bits.fetch_and(~uint32_t{core::kBitCountNames}, std::memory_order_relaxed);
  }
  const uint64_t key = KeyOf(domain, name);
  uint32_t place = PlaceOf(key);
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe, place = (place + 1) % kSeenSlots) {
    SeenSlot& slot = g_storage.seen[place];
    uint64_t seen = slot.key.load(std::memory_order_relaxed);
    if (seen == 0 && slot.key.compare_exchange_strong(seen, key, std::memory_order_relaxed)) {
      seen = key;
    }
    if (seen == key) {
      slot.count.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
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
                          static_cast<core::NameId>((key & ~kUsed) >> 32),
                          g_storage.seen[i].count.load(std::memory_order_relaxed)};
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
