// Clocks of the simulator. The engine computes in CLOCK_MONOTONIC nanoseconds ("engine time");
// activity records carry device stamps: the base clock (CLOCK_REALTIME unless set otherwise) plus
// an offset and a drift of the device clock against it.
//
// Threads: any. Failure: none.
#pragma once

#include <cstdint>

namespace stepagent::sim {

constexpr int64_t kNever = INT64_MAX;

[[nodiscard]] int64_t MonotonicNs();

// What cuptiGetTimestamp answers: the base clock, with the scripted wall step.
[[nodiscard]] int64_t HostStampNs();

// The device stamp of an engine time; kNever stays kNever.
[[nodiscard]] int64_t DeviceStampNs(int64_t engine_ns);

// The device clock has a resolution: durations are rounded up to whole ticks.
[[nodiscard]] int64_t RoundToTick(int64_t duration_ns);

// Sleeps until the engine time is reached; for ever when it is kNever.
void SleepUntil(int64_t engine_ns);

}  // namespace stepagent::sim
