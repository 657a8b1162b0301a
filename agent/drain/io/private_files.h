#pragma once
// A descriptor table of the calling thread's own.
//
// Purpose: what the io thread opens is invisible to the application: not in /proc/self/fd, not
// closed by its close-all, not inherited by its children; and the application's files are not kept
// open by us.
// Thread rule: the io thread, once, before it opens anything.
// Failure rule: false where the kernel refuses both ways; the caller then opens no socket at all.

namespace stepagent::drain::io {

// Afterwards the table holds 0, 1 and 2 only, which lead nowhere: whatever a library writes to
// stderr on this thread must not land in a socket that took the number.
[[nodiscard]] bool EnterPrivateFiles();

}  // namespace stepagent::drain::io
