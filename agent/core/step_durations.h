#pragma once
// StepDurations: how long every step took, in bounded memory.
//
// Purpose: the step times before, in and after collection, for the report on our own cost; and the
// usual distance of two steps, for the guess how long a wait will last.
// Thread rule: under the gate's lock.
// Failure rule: cannot fail. The first kKept steps are kept as they are; from then on each step
// replaces a random one with the chance that keeps the sample uniform (reservoir sampling).
#include <algorithm>
#include <cstdint>

#include "agent/core/step_gate.h"

namespace stepagent::core {

class StepDurations {
 public:
  static constexpr uint32_t kRecent = 31;

  void Reset() noexcept {
    ended_ = 0;
    recent_count_ = 0;
    last_begin_ = 0;
    random_ = 0;
  }
  void OnBegin(uint64_t ticks) noexcept {
    if (last_begin_ != 0 && ticks > last_begin_) {
      recent_[recent_count_++ % kRecent] = ticks - last_begin_;
    }
    last_begin_ = ticks;
  }

  void OnEnd(const StepGate::StepDuration& step) noexcept {
    const uint64_t ended = ended_++;
    if (ended < StepGate::kKeptDurations) {
      kept_[ended] = step;
      return;
    }
    const auto place =
        static_cast<uint64_t>(static_cast<unsigned __int128>(Random()) * ended_ >> 64);
    if (place < StepGate::kKeptDurations) kept_[place] = step;
  }
  [[nodiscard]] uint64_t ended() const noexcept { return ended_; }
  [[nodiscard]] uint32_t kept() const noexcept {
    return static_cast<uint32_t>(std::min<uint64_t>(ended_, StepGate::kKeptDurations));
  }
  // Copies [from, from + room) of the kept ones; returns how many.
  uint32_t Copy(uint32_t from, StepGate::StepDuration* out, uint32_t room) const noexcept {
    const uint32_t end = kept();
    if (from >= end) return 0;
    const uint32_t count = std::min(room, end - from);
    std::copy_n(kept_ + from, count, out);
    return count;
  }
  // Distance of two begins, of the last kRecent; 0 unknown.
  [[nodiscard]] uint64_t MedianPeriod() const noexcept {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(recent_count_, kRecent));
    if (count == 0) return 0;
    uint64_t sorted[kRecent];
    std::copy_n(recent_, count, sorted);
    std::nth_element(sorted, sorted + count / 2, sorted + count);
    return sorted[count / 2];
  }

 private:
  uint64_t Random() noexcept {  // xorshift64
    if (random_ == 0) random_ = ended_ | 1;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  uint64_t ended_ = 0;
  uint64_t recent_count_ = 0;
  uint64_t last_begin_ = 0;
  uint64_t random_ = 0;  // zero like everything here, so that none of it is in the file
  uint64_t recent_[kRecent] = {};
  StepGate::StepDuration kept_[StepGate::kKeptDurations] = {};
};

}  // namespace stepagent::core
