#include "collector/model/balance.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "collector/model/lost_batches.h"
#include "collector/model/verdict_notes.h"

namespace stepagent::model {
namespace {

bool NeedsDevice(Activity a) { return a != Activity::kNvtx; }

// Kinds made of CUPTI's own records.
bool IsDeviceRecord(Activity a) {
  return a == Activity::kKernel || a == Activity::kMemcpy || a == Activity::kMemset ||
         a == Activity::kOverhead;
}

Gpu FromReport(const v1::GpuStatus& g) {
  Gpu gpu;
  gpu.status = g.status().empty() ? "unavailable" : g.status();
  gpu.reason = g.reason();
  gpu.reason_code = g.reason_code();
  gpu.driver_version = g.driver_version();
  gpu.cupti_version = g.cupti_version();
  gpu.cupti_path = g.cupti_path();
  gpu.cupti_choice = g.cupti_choice();
  gpu.graph_level = g.graph_level();
  gpu.holder = g.holder();
  gpu.newer_cupti = g.newer_cupti();
  return gpu;
}

// The session ended before the agent reported on this cycle.
Gpu Inferred(const Verdict& v) {
  Gpu gpu;
  if (v.earlier_gpu != nullptr) gpu = *v.earlier_gpu;
  const bool was_collected = v.saw_device_work || gpu.status == "collected";
  gpu.reason_code = "not_reported";
  if (was_collected) {
    gpu.status = "partial";
    gpu.reason = "the session ended before the rest of this cycle's device records arrived";
  } else {
    gpu.status = "unavailable";
    gpu.reason = "no CUDA call and no device record arrived before the session ended";
  }
  return gpu;
}

void FillKinds(const Verdict& v, Cycle* cycle) {
  const bool has_report = v.pending->report.has_value();
  for (size_t i = 1; i < kActivityCount; ++i) {
    KindStatus& kind = cycle->kinds[i];
    kind.requested = v.requested.contains(static_cast<Activity>(i));
    const bool is_collecting = !cycle->HostOnly() || !NeedsDevice(static_cast<Activity>(i));
    if (!has_report) kind.enabled = kind.requested && is_collecting;
  }
  if (!has_report) return;
  for (const auto& k : v.pending->report->kinds()) {
    const auto i = static_cast<size_t>(k.activity());
    if (i == 0 || i >= kActivityCount) continue;
    cycle->kinds[i].requested = k.requested();
    cycle->kinds[i].enabled = k.enabled();
    cycle->kinds[i].error = k.error();
  }
}

// The agent says so itself where the drops may also be another cycle's: those are counted once.
bool MayShareDrops(const PendingCycle& p) {
  return std::any_of(p.notes.begin(), p.notes.end(),
                     [](const Note& note) { return note.code == "cupti_dropped"; });
}

void FillBalance(const Verdict& v, Cycle* cycle) {
  const CycleAssembly& a = *v.assembly;
  const bool may_share_drops = MayShareDrops(*v.pending);
  for (size_t i = 1; i < kActivityCount; ++i) {
    const auto activity = static_cast<Activity>(i);
    KindStatus& kind = cycle->kinds[i];
    Balance& b = cycle->balance[i];
    const uint64_t arrived =
        a.written()[i] + a.out_of_window()[i] + a.invalid()[i] + v.pending->out_of_window[i];
    const bool is_blind =
        NeedsDevice(activity) && (cycle->HostOnly() || (kind.requested && !kind.enabled));
    const bool was_asked =
        kind.requested || arrived > 0 || v.losses.dropped[i] > 0 || v.losses.invalid[i] > 0;
    if ((is_blind && arrived == 0) || !was_asked) continue;  // all null: nobody was there to count
    b.written = a.written()[i];
    b.out_of_window = a.out_of_window()[i] + v.pending->out_of_window[i];
    b.invalid = a.invalid()[i] + v.losses.invalid[i];
    if (kind.requested || arrived > 0) kind.observed = a.written()[i] + a.invalid()[i];
    // Switched off or failed while records came: what else there was, nobody knows.
    if (is_blind) continue;
    // CUPTI counts its drops without saying of which kind they were; nor does anybody know what a
    // buffer held behind a record that CUPTI's own iterator could not pass.
    const bool is_unknown =
        v.losses.is_unknown[i] ||
        (IsDeviceRecord(activity) && (may_share_drops || v.losses.is_unknown[0] ||
                                      v.losses.dropped[0] > 0 || v.losses.invalid[0] > 0));
    if (is_unknown) continue;  // dropped and produced stay null
    b.dropped = v.losses.dropped[i];
    b.produced = *b.written + *b.dropped + *b.out_of_window + *b.invalid;
  }
}

// All of it, as far as anybody can tell: not a kind that failed while records came.
bool IsCounted(const Cycle& cycle, Activity a) {
  const KindStatus& kind = cycle.kinds[static_cast<size_t>(a)];
  return cycle.balance[static_cast<size_t>(a)].written.has_value() &&
         (kind.enabled || !kind.requested);
}

bool IsObserved(const Cycle& cycle, Activity a) {
  return cycle.balance[static_cast<size_t>(a)].written.has_value();
}

// Device counts that nobody could take are empty, not zero; so are those of a step that ran in part
// before CUPTI was ready. Device work is of the step that
// launched it: without launches nobody knows whose it is.
void BlankUnobserved(Cycle* cycle) {
  const bool has_launches = cycle->SeesLaunches();
  const auto blank = [cycle, has_launches](auto* counts) {
    if (!has_launches || !IsCounted(*cycle, Activity::kKernel)) counts->kernels.reset();
    if (!has_launches || !IsCounted(*cycle, Activity::kMemcpy)) counts->copies.reset();
    if (!has_launches || !IsCounted(*cycle, Activity::kMemset)) counts->sets.reset();
  };
  for (Step& step : cycle->steps) {
    blank(&step);
    if (step.partial) step.kernels.reset(), step.copies.reset(), step.sets.reset();
  }
  blank(&cycle->outside_steps);
  if (cycle->HostOnly()) cycle->device_residual_ns.reset();
}

// Per kernel is also what is left where no record of graph launches could be asked for: without a
// graph, and unasked, it says nothing.
void BlankGraphLevel(const Verdict& v, Cycle* cycle) {
  const auto asked = cycle->session.settings.find("graph");
  const bool was_asked = asked != cycle->session.settings.end() && asked->second == "node";
  if (cycle->gpu.graph_level != "node" || was_asked || v.assembly->has_graph()) return;
  cycle->gpu.graph_level.clear();
}

void FillJoins(const Verdict& v, Cycle* cycle) {
  if (!IsObserved(*cycle, Activity::kLaunch)) return;
  uint64_t launches = 0, failed = 0, captured = 0, without_work = 0;
  const bool has_kernels = IsObserved(*cycle, Activity::kKernel) &&
                           cycle->kinds[static_cast<size_t>(Activity::kKernel)].enabled;
  for (const Call& call : cycle->calls) {
    if (call.cls != CallClass::kLaunch && call.cls != CallClass::kGraphLaunch) continue;
    ++launches;
    failed += call.failed ? 1 : 0;
    captured += call.captured ? 1 : 0;
    if (call.failed || call.captured || call.device_items > 0 || !has_kernels) continue;
    ++without_work;
    if (call.step != kNoStep) cycle->steps[static_cast<size_t>(call.step)].complete = false;
  }
  cycle->joins.launches = launches;
  cycle->joins.failed = failed;
  cycle->joins.captured = captured;
  if (!has_kernels) return;
  cycle->joins.launches_without_device_work = without_work;
  cycle->joins.device_work_without_launch = v.assembly->without_launch();
}

// Device records that launches are owed and that no count of losses explains, or that were not
// waited for: how many there were, nobody knows.
void BlankUnknownLosses(Cycle* cycle) {
  const Balance& kernels = cycle->balance[static_cast<size_t>(Activity::kKernel)];
  const uint64_t explained = kernels.dropped.value_or(0) + kernels.invalid.value_or(0);
  const uint64_t owed = cycle->joins.launches_without_device_work.value_or(0);
  if (!cycle->gpu.WasCutShort() && owed <= explained) return;
  for (size_t i = 1; i < kActivityCount; ++i) {
    if (!IsDeviceRecord(static_cast<Activity>(i))) continue;
    cycle->balance[i].produced.reset(), cycle->balance[i].dropped.reset();
  }
}

void FillCost(const v1::CycleReport& report, Cycle* cycle) {
  const auto& c = report.cost();
  const bool is_measured = c.callback_ns_measured();
  if (is_measured) cycle->cost.callback_ns = c.callback_ns();
  cycle->cost.callbacks = c.callbacks();
  cycle->cost.arm_wait_ns = c.arm_wait_ns();
  cycle->cost.arm_ns = c.arm_ns();
  cycle->cost.drain_cpu_ns = c.drain_cpu_ns();
  if (c.host_bytes() != 0) cycle->cost.host_bytes = c.host_bytes();
  if (!cycle->HostOnly()) cycle->cost.device_flush_age_ns = c.device_flush_age_ns();
}

void FillReport(const v1::CycleReport& report, Cycle* cycle) {
  FillCost(report, cycle);
  cycle->overlapping_steps = report.overlapping_steps();
  if (report.wall_error_ns() != 0) {
    cycle->wall_offset_ns = report.wall_offset_ns();
    cycle->wall_error_ns = report.wall_error_ns();
  }
  for (const auto& top : report.top_ranges()) {
    cycle->top_ranges.push_back({top.name(), top.domain(), top.count(), top.registered()});
  }
}

// Copies or sets whose device record never came.
uint64_t Unanswered(const Cycle& cycle, CallClass cls, Activity activity) {
  if (!IsObserved(cycle, activity) || !cycle.kinds[static_cast<size_t>(activity)].enabled) return 0;
  return static_cast<uint64_t>(
      std::count_if(cycle.calls.begin(), cycle.calls.end(), [cls](const Call& call) {
        const bool owes = !call.failed && !call.captured && !call.empty;
        return call.cls == cls && owes && call.device_items == 0;
      }));
}

// Steps that ran in part before CUPTI was ready: work of theirs was never recorded.
uint64_t PartialSteps(const Cycle& cycle) {
  if (cycle.HostOnly()) return 0;
  return static_cast<uint64_t>(std::count_if(cycle.steps.begin(), cycle.steps.end(),
                                             [](const Step& step) { return step.partial; }));
}

// What a cycle that ran to its end lacks, in words; "" when no device record is owed.
std::string WhatIsOwed(const Verdict& v, const Cycle& cycle) {
  if (cycle.gpu.WasCutShort()) return cycle.gpu.reason;
  if (const uint64_t partial = PartialSteps(cycle); partial > 0) {
    return Plural(partial, "active step") +
           " ran before CUPTI was ready (more warmup steps, or a longer --arm-wait)";
  }
  const uint64_t in_vain = v.pending->report ? v.pending->report->launches_awaited_in_vain() : 0;
  const uint64_t unfinished = v.assembly->unfinished(), untimed = v.assembly->impossible();
  const uint64_t launches = cycle.joins.launches_without_device_work.value_or(0);
  const bool is_lossy = IsTouchedByLoss(v, cycle);
  if (in_vain + launches + unfinished + untimed == 0 && !is_lossy) return {};
  const std::pair<uint64_t, const char*> owed[] = {
      {launches, "launch"},
      {Unanswered(cycle, CallClass::kMemcpy, Activity::kMemcpy), "copy call"},
      {Unanswered(cycle, CallClass::kMemset, Activity::kMemset), "set call"},
  };
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  for (const auto& [count, what] : owed) {
    if (count > 0) add(Plural(count, what));
  }
  if (text.empty() && in_vain > unfinished) add(Plural(in_vain - unfinished, "call"));
  if (!text.empty()) text += " without a device record";
  if (unfinished > 0) add(Plural(unfinished, "piece") + " of device work that had not ended");
  if (untimed > 0) add(Plural(untimed, "device record") + " with impossible times");
  if (is_lossy) add(LostText(v));
  return text;
}

// Complete: all that was planned ran, and the device's part of it arrived.
bool IsComplete(const Verdict& v, const Cycle& cycle) {
  const PendingCycle& p = *v.pending;
  if (!p.closed || !p.active_end) return false;
  const auto& schedule = cycle.session.schedule;
  const bool was_planned = schedule.has_value();
  const bool reached_plan =
      p.ended == "schedule" || (was_planned && p.ended != "limit" && p.ended != "error" &&
                                schedule->active == cycle.steps.size());
  const bool ended_by_user = p.ended == "signal" || p.ended == "request" || p.ended == "exit";
  if (!reached_plan && (was_planned || !ended_by_user)) return false;
  if (p.report && p.report->launches_awaited_in_vain() > 0) return false;
  if (cycle.joins.launches_without_device_work.value_or(0) > 0) return false;
  if (PartialSteps(cycle) > 0 || cycle.gpu.WasCutShort() || IsTouchedByLoss(v, cycle)) return false;
  return std::all_of(cycle.steps.begin(), cycle.steps.end(),
                     [](const Step& s) { return s.complete; });
}

}  // namespace

void FillVerdict(const Verdict& v, Cycle* cycle) {
  const bool has_gpu = v.pending->report && v.pending->report->has_gpu();
  cycle->gpu = has_gpu ? FromReport(v.pending->report->gpu()) : Inferred(v);
  FillKinds(v, cycle);
  if (v.pending->report) FillReport(*v.pending->report, cycle);
  FillBalance(v, cycle);
  BlankUnobserved(cycle);
  BlankGraphLevel(v, cycle);
  FillJoins(v, cycle);
  BlankUnknownLosses(cycle);
  MarkLossySteps(v, cycle);
  FillNotes(v, cycle);
  cycle->complete = IsComplete(v, *cycle);
  if (!cycle->complete && cycle->reason.empty()) cycle->reason = WhatIsOwed(v, *cycle);
}

}  // namespace stepagent::model
