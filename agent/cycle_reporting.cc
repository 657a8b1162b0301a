// The report of a cycle: what only the agent knows, gathered when its tail is in.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/ring_registry.h"
#include "agent/cupti/availability.h"
#include "agent/guard/log.h"
#include "agent/nvtx/nvtx_entry.h"
#include "agent/phase_controller.h"
#include "agent/unwind/stack_capture.h"

namespace stepagent::agent {
namespace {

using core::HostClock;
using cupti::GpuState;

uint64_t TicksToNs(uint64_t ticks) {
  const uint64_t base = HostClock::Ticks();
  return static_cast<uint64_t>(HostClock::ToNs(base + ticks) - HostClock::ToNs(base));
}

constexpr uint32_t kLastActivity = 8;  // batch.proto Activity
constexpr uint32_t kLaunch = 4, kNvtx = 6;
constexpr uint32_t kTopRanges = 10;

// The session's clock ticks at a rate that was measured once: after an hour it may be milliseconds
// off the wall clock, and ranks compared by it as far apart.
void FillWallOffset(drain::CycleReportData* report) {
  const HostClock::Sample now = HostClock::TakeSample(nullptr, nullptr);
  report->wall_offset_ns = now.real_ns - now.host_ns - HostClock::base_unix_ns();
  report->wall_error_ns = uint64_t{now.bracket_ns} / 2 + 1;
}

}  // namespace

drain::CycleReportData PhaseController::MakeReport(const ClosingCycle& closing, uint64_t tail_ns,
                                                   uint64_t in_vain) {
  drain::CycleReportData report;
  report.cycle = closing.cycle;
  report.tail_wait_ns = tail_ns;
  report.launches_awaited_in_vain = in_vain;
  DescribeGpu(closing, &report);
  DescribeKinds(closing, &report);
  ForgiveLateLoss(closing, &report);
  if (closing.shared_drops != 0) {
    report.gpu.notes.push_back(
        {"cupti_dropped", "CUPTI dropped " + std::to_string(closing.shared_drops) +
                              " device records while work of this and of other cycles was "
                              "outstanding, and does not say of which cycle or kind"});
  }
  NoteOtherKinds(&report);
  if (options_.native_stacks) DescribeStacks(&report);
  const cupti::BackendCounters counters = backend_->counters();
  if (counters.records_odd_length > odd_lengths_before_) {
    report.gpu.notes.push_back(
        {"odd_record_lengths",
         "CUPTI wrote records of another length than its iterator told at the start: " +
             std::to_string(counters.records_odd_length - odd_lengths_before_)});
  }
  odd_lengths_before_ = counters.records_odd_length;
  if (cuda_found_late_) {
    report.notes.push_back(
        {"cuda_found_late",
         "CUDA was found in use when the window was open already (nothing told of its start): what "
         "was launched before collection came on is missing"});
  }
  NoteSecondTry(&report);
  NoteDroppedSteps(&report);
  report.cost.callbacks = counters.callbacks.callbacks - callbacks_before_.callbacks;
  const std::optional<uint64_t> ticks = counters.callbacks.TicksSince(callbacks_before_);
  report.cost.callback_ns_measured = ticks.has_value();
  report.cost.callback_ns = TicksToNs(ticks.value_or(0));
  report.cost.arm_wait_ns = gate_->arm_wait_ns() - arm_wait_before_;
  report.cost.arm_ns = arm_ns_;
  report.cost.drain_cpu_ns = ThreadCpuNs() - cpu_before_ns_;
  report.cost.host_bytes =
      core::RingRegistry::bytes() + counters.buffer_bytes + unwind::StackCapture::table().bytes();
  report.foreign_buffers = counters.foreign_buffers;
  report.truncated_names = core::NameTable::truncated();
  report.overlapping_steps = gate_->snapshot().overlapping;
  report.unmatched_ends = nvtx::counters().unmatched_ends;
  FillWallOffset(&report);
  FillAllSteps(&report);
  report.top_ranges = TopRangeRows(kTopRanges);
  return report;
}

void PhaseController::NoteSecondTry(drain::CycleReportData* report) {
  if (!armed_at_second_try_.exchange(false, std::memory_order_relaxed)) return;
  report->gpu.notes.push_back(
      {"armed_at_second_try",
       "collection could not be switched on inside the application's cuInit (its driver was not "
       "yet "
       "up for the first libcupti tried): what was launched before the second try is missing"});
}

// Steps of a microsecond and cycles of one such step outrun any drain: they are in no trace.
void PhaseController::NoteDroppedSteps(drain::CycleReportData* report) {
  const uint64_t dropped = gate_->events_dropped();
  if (dropped == steps_dropped_before_) return;
  const std::string text =
      std::to_string(dropped - steps_dropped_before_) +
      " steps or cycles, by the time this cycle was closed, came faster than they could be taken "
      "and are in no trace: choose a longer step (--step), or more active steps a cycle";
  if (steps_dropped_before_ == 0) guard::Log(proto::LogLevel::kWarn, text);
  report->notes.push_back({"steps_dropped", text});
  steps_dropped_before_ = dropped;
}

std::vector<drain::StepDurationRow> PhaseController::KeptStepRows(uint64_t* ended) {
  std::vector<core::StepGate::StepDuration> rows(2 * core::StepGate::kKeptDurations);
  const uint32_t count =
      gate_->CopyDurations(rows.data(), static_cast<uint32_t>(rows.size()), ended);
  std::vector<drain::StepDurationRow> kept;
  kept.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    kept.push_back({rows[i].index, TicksToNs(rows[i].ticks), rows[i].collecting});
  }
  return kept;
}

