#include "agent/core/clock.h"

#include <atomic>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stepagent::core {
namespace {

constexpr uint64_t kCalibrationNs = 20'000'000;
constexpr int kTries = 5;
constexpr int kShift = HostClock::kShift;

// Ticks, CLOCK_MONOTONIC and CLOCK_REALTIME of one moment.
struct Pair {
  uint64_t ticks = 0;
  uint64_t mono_ns = 0;
  int64_t real_ns = 0;
  uint64_t bracket_ticks = UINT64_MAX;
};

struct State {
  Pair base;
  std::atomic<uint64_t> rate{0};  // ns per tick << kShift; 0 until fixed
};
constinit State state;

int64_t ReadNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}
int64_t RealNs() { return ReadNs(CLOCK_REALTIME); }

// CLOCK_BOOTTIME goes on in a suspend, CLOCK_MONOTONIC does not; read closely enough that being
// interrupted in between does not look like a millisecond of sleep.
uint64_t SuspendedMs() {
  int64_t narrowest = INT64_MAX, asleep_ns = 0;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = ReadNs(CLOCK_MONOTONIC);
    const int64_t boot = ReadNs(CLOCK_BOOTTIME);
    const int64_t width = ReadNs(CLOCK_MONOTONIC) - before;
    if (width < narrowest) narrowest = width, asleep_ns = boot - before - width / 2;
  }
  return asleep_ns < 500'000 ? 0 : static_cast<uint64_t>(asleep_ns + 500'000) / 1'000'000;
}

// The tightest of a few tries: a try that was interrupted shows in its bracket.
Pair TakePair() {
  Pair best;
  for (int i = 0; i < kTries; ++i) {
    Pair pair;
    const uint64_t before = HostClock::Ticks();
    pair.mono_ns = HostClock::MonotonicNs();
    pair.real_ns = RealNs();
    const uint64_t after = HostClock::Ticks();
    pair.bracket_ticks = after - before;
    pair.ticks = before + pair.bracket_ticks / 2;
    if (pair.bracket_ticks < best.bracket_ticks) best = pair;
  }
  return best;
}

HostClock::Source FindSource() {
#if defined(__x86_64__)
  // Leaf 0x80000007, EDX bit 8: the TSC ticks at one rate in every power state.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0) {
    return HostClock::Source::kTsc;
  }
  return HostClock::Source::kMonotonic;
#elif defined(__aarch64__)
  return HostClock::Source::kCntvct;  // architecturally constant
#else
  return HostClock::Source::kMonotonic;
#endif
}

uint64_t RateBetween(const Pair& from, const Pair& to) {
  if (to.ticks <= from.ticks || to.mono_ns <= from.mono_ns) return uint64_t{1} << kShift;
  const auto ns = static_cast<unsigned __int128>(to.mono_ns - from.mono_ns) << kShift;
  return static_cast<uint64_t>(ns / (to.ticks - from.ticks));
}

// The fixed rate or, in the first 20 ms, an estimate over the time since Start.
uint64_t Rate() {
  const uint64_t fixed = state.rate.load(std::memory_order_relaxed);
  if (fixed != 0) [[likely]]
    return fixed;
  if (HostClock::Calibrate(false)) return state.rate.load(std::memory_order_relaxed);
  return RateBetween(state.base, TakePair());
}

}  // namespace

constinit HostClock::Source HostClock::source_ = HostClock::Source::kMonotonic;

void HostClock::Start() noexcept {
  source_ = FindSource();
  state.base = TakePair();
  // In a child that revives the parent's rate stands: the hardware is the same.
  if (source_ == Source::kMonotonic) {
    state.rate.store(uint64_t{1} << kShift, std::memory_order_relaxed);
  }
}

bool HostClock::Calibrate(bool force) noexcept {
  if (state.rate.load(std::memory_order_relaxed) != 0) return true;
  const uint64_t elapsed = MonotonicNs() - state.base.mono_ns;
  if (elapsed < kCalibrationNs) {
    if (!force) return false;
    const timespec rest = {0, static_cast<long>(kCalibrationNs - elapsed)};
    nanosleep(&rest, nullptr);
  }
  state.rate.store(RateBetween(state.base, TakePair()), std::memory_order_relaxed);
  return true;
}

HostClock::Scale HostClock::scale() noexcept { return {state.base.ticks, Rate()}; }

int64_t HostClock::ToNs(uint64_t ticks) noexcept { return scale().ToNs(ticks); }

uint64_t HostClock::ToTicks(int64_t session_ns) noexcept {
  const auto scaled = static_cast<__int128>(session_ns) * (static_cast<__int128>(1) << kShift);
  return state.base.ticks + static_cast<uint64_t>(static_cast<int64_t>(scaled / Rate()));
}

int64_t HostClock::base_unix_ns() noexcept { return state.base.real_ns; }
int64_t HostClock::base_mono_ns() noexcept { return static_cast<int64_t>(state.base.mono_ns); }

const char* HostClock::SourceName() noexcept {
  switch (source_) {
    case Source::kTsc:
      return "tsc";
    case Source::kCntvct:
      return "cntvct";
    case Source::kMonotonic:
      return "monotonic";
  }
  return "monotonic";
}

HostClock::Sample HostClock::TakeSample(OtherClock other, void* context) noexcept {
  Sample best{0, 0, UINT32_MAX, SuspendedMs()};
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = Ticks();
    const int64_t real = other != nullptr ? other(context) : RealNs();
    const uint64_t after = Ticks();
    const int64_t from = ToNs(before);
    const int64_t width = ToNs(after) - from;
    const auto bracket = static_cast<uint32_t>(width < 0           ? 0
                                               : width > INT32_MAX ? INT32_MAX
                                                                   : width);
    if (bracket < best.bracket_ns) {
      best = {from + width / 2, real, bracket, best.suspended_ms};
    }
  }
  return best;
}

}  // namespace stepagent::core
