#pragma once
// SeenRanges: how often each range name was begun.
//
// Purpose: tell a user whose step name never matched what there is instead.
// Counting costs about 25 ns a range, too much for a program that is never to be noticed: after
// kCountedBegins ranges it switches itself off (kBitCountNames). Setting the bit again counts as many
// more.
// Thread rule: Count on any thread, lock-free; Top on the thread `stepagent`.
// Failure rule: beyond the table's size a name is only in the total.
#include <cstdint>

#include "agent/core/name_table.h"
#include "agent/nvtx/nvtx_entry.h"

namespace stepagent::nvtx {

// 2.5 ms of counting in all; a training loop shows its step range within its first hundred ranges.
inline constexpr uint64_t kCountedBegins = 100'000;

void CountSeen(core::NameId domain, core::NameId name) noexcept;
[[nodiscard]] uint64_t SeenTotal() noexcept;
[[nodiscard]] uint32_t TopSeen(SeenRange* out, uint32_t room) noexcept;
void ForgetSeen() noexcept;

}  // namespace stepagent::nvtx
