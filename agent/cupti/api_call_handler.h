#pragma once
// HOT PATH A. ApiCallHandler: enter and exit of an API call into one record.
//
// Purpose: pair the two callbacks of a call on its thread, leave out what is nested in it, class it
// failed or captured, and append one record to the thread's ring.
// Thread rule: Enter, Exit and MarkCaptured on the application thread that makes the call; the rest
// on the thread `stepagent`.
// Failure rule: an exit without its enter is ignored; a call whose exit never came ends with the
// epoch; a thread beyond the table of cells is counted as having no ring.
//
// A thread's state is a cell of a static table, found through one TLS pointer (8 bytes of static
// TLS): the thread `stepagent` can see calls in flight and sum the counters, and a cell whose
// thread has ended is found by asking the kernel, so no destructor runs in the application's
// threads.
#include <cstdint>

#include "agent/cupti/callback_time.h"

namespace stepagent::cupti {

class ApiCallHandler {
 public:
  // `data` is CUpti_CallbackData.
  static void Enter(uint32_t domain, uint32_t cbid, const void* data) noexcept;
  static void Exit(uint32_t domain, uint32_t cbid, const void* data) noexcept;
  // A graph node was created on this thread: the call it is in was recorded, not run.
  static void MarkCaptured() noexcept;

  // Callbacks were switched on or off: calls entered before count as nested in nothing any more.
  static void NewEpoch() noexcept;
  // Calls that began while recording was on and have not ended.
  [[nodiscard]] static uint32_t InFlight() noexcept;
  // Frees the cells of threads that have ended. While no other thread does the same.
  static void Sweep() noexcept;
  // Called at each launch when set: the id of the caller's stack, 0 none. Hot path A.
  using StackSource = uint32_t (*)() noexcept;
  static void SetStackSource(StackSource source) noexcept;

  struct Totals {
    CallbackTime time;
    uint64_t no_cell = 0;  // calls of threads that found no cell
  };
  [[nodiscard]] static Totals totals() noexcept;
  // In a forked child before it revives.
  static void ForgetAll() noexcept;
};

}  // namespace stepagent::cupti
