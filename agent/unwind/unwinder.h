#pragma once
// Unwinder: libunwind, looked up at run time.
//
// Purpose: the only place that knows libunwind. It is loaded (RTLD_LOCAL, never unloaded) when
// stacks are first asked for, and not at all otherwise: its _Unwind_* would take over C++
// exceptions if they were visible, and its archive cannot go into a shared object. Thread rule:
// Load on one thread at a time; Walk on any thread once Load said yes. Failure rule: Load gives a
// sentence; Walk gives 0 frames.
//
// Walk is unw_backtrace: a table per thread of how to step over each return address makes a known
// stack cost about 8 ns a frame, without a system call. The first walk of a thread, and a return
// address it has not seen, make some. Frames that libunwind had to guess are read with a check;
// others are trusted as their unwind information says.
#include <cstdint>
#include <string>

namespace stepagent::unwind {

class Unwinder {
 public:
  // "" when it is ready. The caller holds no lock; takes the loader gate.
  [[nodiscard]] static std::string Load();
  // Return addresses, leaf first, beginning in the caller's frame; at most `most`.
  static uint32_t Walk(uintptr_t* frames, uint32_t most) noexcept;
};

}  // namespace stepagent::unwind
