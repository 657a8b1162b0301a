#pragma once
// Threads of ours in someone else's process.
//
// Purpose: make one with all signals blocked (so that it can never take a signal from the
// application), detached, with a small stack. The body names itself by prctl: naming another thread
// opens a file of /proc in the application's descriptor table.
// Thread rule: any thread. Failure rule: false when the system refuses (RLIMIT_NPROC, memory).
#include <cstddef>

namespace stepagent::guard {

[[nodiscard]] bool StartThread(void* (*body)(void*), void* argument) noexcept;

}  // namespace stepagent::guard
