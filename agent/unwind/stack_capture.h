#pragma once
// HOT PATH A. StackCapture: the calling thread's stack as an id.
//
// Purpose: what the CUPTI side asks for at each launch (CuptiBackend::SetStackSource).
// Thread rule: Prepare on the thread that arms; Take on application threads.
// Failure rule: Prepare gives a sentence and launches are recorded without stacks; Take gives one
// of StackTable's reserved ids and counts it.
//
// Re-entry: a signal handler that launches while its thread is inside Take gets kNotTaken, because
// libunwind's table of that thread may be half changed.
#include <cstdint>
#include <string>

#include "agent/unwind/stack_table.h"

namespace stepagent::unwind {

class StackCapture {
 public:
  // Loads libunwind and maps the table; "" when stacks can be taken. Any number of times.
  [[nodiscard]] static std::string Prepare();
  [[nodiscard]] static uint32_t Take() noexcept;
  [[nodiscard]] static StackTable& table() noexcept;
  [[nodiscard]] static uint64_t not_taken() noexcept;
};

}  // namespace stepagent::unwind
