#pragma once
// StepSource: where steps come from when not from an NVTX range.
//
// Purpose: one small interface that calls the step gate; an optimizer hook, a kernel name or a
// found period would be further ones.
// Thread rule: the thread `stepagent`; time is a parameter.
// Failure rule: cannot fail.
#include <cstdint>
#include <memory>

#include "agent/core/step_gate.h"
#include "proto/settings.h"

namespace stepagent::trigger {

class StepSource {
 public:
  virtual ~StepSource() = default;
  // Calls the gate for every border that is due (ns of CLOCK_MONOTONIC).
  virtual void Poll(uint64_t now_ns) = 0;
  // When Poll must come again (ns of CLOCK_MONOTONIC); 0: no need.
  [[nodiscard]] virtual uint64_t NextWake(uint64_t now_ns) = 0;
  // `count` toggle signals came.
  virtual void OnSignals(uint32_t count, uint64_t now_ticks) = 0;
};

// nullptr for NVTX ranges (nvtx/ calls the gate itself) and where there is no step source.
[[nodiscard]] std::unique_ptr<StepSource> MakeStepSource(const proto::StepSetting& step,
                                                         core::StepGate* gate);

}  // namespace stepagent::trigger