void PhaseController::FillAllSteps(drain::CycleReportData* report) {
  uint64_t ended = 0;
  std::vector<drain::StepDurationRow> kept = KeptStepRows(&ended);
  new_step_rows_.Take(std::move(kept), ended, report);
}

std::string PhaseController::EncodeUntoldSteps() {
  uint64_t ended = 0;
  std::vector<drain::StepDurationRow> kept = KeptStepRows(&ended);
  return drain::EncodeAllSteps(ended, new_step_rows_.Of(std::move(kept)));
}

std::vector<drain::NameCountRow> TopRangeRows(uint32_t most) {
  // Registered and plain strings of one text are counted apart: twice the room, then joined.
  std::vector<nvtx::SeenRange> seen(size_t{2} * most);
  const uint32_t count = nvtx::TopRanges(seen.data(), static_cast<uint32_t>(seen.size()));
  std::vector<drain::NameCountRow> rows;
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name = core::NameTable::Text(seen[i].name);
    const std::string_view domain = core::NameTable::Text(seen[i].domain);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const drain::NameCountRow& r) {
      return r.name == name && r.domain == domain;
    });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {std::string(name), std::string(domain)});
    }
    row->count += seen[i].count;
    if (seen[i].is_registered) row->registered += seen[i].count;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

void PhaseController::DescribeGpu(const ClosingCycle& closing, drain::CycleReportData* report) {
  GpuState& state = report->gpu;
  if ((options_.activities & kDeviceKinds) == 0) {
    state.reason_code = "not_asked";
    state.reason = "no device activity was asked for (--activities)";
  } else if (backend_->MustNoteCuda() && backend_->CudaIsMapped()) {
    const cupti::Reason reason = cupti::ForkedChildReason();
    state.reason_code = reason.code;
    state.reason = reason.sentence;
  } else if (!has_cuda_.load(std::memory_order_acquire)) {
    state.reason_code = "no_driver";
    state.reason = backend_->CudaIsMapped()
                       ? "CUDA was never initialised in this process"
                       : "no CUDA driver library (libcuda.so.1) was loaded into this process";
  } else if (!cycle_tried_) {
    state.reason_code = "too_late";
    state.reason =
        "the window was over before collection could be switched on (give the schedule a warmup "
        "step, or raise --arm-wait)";
  } else {
    state = closing.at_last ? closing.at_last->gpu : backend_->state();
  }
  if (state.graph_level.empty()) state.graph_level = options_.graph_nodes ? "node" : "graph";
}

// CUPTI was ended behind the window, or its last flush failed, and every launch of the window has
// its record: nothing is missing.
void PhaseController::ForgiveLateLoss(const ClosingCycle& closing, drain::CycleReportData* report) {
  const bool was_followed = (options_.activities & proto::ActivityBit(kLaunch)) != 0;
  const bool was_late = backend_->IsLost() || report->gpu.reason_code == "flush_failed";
  if (!was_late || !was_followed || report->launches_awaited_in_vain != 0) return;
  const GpuState& at_end = closing.at_end.gpu;
  if (at_end.status == GpuState::Status::kUnavailable) return;
  report->gpu.status = at_end.status;
  report->gpu.reason_code = at_end.reason_code;
  report->gpu.reason = at_end.reason;
  for (cupti::KindState& kind : report->kinds) {
    for (const cupti::KindState& was : closing.at_end.kinds) {
      if (was.activity == kind.activity) kind = was;
    }
  }
}

