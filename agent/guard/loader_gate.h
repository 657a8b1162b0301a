#pragma once
// LoaderGate: keeps fork and the dynamic loader apart.
//
// Purpose: dlopen, dlsym, subscribing and the first enable run under this gate; the fork handlers
// take it too, so that no child is born while one of our threads is inside the loader (without it
// 13 of 40 children hung in their own dlopen). Thread rule: any thread, also a pthread_atfork
// prepare handler: it spins, then sleeps 50 us at a time, and uses no mutex, futex or allocation.
// Not recursive: the owner that asks again is refused. Failure rule: AcquireFor gives up after its
// time and says so; nothing is ever blocked for good.
#include <cstdint>

namespace stepagent::guard {

class LoaderGate {
 public:
  // False when the time is over, or at once when the calling thread holds the gate already.
  [[nodiscard]] static bool AcquireFor(uint64_t ns) noexcept;
  // Opens the gate if the calling thread holds it.
  static void Release() noexcept;
  // In a forked child: the holder, if there was one, does not exist here.
  static void Reset() noexcept;

  class Scope {
   public:
    explicit Scope(uint64_t wait_ns) noexcept : held_(AcquireFor(wait_ns)) {}
    ~Scope() {
      if (held_) Release();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    [[nodiscard]] explicit operator bool() const noexcept { return held_; }

   private:
    bool held_;
  };
};

}  // namespace stepagent::guard
