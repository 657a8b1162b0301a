#include "agent/trigger/toggle.h"

namespace stepagent::trigger {

ToggleAction Toggle::OnRequest(uint64_t now_ns, core::Phase phase) noexcept {
  const bool is_same = has_last_ && now_ns - last_ns_ < kCoalesceNs;
  has_last_ = true;
  last_ns_ = now_ns;
  if (is_same) return ToggleAction::kNone;
  switch (phase) {
    case core::Phase::kIdle:
    case core::Phase::kDone:
      return ToggleAction::kBegin;
    case core::Phase::kWaiting:
    case core::Phase::kWarmup:
      return ToggleAction::kCancel;
    case core::Phase::kActive:
      return ToggleAction::kEnd;
    case core::Phase::kFinishing:
      break;
  }
  return ToggleAction::kBusy;
}

}  // namespace stepagent::trigger
