// HOT PATH A (Intern, Count).
#include "agent/core/name_table.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "agent/core/name_hash.h"

namespace stepagent::core {
namespace {

constexpr NameId kNone = kNoName, kOverflow = kOverflowNameId, kFirst = 2;
constexpr size_t kMaxBytes = 4096;         // proto/limits.h kMaxNameBytes
constexpr size_t kMarkBytes = 3 + 1 + 16;  // "…#" in UTF-8 and the hash
// Reserved address space, touched name by name: 64 MiB of text, 16 MiB of slots, 16 of entries, 8
// of counts. Where the system refuses that much (RLIMIT_AS, strict overcommit) an eighth is tried
// twice.
constexpr uint32_t kIds = kMaxNames;
constexpr size_t kTextBytes = size_t{64} << 20;
constexpr int kAttempts = 3;
// A probe longer than this means the table is as good as full (it never holds more than half).
constexpr uint32_t kMaxProbes = 256;

struct Entry {
  std::atomic<const char*> text{nullptr};  // published last
  uint32_t bytes = 0;
};

struct Table {
  char* text = nullptr;
  Entry* entries = nullptr;
  std::atomic<uint64_t>* slots = nullptr;  // hash's upper half << 32 | id; 0 empty
  std::atomic<uint64_t>* counts = nullptr;
  uint32_t ids = 0;
  uint32_t slot_mask = 0;
  size_t text_bytes = 0;
};

// Where a pointer's text was found last. 16 KiB: a program's hot names fit; a miss costs one store.
constexpr uint32_t kHints = 4096;
constinit std::atomic<NameId> hints[kHints];

std::atomic<NameId>& HintOf(const char* text) {
  return hints[reinterpret_cast<uintptr_t>(text) * kHashA >> 52];
}
static_assert(kHints == 1U << (64 - 52));

constinit Table table;
constinit std::atomic<uint32_t> init_state{0};  // 0 not, 1 under way, 2 there, 3 refused
alignas(64) constinit std::atomic<uint32_t> next_id{kFirst};
constinit std::atomic<size_t> next_byte{0};
constinit std::atomic<uint64_t> overflow_count{0};
constinit std::atomic<uint64_t> truncated_count{0};

void* Reserve(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // One name must cost a few 4 KiB pages, not as many huge ones.
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

bool MapScaled(int scale) {
  const uint32_t ids = kIds >> (3 * scale);
  const size_t text_bytes = kTextBytes >> (3 * scale);
  const size_t slots = size_t{2} * ids;
  const size_t total =
      text_bytes + slots * sizeof(uint64_t) + ids * (sizeof(Entry) + sizeof(uint64_t));
  char* memory = static_cast<char*>(Reserve(total));
  if (memory == nullptr) return false;
  table.text = memory;
  table.slots = reinterpret_cast<std::atomic<uint64_t>*>(memory + text_bytes);
  table.counts = table.slots + slots;
  table.entries = reinterpret_cast<Entry*>(table.counts + ids);
  table.ids = ids;
  table.slot_mask = static_cast<uint32_t>(slots - 1);
  table.text_bytes = text_bytes;
  return true;
}

NameId Overflow() {
  overflow_count.fetch_add(1, std::memory_order_relaxed);
  return kOverflow;
}

bool Same(NameId id, const char* text, size_t bytes) {
  const Entry& entry = table.entries[id];
  // Acquire: pairs with the release that published the slot, through the id read from it.
  return entry.bytes == bytes &&
         std::memcmp(entry.text.load(std::memory_order_acquire), text, bytes) == 0;
}

// Takes an id and room for the text; the entry is complete before any slot can name it, so nobody
// ever waits for a half-made one (not even a child forked at this very moment).
NameId MakeEntry(const char* text, size_t bytes) {
  const size_t room = (bytes + 1 + 7) & ~size_t{7};
  if (next_byte.load(std::memory_order_relaxed) + room > table.text_bytes ||
      next_id.load(std::memory_order_relaxed) >= table.ids) {
    return Overflow();
  }
  const size_t at = next_byte.fetch_add(room, std::memory_order_relaxed);
  if (at + room > table.text_bytes) return Overflow();
  const uint32_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  if (id >= table.ids) return Overflow();
  std::memcpy(table.text + at, text, bytes);  // the arena is zero: the text ends in NUL
  table.entries[id].bytes = static_cast<uint32_t>(bytes);
  table.entries[id].text.store(table.text + at, std::memory_order_release);
  return id;
}

NameId InternBytes(const char* text, size_t bytes) {
  if (table.slots == nullptr) return Overflow();
  const uint64_t hash = HashName(text, bytes);
  const uint64_t tag = hash >> 32 << 32;
  uint32_t place = static_cast<uint32_t>(hash) & table.slot_mask;
  NameId made = kNone;
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe, place = (place + 1) & table.slot_mask) {
    uint64_t seen = table.slots[place].load(std::memory_order_acquire);
    if (seen == 0) {
      if (made == kNone) made = MakeEntry(text, bytes);
      if (made == kOverflow) return kOverflow;
      if (table.slots[place].compare_exchange_strong(seen, tag | made, std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
        return made;
      }
    }
    // Lost races leave `made` unused when the winner holds the same text: an id and its text of
    // waste.
    const auto id = static_cast<NameId>(seen);
    if ((seen >> 32 << 32) == tag && Same(id, text, bytes)) return id;
  }
  return Overflow();
}

// Hash of a whole long text, fed in any number of pieces.
struct LongHash {
  uint64_t value = kHashA;
  void Add(const char* text, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      value = (value ^ static_cast<unsigned char>(text[i])) * kHashB;
      value ^= value >> 29;
    }
  }
};

// `head` holds the first kMaxBytes of a longer text; cut at a character and marked with the hash.
NameId InternCut(char* head, uint64_t hash) {
  truncated_count.fetch_add(1, std::memory_order_relaxed);
  size_t keep = kMaxBytes - kMarkBytes;
  while (keep > 0 && (static_cast<unsigned char>(head[keep]) & 0xC0U) == 0x80U) --keep;
  char* at = head + keep;
  std::memcpy(at, "\xE2\x80\xA6#", 4);
  at += 4;
  for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[hash >> shift & 15U];
  return InternBytes(head, static_cast<size_t>(at - head));
}

NameId InternLong(const char* text, size_t bytes) {
  LongHash hash;
  hash.Add(text, bytes);
  char head[kMaxBytes];
  std::memcpy(head, text, kMaxBytes);
  return InternCut(head, hash.value);
}

}  // namespace

size_t EncodeUtf8(uint32_t code, char* out) noexcept {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
  if (code < 0x80) {
    out[0] = static_cast<char>(code);
    return 1;
  }
  const size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = bytes - 1; i > 0; --i, code >>= 6) {
    out[i] = static_cast<char>(0x80U | (code & 0x3FU));
  }
  const uint32_t lead = bytes == 2 ? 0xC0 : bytes == 3 ? 0xE0 : 0xF0;
  out[0] = static_cast<char>(lead | code);
  return bytes;
}

