#pragma once
// Everything of a cycle that is a count or a verdict: balance, kinds, joins, GPU status, notes.
//
// Purpose: the rule "nothing absent is shown as zero, and what was asked for and never came is
// said" in one place. Thread rule: pure functions on one cycle. Failure rule: what cannot be known
// is empty, with a note.
#include <set>
#include <string>
#include <vector>

#include "collector/model/cycle_assembly.h"

namespace stepagent::model {

struct Verdict {
  const CycleAssembly* assembly;
  const PendingCycle* pending;
  LossTotals losses;       // of this cycle alone
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

void FillVerdict(const Verdict& v, Cycle* cycle);

}  // namespace stepagent::model
