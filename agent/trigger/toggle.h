#pragma once
// Toggle: what one toggle request means in the phase it finds.
//
// Purpose: idle or done -> begin; waiting or warmup -> cancel; active -> end (at the end of the
// open step); finishing -> busy. A request within 200 ms of the one before is the same one, so that
// a storm of signals, however long, toggles once.
// Thread rule: the thread `stepagent`; time and phase are parameters.
// Failure rule: cannot fail.
#include <cstdint>

#include "agent/core/schedule.h"

namespace stepagent::trigger {

enum class ToggleAction : uint8_t { kNone, kBegin, kCancel, kEnd, kBusy };

inline constexpr uint64_t kCoalesceNs = 200'000'000;

class Toggle {
 public:
  [[nodiscard]] ToggleAction OnRequest(uint64_t now_ns, core::Phase phase) noexcept;

 private:
  uint64_t last_ns_ = 0;
  bool has_last_ = false;
};

}  // namespace stepagent::trigger
