#include "collector/cli/common_step.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tuple>

namespace stepagent::cli {
namespace {

using launch::Answer;
using Clock = std::chrono::steady_clock;
// Between two looks at the step counts: long enough to see steps of a tenth of a second pass.
constexpr int kPaceMs = 500;
// Ahead of the fastest, first try; doubled with each further one. Requests take milliseconds.
constexpr double kFirstLeadSeconds = 1.0;
constexpr int kTries = 5;
// Enough for an agent that is well on a machine that is busy, however little time is left.
constexpr auto kLeastAnswerTime = std::chrono::milliseconds(500);
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

bool IsIdle(const Answer& answer) {
  if (!answer.message) return false;
  const v1::Phase phase = answer.message->status().phase();
  return phase == v1::PHASE_IDLE || phase == v1::PHASE_DONE;
}

bool IsOver(const Deadline& deadline) { return deadline && Clock::now() >= *deadline; }

// One that was free when we looked and is not any more, while others took our request: another
// `start` has it, with a begin step of its own.
const Answer* TakenMeanwhile(const std::vector<Answer>& before, const std::vector<Answer>& after) {
  const Answer* taken = nullptr;
  bool has_started = false;
  for (size_t i = 0; i < after.size(); ++i) {
    has_started |= VerdictOf(after[i]) == v1::ControlAnswer::OK;
    if (IsIdle(before[i]) && VerdictOf(after[i]) == v1::ControlAnswer::BUSY) taken = &after[i];
  }
  return has_started ? taken : nullptr;
}

Answer NotAsked(const proto::AgentEntry& agent) {
  Answer answer;
  answer.agent = agent;
  answer.error = "--timeout was over before it was asked to start";
  return answer;
}

// The step that a group begins with; looks at those of it that can begin at all.
uint64_t AgreedStep(const std::vector<Answer>& group, double lead_seconds, uint64_t warmup,
                    const Deadline& deadline) {
  std::vector<proto::AgentEntry> free;
  for (const Answer& answer : group)
    if (IsIdle(answer)) free.push_back(answer.agent);
  const v1::ControlRequest status = launch::MakeRequest(v1::ControlRequest::STATUS);
  const auto begin = Clock::now();
  const std::vector<Answer> before = launch::AskAll(free, status, AnswerTime(deadline));
  poll(nullptr, 0, kPaceMs);
  const std::vector<Answer> now = launch::AskAll(free, status, AnswerTime(deadline));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (deadline) {  // half of what is left to come to the step, the other half to record
    const double left = std::chrono::duration<double>(*deadline - Clock::now()).count();
    lead_seconds = std::clamp(left / 2, 0.0, lead_seconds);
  }
  return ChooseStep(before, now, seconds, lead_seconds, warmup);
}

struct GroupStart {
  std::vector<Answer> answers;
  std::optional<uint64_t> at_step;
  std::string error;
};

// No common step: nothing of the group records, and none of it has taken the start.
GroupStart Fail(GroupStart start, const std::string& why) {
  start.at_step.reset();
  start.error = why;
  for (Answer& answer : start.answers) {
    if (VerdictOf(answer) != v1::ControlAnswer::OK) continue;
    answer.message->set_verdict(v1::ControlAnswer::REFUSED);
    answer.message->set_reason("nothing was started: no common step");
  }
  return start;
}

GroupStart StartGroup(const std::vector<Answer>& group, v1::ControlRequest request,
                      std::optional<uint64_t> at_step, uint64_t warmup, const Deadline& deadline) {
  GroupStart start{group, std::nullopt, ""};
  const auto agents = AgentsOf(group);
  double lead_seconds = kFirstLeadSeconds;
  for (int i = 0; i < kTries && !IsOver(deadline); ++i, lead_seconds *= 2) {
    const uint64_t step = at_step ? *at_step : AgreedStep(group, lead_seconds, warmup, deadline);
    if (IsOver(deadline)) break;
    request.set_at_step(step + 1);
    start.answers = launch::AskAll(agents, request, AnswerTime(deadline));
    if (const Answer* taken = TakenMeanwhile(group, start.answers)) {
      StopStarted(start.answers);
      return Fail(start, "another start came in between and has process " +
                             std::to_string(taken->agent.pid) +
                             ": this one has started nothing; try again");
    }
    const bool is_late =
        std::any_of(start.answers.begin(), start.answers.end(),
                    [&](const Answer& answer) { return IsTooLate(answer, step, warmup); });
    start.at_step = step;
    if (!is_late) return start;
    StopStarted(start.answers);
    if (at_step)
      return Fail(start, "step " + std::to_string(step) + " is past, or too near, in a process");
  }
  return Fail(start,
              IsOver(deadline)
                  ? "--timeout was over before a step was agreed on: nothing was started"
                  : "the processes step too fast for a step to be agreed on: give --at-step N");
}

}  // namespace

std::chrono::milliseconds AnswerTime(const Deadline& deadline) {
  if (!deadline) return launch::kAnswerTimeout;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now());
  return std::clamp(left / 4, kLeastAnswerTime, launch::kAnswerTimeout);
}

