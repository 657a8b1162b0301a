#pragma once
// The functions behind NVTX's tables.
//
// Purpose: fill the slots that we implement, by module and id.
// Thread rule: handlers run on any application thread at once.
// Failure rule: they cannot fail.
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::nvtx {

using AnyFunction = void (*)();

// A module's function table as NVTX gives it: pointers to the slots, `size` with the unused index
// 0.
struct Slots {
  AnyFunction** table;
  uint32_t size;

  // `Type` is the vendor's for this slot, so that a wrong handler does not compile. A table that is
  // shorter (v2 libraries' CORE2 by one) simply lacks the slot.
  template <typename Type>
  void Put(uint32_t id, Type handler) const noexcept {
    if (id < size && table[id] != nullptr) *table[id] = reinterpret_cast<AnyFunction>(handler);
  }
};
void PutCoreRanges(const Slots& slots) noexcept;  // ranges and marks
void PutCore2Ranges(const Slots& slots) noexcept;
void PutCoreNames(const Slots& slots) noexcept;  // everything that names something
void PutCore2Names(const Slots& slots) noexcept;

[[nodiscard]] uint64_t UnmatchedEnds() noexcept;
void ForgetUnmatchedEnds() noexcept;

}  // namespace stepagent::nvtx
