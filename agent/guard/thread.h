#pragma once
// Threads of ours in someone else's process.
//
// Purpose: make one with all signals blocked (so that it can never take a signal from the
// application), named, detached, with a small stack.
// Thread rule: any thread. Failure rule: false when the system refuses (RLIMIT_NPROC, memory).
#include <cstddef>

namespace stepagent::guard {

[[nodiscard]] bool StartThread(const char* name, void* (*body)(void*), void* argument) noexcept;

}  // namespace stepagent::guard
