#include "agent/drain/cycle_report.h"

#include <algorithm>
#include <utility>

#include "agent/drain/column.h"
#include "agent/drain/fields.h"
#include "agent/drain/message_writer.h"

namespace stepagent::drain {
namespace {

using ReportWriter = protozero::pbf_builder<wire::CycleReport>;

void WriteGpu(ReportWriter* report, const cupti::GpuState& gpu) {
  using enum wire::GpuStatus;
  protozero::pbf_builder<wire::GpuStatus> message(*report, wire::CycleReport::gpu);
  PutText(&message, status, GpuStatusText(gpu.status));
  PutText(&message, reason, gpu.reason);
  PutText(&message, reason_code, gpu.reason_code);
  PutUint(&message, driver_version, gpu.driver_version);
  PutUint(&message, cupti_version, gpu.cupti_version);
  PutText(&message, cupti_path, gpu.cupti_path);
  PutText(&message, cupti_choice, gpu.cupti_choice);
  PutText(&message, graph_level, gpu.graph_level);
  PutText(&message, holder, gpu.holder);
  PutBool(&message, newer_cupti, gpu.newer_cupti);
}

void WriteKinds(ReportWriter* report, const std::vector<cupti::KindState>& kinds) {
  using enum wire::KindStatus;
  for (const cupti::KindState& kind : kinds) {
    protozero::pbf_builder<wire::KindStatus> message(*report, wire::CycleReport::kinds);
    PutUint(&message, activity, kind.activity);
    PutBool(&message, requested, kind.requested);
    PutBool(&message, enabled, kind.enabled);
    PutText(&message, error, kind.error);
  }
}

void WriteCost(ReportWriter* report, const CycleCost& cost) {
  using enum wire::Cost;
  protozero::pbf_builder<wire::Cost> message(*report, wire::CycleReport::cost);
  PutUint(&message, callback_ns, cost.callback_ns);
  PutUint(&message, callbacks, cost.callbacks);
  PutUint(&message, arm_wait_ns, cost.arm_wait_ns);
  PutUint(&message, arm_ns, cost.arm_ns);
  PutUint(&message, drain_cpu_ns, cost.drain_cpu_ns);
  PutUint(&message, host_bytes, cost.host_bytes);
  PutUint(&message, device_flush_age_ns, cost.device_flush_age_ns);
  PutBool(&message, callback_ns_measured, cost.callback_ns_measured);
}

void WriteLoss(protozero::pbf_builder<wire::LossReport>* report, uint32_t kind,
               const KindTotals& totals) {
  using enum wire::KindLoss;
  protozero::pbf_builder<wire::KindLoss> message(*report, wire::LossReport::kinds);
  PutUint(&message, activity, kind);
  PutUint(&message, produced, totals.produced);
  PutUint(&message, sent, totals.sent);
  PutUint(&message, dropped_ring_full, totals.dropped_ring_full);
  PutUint(&message, dropped_no_ring, totals.dropped_no_ring);
  PutUint(&message, dropped_uplink, totals.dropped_uplink);
  PutUint(&message, dropped_cupti, totals.dropped_cupti);
  PutUint(&message, dropped_limit, totals.dropped_limit);
  PutUint(&message, invalid, totals.invalid);
  PutBool(&message, cupti_count_unknown, totals.cupti_count_unknown);
}

}  // namespace

const char* GpuStatusText(cupti::GpuState::Status status) {
  switch (status) {
    case cupti::GpuState::Status::kCollected:
      return "collected";
    case cupti::GpuState::Status::kPartial:
      return "partial";
    case cupti::GpuState::Status::kUnavailable:
      break;
  }
  return "unavailable";
}

std::string EncodeLossReport(const KindTotals (&totals)[kActivityKinds]) {
  std::string bytes;
  protozero::pbf_builder<wire::LossReport> report(bytes);
  for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
    const KindTotals& t = totals[kind];
    if (t.produced != 0 || t.cupti_count_unknown) WriteLoss(&report, kind, t);
  }
  return bytes;
}

std::string EncodeAllSteps(uint64_t ended, const std::vector<StepDurationRow>& rows) {
  std::string bytes;
  if (ended == 0) return bytes;
  using enum wire::AllSteps;
  protozero::pbf_builder<wire::AllSteps> message(bytes);
  PutUint(&message, count, ended);
  // `count` is that of all steps, not of the entries: columns are given in full, zeros too.
  std::string column;
  const auto put = [&](wire::AllSteps field, auto&& value_of) {
    column.clear();
    for (const StepDurationRow& row : rows) {
      protozero::add_varint_to_buffer(&column, value_of(row));
    }
    PutBytes(&message, field, column);
  };
  put(index, [](const StepDurationRow& row) { return row.index; });
  put(duration_ns, [](const StepDurationRow& row) { return row.duration_ns; });
  put(collecting, [](const StepDurationRow& row) { return row.collecting; });
  return bytes;
}

// A row is new when its step is: rows are written in the order of steps, whichever place they take.
std::vector<StepDurationRow> NewStepRows::Of(std::vector<StepDurationRow> kept) const {
  std::erase_if(kept, [this](const StepDurationRow& row) { return row.index < until_; });
  return kept;
}

void NewStepRows::Take(std::vector<StepDurationRow> kept, uint64_t ended,
                       CycleReportData* report) {
  report->steps_ended = ended;
  report->all_steps = Of(std::move(kept));
  for (const StepDurationRow& row : report->all_steps) until_ = std::max(until_, row.index + 1);
}

std::string EncodeCycleReport(const CycleReportData& data) {
  using enum wire::CycleReport;
  std::string bytes;
  ReportWriter report(bytes);
  PutUint(&report, cycle, data.cycle);
  WriteGpu(&report, data.gpu);
  WriteKinds(&report, data.kinds);
  WriteCost(&report, data.cost);
  PutBytes(&report, all_steps, EncodeAllSteps(data.steps_ended, data.all_steps));
  PutUint(&report, overlapping_steps, data.overlapping_steps);
  PutUint(&report, unmatched_ends, data.unmatched_ends);
  PutUint(&report, truncated_names, data.truncated_names);
  PutUint(&report, foreign_buffers, data.foreign_buffers);
  for (const NameCountRow& row : data.top_ranges) {
    protozero::pbf_builder<wire::NameCount> message(report, top_ranges);
    PutBytes(&message, wire::NameCount::name, row.name);
    PutBytes(&message, wire::NameCount::domain, row.domain);
    PutUint(&message, wire::NameCount::count, row.count);
    PutUint(&message, wire::NameCount::registered, row.registered);
  }
  PutUint(&report, tail_wait_ns, data.tail_wait_ns);
  PutUint(&report, launches_awaited_in_vain, data.launches_awaited_in_vain);
  PutSigned(&report, wall_offset_ns, data.wall_offset_ns);
  PutUint(&report, wall_error_ns, data.wall_error_ns);
  return bytes;
}

}  // namespace stepagent::drain