// One row per activity, also for those that CUPTI was never asked for.
void PhaseController::DescribeKinds(const ClosingCycle& closing, drain::CycleReportData* report) {
  if (closing.at_last) {
    report->kinds = closing.at_last->kinds;
  } else if (has_cuda_.load(std::memory_order_acquire)) {
    report->kinds = backend_->kinds();
  }
  for (uint32_t activity = 1; activity <= kLastActivity; ++activity) {
    bool is_there = false;
    for (const cupti::KindState& kind : report->kinds) is_there |= kind.activity == activity;
    if (is_there) continue;
    cupti::KindState kind;
    kind.activity = activity;
    kind.requested = (options_.activities & proto::ActivityBit(activity)) != 0;
    kind.enabled = kind.requested && activity == kNvtx;
    if (kind.requested && !kind.enabled) kind.error = report->gpu.reason;
    report->kinds.push_back(std::move(kind));
  }
}

// Another client in the process switched them on, or CUPTI writes what nobody asked for: no record
// of ours is lost by it, and a reader is told what else there was.
void PhaseController::NoteOtherKinds(drain::CycleReportData* report) {
  std::string text;
  std::vector<cupti::KindCount> now = backend_->other_kinds();
  for (const cupti::KindCount& one : now) {
    uint64_t before = 0;
    for (const cupti::KindCount& earlier : other_kinds_before_) {
      if (earlier.kind == one.kind) before = earlier.count;
    }
    if (one.count <= before) continue;
    const bool is_beyond = one.kind >= cupti::CuptiBackend::kBeyondKinds;
    text += (text.empty() ? "" : ", ") + std::to_string(one.count - before) + " of kind " +
            std::to_string(one.kind) + (is_beyond ? " or above" : "");
  }
  other_kinds_before_ = std::move(now);
  if (text.empty()) return;
  report->gpu.notes.push_back(
      {"other_kinds", "CUPTI also delivered records that were not asked for here: " + text});
}

void PhaseController::DescribeStacks(drain::CycleReportData* report) {
  std::vector<GpuState::Note>& notes = report->notes;
  if (!stacks_problem_.empty()) {
    notes.push_back({"stacks_unavailable", "launches have no stacks: " + stacks_problem_});
    return;
  }
  const uint64_t full = unwind::StackCapture::table().overflowed() - stacks_full_before_;
  if (full != 0) {
    notes.push_back({"stack_table_full", std::to_string(full) +
                                             " launches came from places beyond the table of "
                                             "stacks: they are under (stack table full)"});
  }
  const uint64_t not_taken = unwind::StackCapture::not_taken() - stacks_not_taken_before_;
  if (not_taken != 0) {
    notes.push_back(
        {"stacks_not_taken", std::to_string(not_taken) +
                                 " launches have no stack: made in a signal handler "
                                 "that interrupted a walk, or nothing could be walked"});
  }
}

void PhaseController::NoteResult(const drain::CycleReportData& report) {
  unmet_ = 0;
  for (const cupti::KindState& kind : report.kinds) {
    const uint32_t bit = proto::ActivityBit(kind.activity);
    if ((options_.require & bit) != 0 && !kind.enabled) unmet_ |= bit;
  }
  const bool wanted = (options_.activities & kDeviceKinds) != 0;
  if (wanted && report.gpu.status == GpuState::Status::kPartial &&
      report.gpu.reason_code != "kinds_missing") {
    last_error_ = "device part cut short: " + report.gpu.reason;
    if (std::exchange(told_host_only_, report.gpu.reason) != report.gpu.reason) {
      guard::Log(proto::LogLevel::kWarn,
                 "cycle " + std::to_string(report.cycle) + ": " + last_error_);
    }
  }
  if (wanted && report.gpu.status == GpuState::Status::kUnavailable) {
    last_error_ = "host only: " + report.gpu.reason;
    if (std::exchange(told_host_only_, report.gpu.reason) != report.gpu.reason) {
      guard::Log(proto::LogLevel::kWarn, "cycle " + std::to_string(report.cycle) +
                                             " is host only: " + report.gpu.reason +
                                             " (stepagent doctor tells what to do)");
    }
  }
}

}  // namespace stepagent::agent
