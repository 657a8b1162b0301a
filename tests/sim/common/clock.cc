#include "common/clock.h"

#include <time.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "common/settings.h"

namespace stepagent::sim {
namespace {

int64_t ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

clockid_t BaseClock() {
  const std::string name = SettingText("CLOCK_BASE", "realtime");
  if (name == "realtime") return CLOCK_REALTIME;
  if (name == "monotonic") return CLOCK_MONOTONIC;
  if (name == "raw") return CLOCK_MONOTONIC_RAW;
  if (name == "boot") return CLOCK_BOOTTIME;
  Violation("STEPAGENT_SIM_CLOCK_BASE=%s is none of realtime, monotonic, raw, boot", name.c_str());
}

struct ClockSettings {
  clockid_t base = BaseClock();
  int64_t offset_ns = SettingInt("CLOCK_OFFSET", 0);
  double drift = SettingReal("CLOCK_DRIFT_PPM", 0) * 1e-6;
  int64_t tick_ns = SettingInt("TICK", 1);
  int64_t step_after_ns = SettingInt("WALL_STEP_AFTER", 0);
  int64_t step_ns = SettingInt("WALL_STEP", 0);
  int64_t started_ns = ReadClock(CLOCK_MONOTONIC);
};

const ClockSettings& Get() {
  static const ClockSettings settings;
  return settings;
}

// base - monotonic, read so that being preempted between the two reads does not matter.
int64_t MeasureBaseOffset(clockid_t base) {
  int64_t best_width = kNever;
  int64_t best = 0;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = MonotonicNs();
    const int64_t middle = ReadClock(base);
    const int64_t after = MonotonicNs();
    if (after - before < best_width) {
      best_width = after - before;
      best = middle - (before + (after - before) / 2);
    }
  }
  return best;
}

// Follows steps of the base clock but not the jitter of reading two clocks: otherwise kernels
// that follow one another exactly would overlap by some nanoseconds.
int64_t BaseOffset(const ClockSettings& settings, int64_t now) {
  constexpr int64_t kRefreshNs = 50000000;
  constexpr int64_t kJitterNs = 10000;
  static std::atomic<int64_t> offset{MeasureBaseOffset(settings.base)};
  static std::atomic<int64_t> measured_at{now};
  int64_t last = measured_at.load(std::memory_order_relaxed);
  if (now - last > kRefreshNs &&
      measured_at.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    const int64_t fresh = MeasureBaseOffset(settings.base);
    const int64_t known = offset.load(std::memory_order_relaxed);
    if (std::llabs(fresh - known) > kJitterNs) offset.store(fresh, std::memory_order_relaxed);
  }
  return offset.load(std::memory_order_relaxed);
}

int64_t WallStep(const ClockSettings& settings, int64_t engine_ns) {
  if (settings.step_ns == 0) return 0;
  return engine_ns - settings.started_ns >= settings.step_after_ns ? settings.step_ns : 0;
}

}  // namespace

int64_t MonotonicNs() { return ReadClock(CLOCK_MONOTONIC); }

int64_t HostStampNs() {
  const ClockSettings& settings = Get();
  const int64_t stamp = ReadClock(settings.base);
  return settings.step_ns == 0 ? stamp : stamp + WallStep(settings, MonotonicNs());
}

int64_t DeviceStampNs(int64_t engine_ns) {
  if (engine_ns == kNever) return kNever;
  const ClockSettings& settings = Get();
  const int64_t since_start = engine_ns - settings.started_ns;
  return engine_ns + BaseOffset(settings, MonotonicNs()) + settings.offset_ns +
         static_cast<int64_t>(settings.drift * static_cast<double>(since_start)) +
         WallStep(settings, engine_ns);
}

int64_t RoundToTick(int64_t duration_ns) {
  const int64_t tick = Get().tick_ns;
  return tick <= 1 ? duration_ns : (duration_ns + tick - 1) / tick * tick;
}

void SleepUntil(int64_t engine_ns) {
  while (MonotonicNs() < engine_ns) {
    const int64_t target = engine_ns == kNever ? MonotonicNs() + 3600000000000 : engine_ns;
    const timespec until{static_cast<time_t>(target / 1000000000),
                         static_cast<long>(target % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

}  // namespace stepagent::sim
