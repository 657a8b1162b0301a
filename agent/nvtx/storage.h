#pragma once
// Storage: every table of nvtx/, reserved in one mapping.
//
// Purpose: handlers never allocate: what they need is address space reserved at the first Attach
// and touched page by page.
// Thread rule: Init from any thread, any number of times; the tables by their own rules.
// Failure rule: Init false leaves NVTX without a tool (Attach says 0).
#include <atomic>
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::nvtx {

// 16k threads with an open push at one time; 1 MiB when all are in use.
inline constexpr uint32_t kBlocks = 16384;
// Words per block for start/end ranges: a counter, and the latest 63 that are told apart.
inline constexpr uint32_t kStartWords = 64;
inline constexpr uint32_t kSeenSlots = 1U << 16;
inline constexpr uint32_t kGivenNames = 4096;

struct ThreadBlock;
struct SeenSlot {
  std::atomic<uint64_t> key;  // 0 empty
  std::atomic<uint64_t> count;
};
struct GivenName {
  std::atomic<uint64_t> key;  // 0 empty
  std::atomic<core::NameId> name;
};

struct Storage {
  ThreadBlock* blocks = nullptr;
  std::atomic<uint32_t>* next_block = nullptr;  // free list links, by block
  std::atomic<uint64_t>* starts = nullptr;      // kStartWords per block, see start_ids.h
  std::atomic<uint32_t>* string_memo =
      nullptr;                  // by NameId; a registered string's handle points here
  char* domain_base = nullptr;  // by NameId; a domain's handle points here
  SeenSlot* seen = nullptr;
  GivenName* given = nullptr;
};
extern Storage g_storage [[gnu::visibility("hidden")]];

[[nodiscard]] bool InitStorage() noexcept;
// Wipes what belongs to a session: the counts of seen ranges.
void WipeSeen() noexcept;

// Handles. Never dereferenced by the application; a foreign pointer is recognised by its range.
inline constexpr uintptr_t kDomainStride = 8;
inline void* HandleOfString(core::NameId name) noexcept { return &g_storage.string_memo[name]; }
inline core::NameId StringOfHandle(const void* handle) noexcept {
  const auto offset =
      reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_storage.string_memo);
  const uintptr_t id = offset / sizeof(uint32_t);
  return id < core::kMaxNames ? static_cast<core::NameId>(id) : core::kNoName;
}
inline void* HandleOfDomain(core::NameId name) noexcept {
  return g_storage.domain_base + name * kDomainStride;
}
// nullptr is the default domain (0); what is no handle of ours shares the overflow domain.
inline core::NameId DomainOfHandle(const void* handle) noexcept {
  if (handle == nullptr) return core::kNoName;
  const auto offset =
      reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_storage.domain_base);
  const uintptr_t id = offset / kDomainStride;
  return id != 0 && id < core::kMaxNames ? static_cast<core::NameId>(id) : core::kOverflowNameId;
}

}  // namespace stepagent::nvtx
