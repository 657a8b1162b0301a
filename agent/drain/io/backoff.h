#pragma once
// Backoff: when to try the collector again.
//
// Purpose: quick while a collector that was just started comes up (or one is being replaced), then
// 1 s doubling to 30 s, each off by up to a quarter, so that the agents of a node do not come at
// once.
// Thread rule: belongs to the io thread; time is a parameter.
// Failure rule: cannot fail.
#include <algorithm>
#include <cstdint>

namespace stepagent::drain::io {

class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed | 1) {}

  void Reset(uint64_t now_ns) {
    since_ns_ = now_ns;
    tries_ = 0;
    slow_ns_ = kSlowFirstNs;
  }
  // Over for a person: past the quick time and still nothing.
  [[nodiscard]] bool IsSlow(uint64_t now_ns) const { return now_ns - since_ns_ >= kQuickNs; }
  // How long to wait after a failure at `now_ns`.
  [[nodiscard]] uint64_t NextDelay(uint64_t now_ns) {
    if (!IsSlow(now_ns)) return std::min(kQuickFirstNs << std::min(tries_++, 6U), kQuickLastNs);
    const uint64_t delay = slow_ns_;
    slow_ns_ = std::min(slow_ns_ * 2, kSlowLastNs);
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return delay - delay / 4 + random_ % (delay / 2);
  }

  static constexpr uint64_t kQuickNs = 2'000'000'000;  // stepcollector is up in tens of ms
  static constexpr uint64_t kQuickFirstNs = 5'000'000, kQuickLastNs = 250'000'000;
  static constexpr uint64_t kSlowFirstNs = 1'000'000'000, kSlowLastNs = 30'000'000'000;

 private:
  uint64_t since_ns_ = 0;
  uint64_t slow_ns_ = kSlowFirstNs;
  uint64_t random_;
  uint32_t tries_ = 0;
};

}  // namespace stepagent::drain::io
