#pragma once
// CycleReportData: what only the agent knows about a cycle, and its encoding.
//
// Purpose: a plain struct for the phase controller to fill; the bytes go into the batch that
// carries the cycle's CLOSED event (BatchBuilder::AddCycleReport).
// Thread rule: the thread `stepagent`.
// Failure rule: cannot fail; texts are cut at kMaxNameBytes.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/cupti/cupti_backend.h"
#include "agent/drain/batch_builder.h"

namespace stepagent::drain {

struct CycleCost {
  uint64_t callback_ns = 0, callbacks = 0, arm_wait_ns = 0, arm_ns = 0, drain_cpu_ns = 0,
           host_bytes = 0, device_flush_age_ns = 0;
  bool callback_ns_measured = false;
};
struct StepDurationRow {
  uint64_t index = 0, duration_ns = 0;
  uint32_t collecting = 0;  // 0 not, 1 warmup, 2 active, 3 finishing
};
struct NameCountRow {
  std::string name, domain;
  uint64_t count = 0;
  uint64_t registered = 0;  // of count: begun with a registered string
};

struct CycleReportData {
  uint32_t cycle = 0;
  cupti::GpuState gpu;
  std::vector<cupti::GpuState::Note> notes;  // what a reader must know beside the device's
  std::vector<cupti::KindState> kinds;
  CycleCost cost;
  uint64_t steps_ended = 0;  // of all, also those not in all_steps
  std::vector<StepDurationRow> all_steps;
  uint64_t overlapping_steps = 0, unmatched_ends = 0, truncated_names = 0, foreign_buffers = 0;
  std::vector<NameCountRow> top_ranges;
  uint64_t tail_wait_ns = 0, launches_awaited_in_vain = 0;
  int64_t wall_offset_ns = 0;
  uint64_t wall_error_ns = 0;  // 0: not told
};
// Leaves of `kept` (all rows that are kept) what is new since the last call, in report->all_steps: a
// thousand cycles then cost a thousand times one.
class NewStepRows {
 public:
  void Take(std::vector<StepDurationRow> kept, uint64_t ended, CycleReportData* report);
  // The same without taking them: a goodbye may be heard by another collector than the next report.
  [[nodiscard]] std::vector<StepDurationRow> Of(std::vector<StepDurationRow> kept) const;

 private:
  uint64_t until_ = 0;  // rows of steps below this have been taken
};
// The encoded AllSteps of batch.proto; "" before the first step ended. `ended`: of all steps.
[[nodiscard]] std::string EncodeAllSteps(uint64_t ended, const std::vector<StepDurationRow>& rows);
// The encoded CycleReport of batch.proto.
[[nodiscard]] std::string EncodeCycleReport(const CycleReportData& report);

// "collected", "partial" or "unavailable", as GpuStatus.status has it.
[[nodiscard]] const char* GpuStatusText(cupti::GpuState::Status status);

// The encoded LossReport of batch.proto: kinds of which nothing was ever produced are left out.
[[nodiscard]] std::string EncodeLossReport(const KindTotals (&totals)[kActivityKinds]);

}  // namespace stepagent::drain
