#pragma once
// The application's last thread: a process must end when it does, whatever threads of ours sleep.
//
// Purpose: a program whose main thread ends by pthread_exit goes on until its last thread ends; the C
// library then calls exit(0). Threads of ours count in that, so they have to leave by themselves.
// Thread rule: WatchMainThread on the main thread (a no-op elsewhere); OnlyOursRemain on a thread of
// ours.
// Failure rule: without /proc nothing is known and OnlyOursRemain is false.
#include <atomic>
#include <cstdint>

namespace stepagent::guard {

// When the calling thread is the main one: sets *ended to 1 and bumps and wakes *wake once it ends.
void WatchMainThread(std::atomic<uint32_t>* ended, std::atomic<uint32_t>* wake) noexcept;
// True when no thread of the application is left, the ended main thread aside.
[[nodiscard]] bool OnlyOursRemain() noexcept;

}  // namespace stepagent::guard
