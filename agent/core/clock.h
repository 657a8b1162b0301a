#pragma once
// HostClock: the one clock for ranges, calls and steps.
//
// Purpose: raw ticks on the hot path (TSC where invariant, cntvct_el0 on aarch64, else
// CLOCK_MONOTONIC ns), converted to ns of the session's clock when drained. The session's clock is
// 0 at Start().
// Thread rule: Ticks() anywhere; Start() once; Calibrate() and the conversions on the thread
// `stepagent` or under the gate (conversion is pure once calibrated).
// Failure rule: without an invariant TSC the ticks are CLOCK_MONOTONIC ns and the ratio is 1.
//
// The rate is measured against CLOCK_MONOTONIC between Start() and the first Calibrate() that comes
// at least 20 ms later (two bracketed pairs; 50 ns of uncertainty each is under 5 ppm then), and is
// fixed from there on: a later change would bend times already sent. What it is off by shows in the
// clock samples, which the reader uses to map device stamps.
#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace stepagent::core {

class HostClock {
 public:
  // ns = ticks * rate >> kShift: 32 fractional bits are 0.25 ppb at 1 GHz.
  static constexpr int kShift = 32;

  enum class Source : uint8_t { kTsc, kCntvct, kMonotonic };

  static void Start() noexcept;
  // Fixes the rate if enough time has passed (or `force`: waits up to 20 ms for it). True once
  // fixed.
  static bool Calibrate(bool force) noexcept;

  [[nodiscard]] static uint64_t Ticks() noexcept {
    if (is_register()) [[likely]]
      return RegisterTicks();
    return MonotonicNs();
  }
  // Whether Ticks is one instruction, RegisterTicks, and no call.
#if defined(__x86_64__)
  [[nodiscard]] static bool is_register() noexcept { return source_ == Source::kTsc; }
  [[nodiscard]] static uint64_t RegisterTicks() noexcept { return __rdtsc(); }
#elif defined(__aarch64__)
  [[nodiscard]] static bool is_register() noexcept { return source_ == Source::kCntvct; }
  [[nodiscard]] static uint64_t RegisterTicks() noexcept {
    uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
  }
#else
  [[nodiscard]] static bool is_register() noexcept { return false; }
  [[nodiscard]] static uint64_t RegisterTicks() noexcept { return 0; }
#endif
  // Nothing before it is still under way, and nothing behind it has begun: for what is measured. A
  // reading alone may overtake the stores and loads before it.
  [[nodiscard]] static uint64_t TicksBetween() noexcept {
    Settle();
    const uint64_t ticks = Ticks();
    Settle();
    return ticks;
  }
  [[nodiscard]] static int64_t ToNs(uint64_t ticks) noexcept;  // session clock
  // The same for many ticks of one moment: what ToNs would use now, to be converted with inline.
  struct Scale {
    uint64_t base_ticks, rate;  // rate: ns per tick << kShift
    [[nodiscard]] int64_t ToNs(uint64_t ticks) const noexcept {
      const auto delta = static_cast<int64_t>(ticks - base_ticks);
      return static_cast<int64_t>((static_cast<__int128>(delta) * static_cast<__int128>(rate)) >>
                                  kShift);
    }
  };
  [[nodiscard]] static Scale scale() noexcept;
  [[nodiscard]] static uint64_t ToTicks(int64_t session_ns) noexcept;  // the inverse, for timers
  [[nodiscard]] static int64_t NowNs() noexcept { return ToNs(Ticks()); }
  [[nodiscard]] static int64_t base_unix_ns() noexcept;
  [[nodiscard]] static int64_t base_mono_ns() noexcept;
  [[nodiscard]] static Source source() noexcept { return source_; }
  [[nodiscard]] static const char* SourceName() noexcept;

  // A pair taken back to back, the best of a few tries.
  struct Sample {
    int64_t host_ns;  // session clock
    int64_t real_ns;  // CLOCK_REALTIME, or what `other` reads
    uint32_t bracket_ns;
    uint64_t suspended_ms;  // how long the machine has been asleep since its start
  };
  using OtherClock = int64_t (*)(void* context);
  [[nodiscard]] static Sample TakeSample(OtherClock other = nullptr,
                                         void* context = nullptr) noexcept;

  [[nodiscard]] static uint64_t MonotonicNs() noexcept {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000U + static_cast<uint64_t>(t.tv_nsec);
  }

 private:
  static void Settle() noexcept {
#if defined(__x86_64__)
    _mm_lfence();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }
  static Source source_ [[gnu::visibility("hidden")]];
};

}  // namespace stepagent::core
