#pragma once
// NVTX entry: our own injection tool, independent of CUPTI.
//
// Purpose: fill the function tables NVTX hands us (once per DSO that embeds NVTX v3, possibly on
// several threads at once; once per process for v2 libraries).
// Thread rule: Attach is re-entrant; handlers are hot path A.
// Failure rule: an unknown table or a too small one is skipped; handlers never fail and return the
// true depth in every phase.
#include <cstdint>

#include "agent/core/name_table.h"

namespace stepagent::nvtx {

// `get_export_table` is NvtxGetExportTableFunc_t. Returns 1 (tool attached) or 0.
int Attach(void* get_export_table) noexcept;

// What is a step. Matching is by content: plain strings are compared, registered handles and names
// already interned are evaluated once. Sets kBitStepSource when the phase words are alive, so call
// it after MapPhaseWords; may be called again (`start` with another step) at any time, and in a
// child that revives. The strings are copied.
struct StepMatch {
  enum class Kind : uint8_t { kNone, kExact, kGlob };
  Kind kind = Kind::kNone;
  const char* name = "";
  const char* domain = "";  // "" default
  bool any_domain = false;
};
void SetStepMatch(const StepMatch& match) noexcept;

struct NvtxCounters {
  uint64_t ranges_seen = 0;       // begins while names were counted
  uint64_t unmatched_ends = 0;    // pops at depth 0, ends with unknown id
  uint64_t blocks_exhausted = 0;  // threads that found no state block: depth reported as 0
  uint64_t used = 0;              // NVTX was attached by this many DSOs
};
[[nodiscard]] NvtxCounters counters() noexcept;
// The most frequent range names seen: fills up to `room`, returns how many.
struct SeenRange {
  core::NameId name, domain;
  uint64_t count;
  bool is_registered;  // begun with a handle of nvtxDomainRegisterString; counted apart
};
uint32_t TopRanges(SeenRange* out, uint32_t room) noexcept;
// In a forked child before it revives.
void ForgetAll() noexcept;

// Called on the application's thread, on the cold path, when a range matches the step in a process
// whose phase words are not alive (a forked child). It may make them alive; the range then counts
// as the new session's first step. Several threads may call it at once. nullptr: none.
void SetReviveHook(void (*hook)()) noexcept;

// What the application called a thread (nvtxNameOsThread) or a category; 0 when it did not.
[[nodiscard]] core::NameId ThreadName(uint32_t tid) noexcept;
[[nodiscard]] core::NameId CategoryName(core::NameId domain, uint32_t category) noexcept;

}  // namespace stepagent::nvtx
