#pragma once
// SeenRanges: how often each range name was begun.
//
// Purpose: tell a user whose step name never matched what there is instead.
// Thread rule: Count on any thread, lock-free; Top on the thread `stepagent`.
// Failure rule: beyond the table's size a name is only in the total.
//
// One by one costs about 25 ns a range, and a program may run for hours before anyone finds that
// its steps have another name. So of each thread the first 1,024 begins are counted singly, then
// one in 32 to 95 with that weight (a fixed distance would fall in step with the program's loop): 1
// ns a range, and the counts still add up. Where everything is recorded anyway each begin is
// counted.
#include <cstdint>

#include "agent/core/name_table.h"
#include "agent/nvtx/nvtx_entry.h"

namespace stepagent::nvtx {

struct ThreadBlock;

// Registered and other strings of the same text are counted apart.
void CountSeen(core::NameId domain, core::NameId name, bool is_registered,
               uint32_t weight) noexcept;
// The weight with which this begin is to be counted, and the distance to the next.
[[nodiscard]] uint32_t NextSeenWeight(ThreadBlock* block) noexcept;
[[nodiscard]] uint64_t SeenTotal() noexcept;
[[nodiscard]] uint32_t TopSeen(SeenRange* out, uint32_t room) noexcept;
void ForgetSeen() noexcept;

}  // namespace stepagent::nvtx