std::vector<std::vector<size_t>> CountTogether(const std::vector<Answer>& targets,
                                               const v1::ControlRequest& request) {
  if (request.duration_ns() != 0) return {};
  const auto step = request.settings().find("step");
  std::map<std::string, size_t> in_run;
  for (const Answer& target : targets)
    if (target.message) ++in_run[target.message->status().run()];
  // Processes that no launcher put into a run together are one set where it is one program.
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, std::vector<size_t>> sets;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!targets[i].message) continue;
    const v1::AgentStatus& status = targets[i].message->status();
    const std::string& own = status.step_source();
    // Steps of another name have not been counted so far.
    const bool is_other = step != request.settings().end() && step->second != own;
    if (!own.starts_with("nvtx") || is_other) continue;
    const bool has_run = in_run[status.run()] > 1;
    sets[{own, has_run ? status.run() : "", has_run ? "" : status.exe()}].push_back(i);
  }
  std::vector<std::vector<size_t>> groups;
  for (auto& [key, members] : sets)
    if (members.size() > 1) groups.push_back(std::move(members));
  return groups;
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

CommonStart StartTogether(const std::vector<Answer>& targets, const v1::ControlRequest& request,
                          std::optional<uint64_t> at_step, uint64_t warmup,
                          const Deadline& deadline) {
  CommonStart start;
  start.answers = targets;
  start.at_steps.resize(targets.size());
  std::vector<std::vector<size_t>> groups = CountTogether(targets, request);
  std::vector<size_t> all(targets.size()), alone;
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (at_step) groups = {all};
  for (const size_t i : all) {
    const bool is_grouped = std::any_of(groups.begin(), groups.end(), [i](const auto& group) {
      return std::find(group.begin(), group.end(), i) != group.end();
    });
    if (!is_grouped) alone.push_back(i);
  }
  for (const std::vector<size_t>& members : groups) {
    std::vector<Answer> group;
    for (const size_t i : members) group.push_back(targets[i]);
    const GroupStart begun = StartGroup(group, request, at_step, warmup, deadline);
    if (!begun.error.empty()) start.error = begun.error;
    for (size_t i = 0; i < members.size(); ++i) {
      start.answers[members[i]] = begun.answers[i];
      start.at_steps[members[i]] = begun.at_step;
    }
  }
  if (IsOver(deadline)) {
    for (const size_t i : alone) start.answers[i] = NotAsked(targets[i].agent);
    return start;
  }
  std::vector<proto::AgentEntry> agents;
  for (const size_t i : alone) agents.push_back(targets[i].agent);
  const std::vector<Answer> answers = launch::AskAll(agents, request, AnswerTime(deadline));
  for (size_t i = 0; i < alone.size(); ++i) start.answers[alone[i]] = answers[i];
  return start;
}

}  // namespace stepagent::cli
