#include "collector/cli/common_step.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace stepagent::cli {
namespace {

using launch::Answer;
using Clock = std::chrono::steady_clock;
// Between two looks at the step counts: long enough to see steps of a tenth of a second pass.
constexpr int kPaceMs = 500;
// Ahead of the fastest, first try; doubled with each further one. Requests take milliseconds.
constexpr double kFirstLeadSeconds = 1.0;
constexpr int kTries = 5;
// For a step that begins while we look, and for one whose pace could not be seen.
constexpr uint64_t kMargin = 2;

std::vector<proto::AgentEntry> AgentsOf(const std::vector<Answer>& answers) {
  std::vector<proto::AgentEntry> agents;
  for (const Answer& answer : answers) agents.push_back(answer.agent);
  return agents;
}

v1::ControlAnswer::Verdict VerdictOf(const Answer& answer) {
  return answer.message ? answer.message->verdict() : v1::ControlAnswer::REFUSED;
}

// Refused because the step is past, and for no other reason: farther ahead it would do.
bool IsTooLate(const Answer& answer, uint64_t at_step, uint64_t warmup) {
  return answer.message && answer.message->verdict() == v1::ControlAnswer::REFUSED &&
         answer.message->status().step() + warmup > at_step;
}

void StopStarted(const std::vector<Answer>& answers) {
  std::vector<proto::AgentEntry> started;
  for (const Answer& answer : answers)
    if (VerdictOf(answer) == v1::ControlAnswer::OK) started.push_back(answer.agent);
  static_cast<void>(launch::AskAll(started, launch::MakeRequest(v1::ControlRequest::STOP)));
}

}  // namespace

bool CountsTogether(const std::vector<Answer>& targets, const v1::ControlRequest& request) {
  if (targets.size() < 2 || request.duration_ns() != 0) return false;
  std::string source;
  for (const Answer& target : targets) {
    if (!target.message) return false;
    const std::string& own = target.message->status().step_source();
    if (!own.starts_with("nvtx") || (!source.empty() && own != source)) return false;
    source = own;
  }
  // Steps of another name have not been counted so far.
  const auto step = request.settings().find("step");
  return step == request.settings().end() || step->second == source;
}

uint64_t ChooseStep(const std::vector<Answer>& before, const std::vector<Answer>& now,
                    double seconds_between, double lead_seconds, uint64_t warmup) {
  uint64_t furthest = 0, most = 0;
  for (size_t i = 0; i < now.size() && i < before.size(); ++i) {
    if (!now[i].message) continue;
    const uint64_t step = now[i].message->status().step();
    const uint64_t earlier = before[i].message ? before[i].message->status().step() : step;
    furthest = std::max(furthest, step);
    most = std::max(most, step - std::min(step, earlier));
  }
  const double pace = seconds_between > 0 ? static_cast<double>(most) / seconds_between : 0;
  return furthest + warmup + kMargin + static_cast<uint64_t>(std::ceil(pace * lead_seconds));
}

CommonStart StartTogether(const std::vector<Answer>& targets, v1::ControlRequest request,
                          std::optional<uint64_t> at_step, uint64_t warmup) {
  CommonStart start;
  const auto agents = AgentsOf(targets);
  const v1::ControlRequest status = launch::MakeRequest(v1::ControlRequest::STATUS);
  double lead_seconds = kFirstLeadSeconds;
  for (int i = 0; i < kTries; ++i, lead_seconds *= 2) {
    uint64_t step = at_step.value_or(0);
    if (!at_step) {
      const auto begin = Clock::now();
      const std::vector<Answer> before = launch::AskAll(agents, status);
      poll(nullptr, 0, kPaceMs);
      const std::vector<Answer> now = launch::AskAll(agents, status);
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      step = ChooseStep(before, now, seconds, lead_seconds, warmup);
    }
    request.set_at_step(step + 1);
    start.answers = launch::AskAll(agents, request);
    const bool is_late =
        std::any_of(start.answers.begin(), start.answers.end(),
                    [&](const Answer& answer) { return IsTooLate(answer, step, warmup); });
    if (!is_late || at_step) {
      start.at_step = step;
      if (is_late) StopStarted(start.answers);
      if (is_late)
        start.error = "step " + std::to_string(step) + " is past, or too near, in a process";
      return start;
    }
    StopStarted(start.answers);
  }
  start.error = "the processes step too fast for a step to be agreed on: give --at-step N";
  return start;
}

}  // namespace stepagent::cli
