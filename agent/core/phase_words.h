#pragma once
// The words every hot path reads: one page that a fork wipes.
//
// Purpose: tell application threads in one relaxed load what to do. The page is mapped with
// MADV_WIPEONFORK, so in a child of fork, vfork-less clone or raw clone() every word reads 0, which
// means inert: no lock, thread or ring of the parent is touched there.
// Thread rule: written by the step gate and the phase controller, read by any thread.
// Failure rule: when the page cannot be mapped the agent never leaves inert.
//
// kStepSource  an NVTX range may be a step: match names
// kRanges      append range and mark records
// kCalls       append call records
#include <atomic>
#include <cstdint>

namespace stepagent::core {

enum : uint32_t {
  kBitStepSource = 1,
  kBitRanges = 2,
  kBitCalls = 4,
  kBitCountNames = 8,  // no step matched yet: count range names for the "most frequent" line
};

struct PhaseWords {
  std::atomic<uint32_t> alive{0};  // 1 in the process that mapped it; 0 in its children
  std::atomic<uint32_t> bits{0};
  // Written at steps and phase changes: on a line of their own, away from what every call reads.
  alignas(64) std::atomic<uint32_t> wake{0};  // futex word of `stepagent`: bumped, then woken
  std::atomic<uint32_t> armed{0};    // futex word of a first active step: 1 once armed or given up
  std::atomic<uint32_t> signals{0};  // toggles counted by the signal handler
  std::atomic<uint32_t> gate_lock{0};  // step_gate.cc
};

// Never null: points at a static all-zero (inert) page until MapPhaseWords succeeded. Hidden said
// here too: the command line's -fvisibility covers definitions only, and a hot path would go
// through the GOT.
extern PhaseWords* g_words [[gnu::visibility("hidden")]];

// Maps the page and marks this process alive. False: stay inert. Called once per process life,
// before any other thread reads g_words (again in a child that revives: the same page, wiped).
// kBitStepSource belongs to nvtx/, the other bits to the step gate.
[[nodiscard]] bool MapPhaseWords();

// Bumps `word` and wakes its waiters: an atomic and a FUTEX_WAKE, safe in a signal handler.
void BumpAndWake(std::atomic<uint32_t>* word) noexcept;
// Wakes the word's waiters, and nothing else.
void FutexWake(std::atomic<uint32_t>* word) noexcept;
// Waits until `word` != `seen` or the deadline (ns from now, 0: no timeout). Raw futex; EINTR
// returns.
void FutexWait(std::atomic<uint32_t>* word, uint32_t seen, uint64_t timeout_ns) noexcept;

}  // namespace stepagent::core
