#pragma once
// What the counts and notes of one cycle are judged from.
//
// Purpose: gathered once by the builder; balance, lost batches and notes only read it.
// Thread rule: plain data, of one thread; it points to what outlives the judging.
// Failure rule: plain data.
#include <cstdint>
#include <set>
#include <vector>

#include "collector/model/cycle_assembly.h"

namespace stepagent::model {

struct Verdict {
  const CycleAssembly* assembly;
  const PendingCycle* pending;
  LossTotals losses;  // of this cycle alone
  // Of lost_batches, where known; `is_loss_anywhere`: of some nobody knows when.
  std::vector<LostSpan> lost_spans;
  bool is_loss_anywhere = false;
  const Gpu* earlier_gpu;  // what the agent last reported in this session, or nullptr
  std::set<Activity> requested;
  int64_t clock_step_ns = 0;
  uint64_t suspended_ms = 0;
  bool has_clock_samples = false;
  bool saw_device_work = false;  // device records or CUDA calls came at any time in this session
};

}  // namespace stepagent::model
