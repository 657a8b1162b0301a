#pragma once
// GivenNames: what the application called its threads and categories.
//
// Purpose: keep them for whoever writes rows; NVTX gives them once, in any phase.
// Thread rule: any thread, lock-free.
// Failure rule: a full table forgets the name.
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::nvtx {

void GiveThreadName(uint32_t tid, core::NameId name) noexcept;
void GiveCategoryName(core::NameId domain, uint32_t category, core::NameId name) noexcept;

}  // namespace stepagent::nvtx
