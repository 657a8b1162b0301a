#pragma once
// StepRange: the cold path between a range that matches and the step gate.
//
// Purpose: open a step for a push or a start, end it when exactly that range ends, and let a forked
// child revive.
// Thread rule: any application thread.
// Failure rule: a range that opens no step is an ordinary one.
#include <cstdint>

#include "agent/core/name_table.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {

// A push of this depth (zero-based) in `domain` matched. Nested in this thread's step: nothing.
void BeginPushStep(ThreadBlock* block, core::NameId domain, uint32_t level) noexcept;
void EndPushStep(ThreadBlock* block) noexcept;
// A start matched; its id is not yet known to the application.
void BeginStartStep(uint64_t id) noexcept;
[[nodiscard]] bool IsStartStep(uint64_t id) noexcept;
void EndStartStep(uint64_t id) noexcept;

// True when the phase words are alive, or came alive: the caller's range matched in a child.
[[nodiscard]] bool IsAliveOrRevived() noexcept;
void SetReviveHookImpl(void (*hook)()) noexcept;
void ForgetStepRange() noexcept;

}  // namespace stepagent::nvtx
