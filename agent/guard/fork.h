#pragma once
// Fork: what the process handlers do.
//
// Purpose: keep a child from inheriting a held loader lock, and leave it inert.
// Thread rule: Register once, at first use; the handlers run in the forking thread.
// Failure rule: the prepare handler waits at most 100 ms for the loader gate, then lets the fork go.
//
// Nothing else is needed in the child: the phase words are wiped by the kernel, so every hot path
// reads "inert" there, and nothing of the parent's threads, rings or sockets is touched until the
// child becomes a session of its own.

namespace stepagent::guard {

[[nodiscard]] bool RegisterForkHandlers() noexcept;
// True in a process that was forked from one that registered, until Revived().
[[nodiscard]] bool IsForkedChild() noexcept;
void Revived() noexcept;

}  // namespace stepagent::guard