bool NameTable::Init() noexcept {
  uint32_t state = init_state.load(std::memory_order_acquire);
  if (state >= 2) return state == 2;
  if (!init_state.compare_exchange_strong(state, 1, std::memory_order_acq_rel)) {
    // Another thread is at it: a few mmaps. (A child forked meanwhile has no table: it overflows.)
    for (int i = 0; i < 1000000 && init_state.load(std::memory_order_acquire) == 1; ++i) {
    }
    return init_state.load(std::memory_order_acquire) == 2;
  }
  const int saved = errno;
  bool mapped = false;
  for (int scale = 0; scale < kAttempts && !mapped; ++scale) mapped = MapScaled(scale);
  errno = saved;
  init_state.store(mapped ? 2 : 3, std::memory_order_release);
  return mapped;
}

NameId NameTable::Intern(const char* text, size_t bytes) noexcept {
  if (text == nullptr) return kNone;
  if (bytes > kMaxBytes) [[unlikely]]
    return InternLong(text, bytes);
  return InternBytes(text, bytes);
}

NameId NameTable::InternText(const char* text) noexcept {
  if (text == nullptr) return kNone;
  std::atomic<NameId>& hint = HintOf(text);
  const NameId known = hint.load(std::memory_order_relaxed);
  if (known >= kFirst) [[likely]] {
    // Only whole texts without a NUL inside are hinted at, so equal as strings is equal.
    const char* there = table.entries[known].text.load(std::memory_order_acquire);
    if (std::strcmp(there, text) == 0) [[likely]]
      return known;
  }
  const size_t bytes = std::strlen(text);
  const NameId id = Intern(text, bytes);
  if (id >= kFirst && bytes <= kMaxBytes) hint.store(id, std::memory_order_relaxed);
  return id;
}

NameId NameTable::InternWide(const wchar_t* text) noexcept {
  if (text == nullptr) return kNone;
  char head[kMaxBytes + 4];
  size_t bytes = 0;
  LongHash hash;
  bool is_long = false;
  for (; *text != L'\0'; ++text) {
    char encoded[4];
    const size_t count = EncodeUtf8(static_cast<uint32_t>(*text), encoded);
    if (!is_long && bytes + count > kMaxBytes) {
      is_long = true;
      hash.Add(head, bytes);
      std::memcpy(head + bytes, encoded, count);  // so that the cut sees whole characters
    }
    if (is_long) {
      hash.Add(encoded, count);
    } else {
      std::memcpy(head + bytes, encoded, count);
      bytes += count;
    }
  }
  return is_long ? InternCut(head, hash.value) : InternBytes(head, bytes);
}

std::string_view NameTable::Text(NameId id) noexcept {
  if (id < kFirst || id >= table.ids) return {};
  const Entry& entry = table.entries[id];
  const char* text = entry.text.load(std::memory_order_acquire);
  return text == nullptr ? std::string_view() : std::string_view(text, entry.bytes);
}

void NameTable::Count(NameId id) noexcept {
  if (id < table.ids) table.counts[id].fetch_add(1, std::memory_order_relaxed);
}
uint64_t NameTable::CountOf(NameId id) noexcept {
  return id < table.ids ? table.counts[id].load(std::memory_order_relaxed) : 0;
}
uint32_t NameTable::size() noexcept {
  const uint32_t next = next_id.load(std::memory_order_relaxed);
  return next < table.ids ? next : table.ids;
}
uint64_t NameTable::overflowed() noexcept { return overflow_count.load(std::memory_order_relaxed); }
uint64_t NameTable::truncated() noexcept { return truncated_count.load(std::memory_order_relaxed); }

}  // namespace stepagent::core
