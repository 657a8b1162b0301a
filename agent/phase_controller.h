#pragma once
// PhaseController: what a change of phase means for CUPTI, the drain and the report.
//
// Purpose: arm when a warmup begins, take the tail when a window ends, release the subscription
// before a long wait, write each cycle's report. The step gate decides when; this decides what.
// Thread rule: the thread `stepagent`; OnCuda also on the thread inside InitializeInjection. Both
// hold arm_mutex while they talk to CUPTI.
// Failure rule: a cycle that could not be armed is reported with its reason and uses up its place
// in the schedule; the next one tries again.
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/step_gate.h"
#include "agent/cupti/cupti_backend.h"
#include "agent/drain/cycle_report.h"
#include "agent/drain/drainer.h"
#include "proto/settings.h"

namespace stepagent::agent {

// Activities (batch.proto numbers) that need CUPTI: all but NVTX.
inline constexpr uint32_t kDeviceKinds =
    proto::ActivityBit(1) | proto::ActivityBit(2) | proto::ActivityBit(3) | proto::ActivityBit(4) |
    proto::ActivityBit(5) | proto::ActivityBit(7) | proto::ActivityBit(8);

// What one cycle records; `start` may change it before a cycle.
struct CaptureOptions {
  uint32_t activities = 0;
  uint32_t require = 0;
  bool graph_nodes = false;
  bool native_stacks = false;
  uint64_t max_window_ns = 0;
  uint64_t max_records = 0;
};

class PhaseController {
 public:
  PhaseController(core::StepGate* gate, cupti::CuptiBackend* backend);
  PhaseController(const PhaseController&) = delete;
  PhaseController& operator=(const PhaseController&) = delete;

  void SetDrainer(drain::Drainer* drainer) { drainer_ = drainer; }
  void SetOptions(const CaptureOptions& options) { options_ = options; }
  [[nodiscard]] const CaptureOptions& options() const { return options_; }

  // Application thread, inside the first cuInit: arms here when a window is already wanted.
  void OnCuda();
  void OnGateEvent(const core::GateEvent& event, uint64_t now_ns);
  // One round; returns when it wants the next (ns of CLOCK_MONOTONIC), 0: no need.
  uint64_t RunOnce(uint64_t now_ns);
  // The application is leaving: tails are given this long instead of the grace time.
  void SetGrace(uint64_t grace_ns) { grace_ns_ = grace_ns; }
  // The cap that the next end by kLimit is for.
  void NameLimit(std::string reason) { limit_reason_ = std::move(reason); }

  [[nodiscard]] bool IsRecording() const { return recording_ || !closing_.empty(); }
  [[nodiscard]] bool IsArmed() const { return backend_->IsArmed(); }
  [[nodiscard]] bool HasCuda() const { return has_cuda_; }
  // Ordinals of the devices this process uses, as far as anybody told: contexts that CUPTI named
  // and, while nothing is recorded, primary contexts that are up.
  [[nodiscard]] std::vector<uint32_t> DevicesInUse();
  [[nodiscard]] uint32_t cycles_closed() const { return cycles_closed_; }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }
  // Steps that ended since the last report, for the goodbye: an encoded AllSteps.
  [[nodiscard]] std::string EncodeUntoldSteps();
  // Kinds of --require that the last cycle could not collect.
  [[nodiscard]] uint32_t unmet_requirements() const { return unmet_; }

 private:
  struct Collection {
    cupti::GpuState gpu;  // status unavailable: CUPTI had been lost by then, or never came
    std::vector<cupti::KindState> kinds;
  };
  struct ClosingCycle {
    uint32_t cycle;
    uint64_t since_ns;
    uint64_t next_flush_ns;
    uint64_t flush_pause_ns;
    bool is_fresh;      // no drain round since the window's end
    std::string limit;  // the cap that ended it, "" none
    uint64_t shared_drops = 0;
    Collection at_end;                  // of the window
    std::optional<Collection> at_last;  // before a newer cycle armed afresh
  };

