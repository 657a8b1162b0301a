#pragma once
// NameCache: kernel names to NameIds without hashing each one.
//
// Purpose: CUPTI shares one name string among all records of a kernel; interning it anew for each
// record (strlen and hash of some hundred bytes) would cost more than the rest of the decoding.
// Thread rule: the thread that decodes. Failure rule: a miss only costs time.
// The pointer is a hint, never the key: a rival's cuptiFinalize frees names and the address may
// come back with another text, so the first hit in each buffer is compared with the interned text.
#include <cstddef>
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::cupti {

class NameCache {
 public:
  void Clear();
  // A new buffer: what pointers mean is checked once more.
  void BeginBuffer() { ++buffer_; }
  // `name` is a C string that lives during the call. Never null.
  [[nodiscard]] core::NameId Intern(const char* name) {
    const Entry& entry = entries_[Slot(name)];
    if (entry.name == name && entry.checked_in == buffer_) [[likely]]
      return entry.id;
    return Compare(name);
  }

 private:
  // Direct mapped. 2048 entries hold the kernels of a large model (a few hundred) with few clashes.
  static constexpr size_t kEntries = 2048;
  // A name beyond this is looked at this far only (NameTable cuts at 4 KiB and hashes the rest).
  static constexpr size_t kLongestName = size_t{1} << 20;

  struct Entry {
    const char* name = nullptr;
    core::NameId id = 0;
    uint32_t checked_in = 0;  // the buffer in which the text was last compared
  };
  static size_t Slot(const char* name) {
    // Names are heap strings: the low bits are alignment, the middle ones tell them apart.
    const auto address = reinterpret_cast<uintptr_t>(name);
    return (address * 0x9E3779B97F4A7C15U >> 40) % kEntries;
  }
  core::NameId Compare(const char* name);

  Entry entries_[kEntries];
  uint32_t buffer_ = 1;
};

}  // namespace stepagent::cupti
