// Requests: signals and `stepagent start|stop|toggle|status`.
#include "agent/agent.h"
#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/guard/log.h"
#include "proto/out_folder.h"

namespace stepagent::agent {
namespace {

using core::Ended;
using core::Gate;
using core::HostClock;
using core::Phase;
using core::StepGate;
using Answer = drain::ControlAnswerData;
using Verb = drain::ControlRequestData::Verb;

Answer::Verdict ToAnswer(StepGate::Verdict verdict) {
  switch (verdict) {
    case StepGate::Verdict::kOk:
      return Answer::Verdict::kOk;
    case StepGate::Verdict::kBusy:
      return Answer::Verdict::kBusy;
    case StepGate::Verdict::kRefused:
      break;
  }
  return Answer::Verdict::kRefused;
}

}  // namespace

core::Schedule ToCoreSchedule(const proto::ScheduleSetting& s) {
  return {s.skip_first, s.wait, s.warmup, s.active, s.repeat, s.skip_first_wait};
}

void Agent::PollRequests(uint64_t now_ns) {
  for (const drain::io::PendingRequest& pending : uplink_->TakeRequests()) {
    Answer answer;
    const auto request = drain::DecodeControlRequest(pending.payload);
    if (request) {
      answer = Handle(*request, now_ns);
    } else {
      answer.verdict = Answer::Verdict::kRefused;
      answer.reason = "not a request this version understands";
    }
    answer.status = Status();
    uplink_->Answer(pending.id, drain::EncodeControlAnswer(answer));
  }
}

drain::ControlAnswerData Agent::Handle(const drain::ControlRequestData& request, uint64_t now_ns) {
  Answer answer;
  answer.verdict = Answer::Verdict::kOk;
  switch (request.verb) {
    case Verb::kStatus:
      return answer;
    case Verb::kStart:
      return HandleStart(request, now_ns);
    case Verb::kStop:
      answer.verdict = ToAnswer(Gate().Stop(Ended::kRequest, false, HostClock::Ticks()));
      if (answer.verdict == Answer::Verdict::kBusy)
        answer.reason = "nothing to stop: no window is open";
      return answer;
    case Verb::kToggle:
      answer.verdict = ToAnswer(ApplyToggle(toggle_->OnRequest(now_ns, Gate().snapshot().phase),
                                            request.by_signal ? Ended::kSignal : Ended::kRequest));
      if (answer.verdict == Answer::Verdict::kBusy) answer.reason = "arming or closing a window";
      return answer;
    case Verb::kNone:
      break;
  }
  answer.verdict = Answer::Verdict::kRefused;
  answer.reason = "unknown request";
  return answer;
}

drain::ControlAnswerData Agent::HandleStart(const drain::ControlRequestData& request,
                                            uint64_t now_ns) {
  Answer answer;
  answer.verdict = Answer::Verdict::kRefused;
  const Phase phase = Gate().snapshot().phase;
  if (phase != Phase::kIdle && phase != Phase::kDone) {
    ++busy_count_;
    answer.verdict = Answer::Verdict::kBusy;
    answer.reason = std::string("already ") + core::PhaseName(phase);
    return answer;
  }
  proto::Settings wanted = settings_;
  for (const auto& [name, value] : request.settings) {
    if (const auto error = proto::ApplySetting(name, value, &wanted)) {
      answer.reason = error->Line();
      return answer;
    }
  }
  if (request.steps != 0) {
    wanted.schedule = proto::ScheduleSetting{0, 0, 1, request.steps, 1, false};
  } else if (request.duration_ns != 0) {
    wanted.schedule.reset();
  }
  answer.reason = AddRedaction(&wanted);
  if (answer.reason.empty()) answer.reason = WhyNotCapture(wanted);
  if (request.steps != 0 && !proto::HasStepSource(wanted)) {
    answer.reason = "--steps needs a step source: give --step, for instance nvtx:train_step" +
                    RangesSeen("; ranges seen:");
  }
  if (answer.reason.empty()) {
    if (const auto error = proto::CheckTogether(wanted)) answer.reason = error->Line();
  }
  if (!answer.reason.empty()) return answer;
  answer.verdict = ToAnswer(BeginCapture(wanted, request.at_step));
  if (answer.verdict == Answer::Verdict::kRefused) {
    const StepGate::Snapshot gate = Gate().snapshot();
    answer.reason = CapLine(gate);
    if (answer.reason.empty() && request.at_step != 0) {
      answer.reason = "step " + std::to_string(request.at_step - 1) +
                      " cannot be the first active one any more: the next step is " +
                      std::to_string(gate.process_index);
    }
  }
  if (answer.verdict == Answer::Verdict::kOk && request.duration_ns != 0) {
    stop_at_ns_ = now_ns + request.duration_ns;
  }
  return answer;
}

std::string Agent::WhyNotCapture(const proto::Settings& settings) const {
  // A collector that was named has a folder of its own.
  if (settings.collector == "auto") {
    const std::string problem = proto::WhyNotCreatable(settings.out);
    if (!problem.empty()) return problem + "; give " + proto::OutFolderCure();
  }
  const uint32_t device = settings.require & kDeviceKinds;
  if (device != 0 && !controller_->HasCuda()) {
    return "--require asks for device activity, and CUDA is not up in this process";
  }
  if (device != 0 && controller_->unmet_requirements() != 0) {
    return "--require asks for activity that could not be collected: " + controller_->last_error();
  }
  return {};
}

core::StepGate::Verdict Agent::BeginCapture(const proto::Settings& settings, uint64_t at_step) {
  if (settings.step.Text() != capture_.step.Text()) ApplyStepSource(settings.step);
  ApplyCapture(settings);
  stop_at_ns_ = 0;
  const uint64_t now = HostClock::Ticks();
  StepGate::Verdict verdict;
  if (!settings.schedule || !proto::HasStepSource(settings)) {
    verdict = Gate().ArmWhole(now);
  } else if (at_step != 0) {
    verdict = Gate().ArmAt(ToCoreSchedule(*settings.schedule), at_step - 1, now);
  } else {
    verdict = Gate().Arm(ToCoreSchedule(*settings.schedule), now);
  }
  if (verdict == StepGate::Verdict::kBusy) ++busy_count_;
  core::BumpAndWake(&core::g_words->wake);
  return verdict;
}

core::StepGate::Verdict Agent::ApplyToggle(trigger::ToggleAction action, core::Ended why) {
  switch (action) {
    case trigger::ToggleAction::kNone:
      return StepGate::Verdict::kOk;  // coalesced with the one before
    case trigger::ToggleAction::kBegin:
      return BeginCapture(settings_, 0);
    case trigger::ToggleAction::kCancel:
    case trigger::ToggleAction::kEnd:
      return Gate().Stop(why, /*at_once=*/false, HostClock::Ticks());
    case trigger::ToggleAction::kBusy:
      break;
  }
  ++busy_count_;
  return StepGate::Verdict::kBusy;
}

}  // namespace stepagent::agent