  void BeginTail(const core::GateEvent& event, uint64_t now_ns);
  void ForgetFirstTry();
  void BeginCycle(uint32_t cycle);
  void LookForCuda();
  void ArmIfWanted(const core::StepGate::Snapshot& gate);
  void ArmLocked(bool inside_injection);
  [[nodiscard]] bool PrepareStacks();  // (m) held
  void EmitArmed();
  // phase_renewal.cc
  [[nodiscard]] cupti::ArmRequest Request(bool inside_injection);  // (m) held
  void RenewLocked();
  [[nodiscard]] uint32_t EnabledKinds() const;
  void NoteDrops();
  void TakeClockSample();  // (m) held
  void WatchWindow(const core::StepGate::Snapshot& gate, uint64_t now_ns);
  void CloseTails(const core::StepGate::Snapshot& gate, uint64_t now_ns);
  void FinishCycle(const core::StepGate::Snapshot& gate, uint64_t now_ns);
  [[nodiscard]] bool IsTailOver(const core::StepGate::Snapshot& gate, uint64_t now_ns) const;
  void CollectComplete(uint64_t now_ns, bool forced);
  void DisarmAndCollect(uint64_t now_ns);
  void DropCancelled(const core::StepGate::Snapshot& gate);
  void ReleaseIfIdle(const core::StepGate::Snapshot& gate);
  [[nodiscard]] uint64_t NextWake(const core::StepGate::Snapshot& gate, uint64_t now_ns) const;
  // cycle_reporting.cc
  [[nodiscard]] drain::CycleReportData MakeReport(const ClosingCycle& closing, uint64_t tail_ns,
                                                  uint64_t in_vain);
  [[nodiscard]] std::vector<drain::StepDurationRow> KeptStepRows(uint64_t* ended);
  void FillAllSteps(drain::CycleReportData* report);
  void DescribeGpu(const ClosingCycle& closing, drain::CycleReportData* report);
  void DescribeKinds(const ClosingCycle& closing, drain::CycleReportData* report);
  void NoteOtherKinds(drain::CycleReportData* report);
  void NoteDroppedSteps(drain::CycleReportData* report);
  void ForgiveLateLoss(const ClosingCycle& closing, drain::CycleReportData* report);
  void NoteSecondTry(drain::CycleReportData* report);
  void DescribeStacks(drain::CycleReportData* report);
  void NoteResult(const drain::CycleReportData& report);

  core::StepGate* const gate_;
  cupti::CuptiBackend* const backend_;
  drain::Drainer* drainer_ = nullptr;
  CaptureOptions options_;
  std::deque<ClosingCycle> closing_;
  pthread_mutex_t arm_mutex_ = PTHREAD_MUTEX_INITIALIZER;  // CUPTI, and the members marked (m)
  uint64_t grace_ns_;
  uint64_t arm_ns_ = 0;                           // (m) the last arming took this long
  uint64_t armed_at_ticks_ = 0;                   // (m) armed, not yet told to the collector
  bool arm_tried_ = false;                        // (m) and not disarmed since
  bool cycle_tried_ = false;                      // (m) in this cycle
  bool came_too_early_ = false;                   // (m) refused inside the application's cuInit
  std::atomic<bool> armed_at_second_try_{false};  // and not yet reported
  bool callbacks_on_ = false;                     // (m)
  bool must_renew_ = false;                       // (m) a cycle began while armed for an older one
  uint64_t arm_wait_before_ = 0;
  cupti::CallbackTime callbacks_before_;
  uint64_t cpu_before_ns_ = 0;
  std::vector<cupti::KindCount> other_kinds_before_;
  uint64_t odd_lengths_before_ = 0, steps_dropped_before_ = 0;
  uint64_t drops_seen_ = 0;    // of CUPTI's count
  uint64_t shared_drops_ = 0;  // the cycle in progress may have some of these
  uint64_t next_active_flush_ns_ = 0;
  uint64_t window_begin_ticks_ = 0;
  uint32_t cycle_ = 0;  // cycle in progress
  uint32_t cycles_closed_ = 0;
  uint32_t unmet_ = 0;
  bool recording_ = false;  // between warmup begin and window end
  bool cancelled_ = false;
  bool cuda_found_late_ = false;  // in this cycle's window, and it may have been up before
  std::atomic<bool> has_cuda_{false};
  drain::NewStepRows new_step_rows_;
  std::string told_host_only_;  // the reason that a line was written for, host only or cut short
  std::string stacks_problem_;  // (m) why none are taken; "" none
  uint64_t stacks_full_before_ = 0, stacks_not_taken_before_ = 0;
  std::string limit_reason_;
  std::string last_error_;
};

// CPU time of the calling thread so far.
[[nodiscard]] uint64_t ThreadCpuNs();
// The most frequent ranges seen, for reports, status and the line about steps that never come.
[[nodiscard]] std::vector<drain::NameCountRow> TopRangeRows(uint32_t most);

}  // namespace stepagent::agent
