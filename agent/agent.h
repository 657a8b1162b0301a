#pragma once
// Agent: owns every part that lives in the target.
//
// Purpose: start-up as a list of named steps, the body of the thread `stepagent`, requests, exit.
// Thread rule: Create, OnNvtx, OnCuda, OnProfiler and OnExit on application threads; the rest on
// the thread `stepagent`.
// Failure rule: fail-open. A step that fails makes the agent inert with one line; the application
// goes on as without us.
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/later_steps.h"
#include "agent/drain/drainer.h"
#include "agent/drain/io/uplink.h"
#include "agent/drain/redactor.h"
#include "agent/drain/session_messages.h"
#include "agent/identity.h"
#include "agent/phase_controller.h"
#include "agent/stub/stub.h"
#include "agent/trigger/profiler_range.h"
#include "agent/trigger/step_source.h"
#include "agent/trigger/toggle.h"
#include "proto/settings.h"

namespace stepagent::agent {

class Agent {
 public:
  // Reads the settings and starts. Inert when it could not; nullptr without memory. Called once per
  // process life, again in a forked child that becomes a session, after ForgetParent (which frees
  // nothing).
  [[nodiscard]] static Agent* Create(stepagent_stub* stub, char* const* environment) noexcept;

  static void ForgetParent() noexcept;

  [[nodiscard]] bool IsInert() const { return inert_; }
  void OnCuda();
  int OnNvtx(void* get_export_table);
  void OnProfiler(bool start);
  // atexit: ends an open cycle, says goodbye, waits a bounded time.
  void OnExit();

 private:
  struct StartStep {
    const char* name;
    bool (Agent::*run)();
  };

  Agent(stepagent_stub* stub, char* const* environment) : stub_(stub), environment_(environment) {}

  // --- start (agent_start.cc), in this order
  bool Start();
  bool ReadSettings();
  bool ApplyDefaults();
  bool ReadWho();
  bool MapCore();
  bool ConfigureGate();
  bool ConfigureSources();
  bool StartUplink();
  bool StartThreads();
  bool ArmAtStart();
  void GoInert(const std::string& reason);

  // --- the thread `stepagent` (agent.cc)
  static void* ThreadBody(void* self);
  // One round. Returns when the next is due (ns of CLOCK_MONOTONIC), 0: only when woken.
  uint64_t RunOnce(uint64_t now_ns);
  uint64_t Record(uint64_t now_ns);
  void PollSignals(uint64_t now_ns);
  void PollCollector();
  void OnGateEvent(const core::GateEvent& event);
  void ConnectCollector();
  uint64_t WatchForSteps(uint64_t now_ns);
  [[nodiscard]] std::string NoStepsLine() const;
  void SayHeldUp(const char* why) const;
  // `head` and the most frequent ranges as values of --step; empty where none was seen.
  [[nodiscard]] static std::string RangesSeen(const char* head);
  [[nodiscard]] static std::string CapLine(const core::StepGate::Snapshot& gate);
  uint64_t LetCollectorGo(const core::StepGate::Snapshot& gate, uint64_t now_ns);
  [[nodiscard]] uint64_t RecordedSteps() const;  // of one cycle
  [[nodiscard]] uint64_t AwaitLaterSteps(const core::StepGate::Snapshot& gate, uint64_t now_ns);
  [[nodiscard]] bool AwaitsFile() const;
  void SayGoodbye(uint64_t now_ns, const char* why);
  void LogPhase(const core::StepGate::Snapshot& gate);
  void Leave(uint64_t now_ns);
  void LeaveWithLastThread(uint64_t now_ns);

  // --- requests (agent_control.cc)
  void PollRequests(uint64_t now_ns);
  [[nodiscard]] drain::ControlAnswerData Handle(const drain::ControlRequestData& request,
                                                uint64_t now_ns);
  [[nodiscard]] drain::ControlAnswerData HandleStart(const drain::ControlRequestData& request,
                                                     uint64_t now_ns);
  [[nodiscard]] drain::AgentStatusData Status();
  // Begins a capture as toggle and `start` do: the schedule or, without a step source, a window.
  [[nodiscard]] core::StepGate::Verdict BeginCapture(const proto::Settings& settings,
                                                     uint64_t at_step);
  [[nodiscard]] std::string WhyNotCapture(const proto::Settings& settings) const;
  void ApplyCapture(const proto::Settings& settings);
  void ApplyStepSource(const proto::StepSetting& step);
  core::StepGate::Verdict ApplyToggle(trigger::ToggleAction action, core::Ended why);

  // --- what is told (agent_redaction.cc)
  void ReadRedactKey();
  // Makes the redactor for what capture_ asks for; redaction of a session never gets less.
  void ApplyRedaction();
  // "" or why a capture cannot redact what `settings` asks for; adds what is in force already.
  [[nodiscard]] std::string AddRedaction(proto::Settings* settings) const;
  [[nodiscard]] proto::Settings Redacted(const proto::Settings& settings) const;

  // --- messages (agent_messages.cc)
  [[nodiscard]] std::string EncodeHello() const;
  [[nodiscard]] std::string CollectorProgram() const;
  [[nodiscard]] std::string CollectorAddressText() const;

  stepagent_stub* const stub_;
  char* const* const environment_;
  proto::Settings settings_;
  proto::Settings capture_;  // settings in force for the capture in progress
  Identity identity_;
  proto::HashKey redact_key_;
  std::unique_ptr<drain::Redactor> redactor_;  // nullptr: nothing is redacted
  bool inert_ = false;
  bool whole_run_ = false;  // `run` with neither step source nor schedule
  bool has_step_source_ = false;

  std::unique_ptr<drain::io::Uplink> uplink_;
  std::unique_ptr<drain::Drainer> drainer_;
  std::unique_ptr<PhaseController> controller_;
  std::unique_ptr<trigger::Toggle> toggle_;
  std::unique_ptr<trigger::StepSource> source_;
  std::unique_ptr<trigger::ProfilerRange> profiler_;
  std::string control_folder_;

  core::LaterSteps later_steps_;
  uint32_t signals_seen_ = 0;
  uint64_t busy_count_ = 0;
  uint64_t stop_at_ns_ = 0;   // start --for
  uint64_t watch_at_ns_ = 0;  // the line about steps that never come
  bool wants_collector_ = false;
  bool hello_is_current_ = false;  // the collector was told the settings in force
  bool is_linked_ = false;         // the collector is held
  bool said_signal_taken_ = false;
  bool throttled_ = false;
  bool watch_said_ = false;
  bool cap_said_ = false;
  std::string reported_trouble_;
  core::Phase logged_phase_ = core::Phase::kIdle;
  std::string last_error_;
  std::deque<std::string> written_;  // the newest files, for `status`
  uint32_t cycles_written_ = 0;
  uint32_t cycles_lost_ = 0;  // closed while the collector refused this session
  uint32_t cycles_begun_ = 0;

  bool leave_begun_ = false, leave_had_cycle_ = false, goodbye_sent_ = false;
  std::atomic<uint32_t> main_ended_{0};  // the main thread left by pthread_exit
  std::atomic<uint64_t> leave_deadline_ns_{0};
  std::atomic<uint32_t> leaving_{0};  // 1: at exit, 2: and the thread is to say goodbye
  std::atomic<uint32_t> left_{0};     // futex word: 1 when the thread is done
  std::atomic<uint32_t> session_begun_{0};
};

[[nodiscard]] core::Schedule ToCoreSchedule(const proto::ScheduleSetting& schedule);

}  // namespace stepagent::agent
