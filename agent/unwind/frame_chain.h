#pragma once
// HOT PATH A. FrameChain: the walk along saved frame pointers, where it is known to be right.
//
// Purpose: two loads a frame instead of libunwind's eight nanoseconds, in programs whose functions
// keep a frame pointer. Nothing is guessed: a return address may be walked through only after
// libunwind showed, by the function's unwind information, that at this very place the frame pointer
// is kept and where the caller's is. One address that is not known to keep it ends the walk, and
// the caller asks libunwind instead. Thread rule: any thread; lock-free. Learn may make system
// calls: for addresses not seen before only. Failure rule: no answer. On other machines than x86-64
// there never is one.
//
// Why the chain is right: the first frame is our own and keeps its frame pointer; where a function
// keeps it at the place of its call, the two words it points at are the caller's frame pointer and
// the return address; so each frame found that way is a frame. Against code that changed since
// (a library unloaded and another at its place, until Forget): a frame pointer must be aligned, lie
// above the one before, by no more than a frame may be long, and within the thread's stack.
#include <atomic>
#include <cstdint>

namespace stepagent::unwind {

class FrameChain {
 public:
  enum class Result : uint8_t {
    kWhole,    // to the outermost frame, or as many as asked for
    kUnknown,  // met an address that nothing is known of: Learn may help
    kNotKept,  // met one that keeps no frame pointer
  };
  // `frame`: the caller's own __builtin_frame_address(0). Return addresses, leaf first.
  static Result Walk(uintptr_t frame, uintptr_t* frames, uint32_t most, uint32_t* count) noexcept;
  // Looks at the calling thread's whole stack with libunwind's steps: about 100 us.
  static void Learn() noexcept;
  // A library was unloaded: what was known of its addresses may not hold.
  static void Forget() noexcept;
  // Loads what Learn needs; false: Walk never has an answer.
  static bool Init(void* libunwind) noexcept;
};

}  // namespace stepagent::unwind
