#pragma once
// Drainer: harvests rings, gate events and completed CUPTI buffers into batches.
//
// Purpose: the consumer end of every ring; keeps the session's totals; knows which in-window
// launches still owe device work (the tail).
// Thread rule: the thread `stepagent` only. Time is a parameter.
// Failure rule: what cannot be sent is counted; RunOnce never blocks.
#include <cstdint>
#include <functional>
#include <memory>

#include "agent/cupti/cupti_backend.h"
#include "agent/drain/batch_builder.h"
#include "agent/drain/io/uplink.h"

namespace stepagent::drain {

// Where device records come from. Left alone: cupti::Backend(); tests give their own.
struct DeviceSource {
  uint64_t (*decode)(core::ActivitySink* sink) = nullptr;
  cupti::BackendCounters (*counters)() = nullptr;
};
struct DrainConfig {
  BatchIdentity identity;
  DeviceSource device;
  uint64_t flush_interval_ns = 200'000'000;  // promise 4: at most this much host data is in memory
  uint64_t max_records = 0;                  // of one cycle's window; 0 none
};

class Drainer {
 public:
  // `uplink`: an io::Uplink outside of tests.
  Drainer(const DrainConfig& config, io::FrameSink* uplink);
  ~Drainer();

  // Takes what is ready; sends batches that are full or older than the flush interval. Returns
  // records taken. `decode` false: leave CUPTI's buffers alone (not subscribed).
  uint64_t RunOnce(uint64_t now_ns, bool decode);
  // When to call RunOnce next, while recording: after 1 ms, and sooner where the last call found a
  // ring more than a quarter full, so that the next one finds about a quarter; not below 100 us,
  // because a consumer that looks all the time makes each record dearer (spsc_ring.h).
  [[nodiscard]] uint64_t poll_ns() const;
  // Sends everything held, now.
  void Flush(uint64_t now_ns);

  // The tail: launches of windows that owe a device record. RunOnce itself opens a window at
  // kActiveBegin and closes it at kActiveEnd; windows of several cycles may overlap in their tails.
  // A call counts once it has returned: 0 means "in" only after a RunOnce that began past the end.
  [[nodiscard]] uint64_t Outstanding(uint32_t cycle) const;
  // Which device kinds are on (ActivityBit set, after arming): with `kernel` off a launch owes
  // nothing. Default: all; 0 where the device cannot be collected.
  void SetAwaited(uint32_t activities);
  // After the grace time: forgets the cycle's window and returns how many launches were still owed.
  // *was_given_up: see TailTracker::Forget.
  uint64_t ForgetWindow(uint32_t cycle, bool* was_given_up = nullptr);
  static constexpr uint32_t kMostWindows = 127;  // that can owe at once
  // Called for each gate event in order, after it went into the builder: how the phase controller
  // hears of warmups and window ends.
  void SetGateObserver(std::function<void(const core::GateEvent&)> observer);
  // Records taken since the last window opened. Past max_records the rest is dropped_limit by
  // itself, until the next window opens; StopAccepting does the same on demand.
  [[nodiscard]] uint64_t window_records() const;
  void StopAccepting(bool stop);

  void SetCycle(uint32_t cycle);
  [[nodiscard]] BatchBuilder& builder();
  [[nodiscard]] const KindTotals& totals(uint32_t activity) const;
  [[nodiscard]] uint64_t records() const;
  [[nodiscard]] uint64_t last_sequence() const;
  [[nodiscard]] std::string EncodeLossReport() const;  // batch.proto LossReport

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepagent::drain
