#include "agent/nvtx/given_names.h"

#include <atomic>

#include "agent/nvtx/nvtx_entry.h"
#include "agent/nvtx/storage.h"

namespace stepagent::nvtx {
namespace {

constexpr uint32_t kMaxProbes = 64;
// A domain's NameId has 20 bits, so the two kinds of key stay apart, and none is 0.
constexpr uint64_t kThreadKey = uint64_t{1} << 63;
constexpr uint64_t kCategoryKey = uint64_t{1} << 62;

uint32_t PlaceOf(uint64_t key) {
  return static_cast<uint32_t>(key * 0x9E3779B97F4A7C15U >> 40) % kGivenNames;
}

GivenName* Find(uint64_t key, bool make) {
  if (g_storage.given == nullptr) return nullptr;
  uint32_t place = PlaceOf(key);
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe, place = (place + 1) % kGivenNames) {
    GivenName* at = &g_storage.given[place];
    uint64_t seen = at->key.load(std::memory_order_acquire);
    if (seen == key) return at;
    if (seen != 0) continue;
    if (!make) return nullptr;
    if (at->key.compare_exchange_strong(seen, key, std::memory_order_acq_rel) || seen == key) {
      return at;
    }
  }
  return nullptr;
}

void Give(uint64_t key, core::NameId name) {
  GivenName* at = Find(key, /*make=*/true);
  if (at != nullptr) at->name.store(name, std::memory_order_release);
}
core::NameId Get(uint64_t key) {
  const GivenName* at = Find(key, /*make=*/false);
  return at == nullptr ? core::kNoName : at->name.load(std::memory_order_acquire);
}
uint64_t CategoryKey(core::NameId domain, uint32_t category) {
  return kCategoryKey | uint64_t{domain} << 32 | category;
}

}  // namespace

void GiveThreadName(uint32_t tid, core::NameId name) noexcept { Give(kThreadKey | tid, name); }
void GiveCategoryName(core::NameId domain, uint32_t category, core::NameId name) noexcept {
  Give(CategoryKey(domain, category), name);
}
core::NameId ThreadName(uint32_t tid) noexcept { return Get(kThreadKey | tid); }
core::NameId CategoryName(core::NameId domain, uint32_t category) noexcept {
  return Get(CategoryKey(domain, category));
}

}  // namespace stepagent::nvtx
