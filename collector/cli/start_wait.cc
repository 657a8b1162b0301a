#include "collector/cli/start_wait.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "collector/cli/targets.h"
#include "collector/launch/progress_bar.h"
#include "collector/launch/run_report.h"
#include "collector/launch/session_wait.h"

namespace stepagent::cli {
namespace {

using launch::Answer;
constexpr int kRoundMs = 100;
// A process that hangs for longer is followed in its files instead.
constexpr int kSilentRounds = 3;

bool WasTaken(const Answer& answer) {
  return answer.message && answer.message->verdict() == v1::ControlAnswer::OK;
}

// Whatever else is there stands beside them.
bool IsTrace(const std::string& file) {
  for (const char* other : {"/manifest.json", "/summary.json", "/summary.txt", "/steps.csv"})
    if (file.ends_with(other)) return false;
  return true;
}

void FollowFiles(const std::string& session_dir, const proto::RuntimeDirs& dirs,
                 const Deadline& deadline) {
  if (session_dir.empty()) return;
  launch::WaitRules rules;
  rules.paths = {session_dir};
  rules.dirs = dirs;
  rules.deadline = deadline;
  // Whatever its end: the session's files say what is there.
  static_cast<void>(launch::WaitForSessions(rules));
}

// One round for one process. True: it rests, or is gone for good.
bool IsFinished(Answer* answer, int* silent, const proto::RuntimeDirs& dirs,
                const Deadline& deadline) {
  const Answer now = launch::Ask(answer->agent, launch::MakeRequest(v1::ControlRequest::STATUS),
                                 AnswerTime(deadline));
  if (now.message) {
    *silent = 0;
    *answer->message->mutable_status() = now.message->status();
    return IsAtRest(now.message->status());
  }
  if (!now.is_gone && ++*silent < kSilentRounds) return false;
  FollowFiles(answer->message->status().session_dir(), dirs, deadline);
  if (now.is_gone) {  // what it said last is no longer so
    v1::AgentStatus* status = answer->message->mutable_status();
    status->set_phase(v1::PHASE_DONE);
    if (status->last_error().empty()) status->set_last_error("the process has ended");
  }
  return true;
}

// Cycles that this start made: their index is not below the count of before.
std::vector<launch::CycleEntry> NewCycles(const Answer& answer, uint32_t cycles_before,
                                          launch::SessionEntry* session) {
  std::vector<launch::CycleEntry> cycles;
  const auto read = launch::ReadSession(answer.message->status().session_dir());
  if (!read) return cycles;
  *session = *read;
  for (const launch::CycleEntry& cycle : read->cycles)
    if (cycle.index >= cycles_before) cycles.push_back(cycle);
  return cycles;
}

// Some, none of them left for later or cut by its process's death.
bool AreGood(const std::vector<launch::CycleEntry>& cycles) {
  return !cycles.empty() &&
         std::none_of(cycles.begin(), cycles.end(), [](const launch::CycleEntry& cycle) {
           return cycle.IsDeferred() || cycle.ended == "killed";
         });
}

// What the agent itself says it wrote since: its folder may lie in another container's mounts.
std::vector<std::string> WrittenElsewhere(const Answer& answer, const Answer& before) {
  std::vector<std::string> files;
  if (launch::ReadSession(answer.message->status().session_dir())) return files;
  std::set<std::string> old;
  if (before.message)
    old.insert(before.message->status().written().begin(),
               before.message->status().written().end());
  for (const std::string& file : answer.message->status().written())
    if (IsTrace(file) && !old.contains(file)) files.push_back(file);
  return files;
}

bool PrintResult(const Answer& answer, const Answer& before) {
  const uint32_t cycles_before = before.message ? before.message->status().cycle() : 0;
  std::printf("%s\n", StatusLine(answer).c_str());
  if (!WasTaken(answer)) {
    std::printf("  %s\n", VerdictLine(answer).c_str());
    return false;
  }
  launch::SessionEntry session;
  const auto cycles = NewCycles(answer, cycles_before, &session);
  for (const launch::CycleEntry& cycle : cycles) {
    for (const std::string& file : cycle.files)
      if (IsTrace(file)) std::printf("  %s\n", file.c_str());
    for (const std::string& remark : launch::CycleRemarks(session, cycle, /*is_whole=*/false))
      std::printf("  %s\n", remark.c_str());
    const std::string reading = launch::FirstReadingOf(launch::CycleFolder(session, cycle.index));
    if (!reading.empty()) std::printf("  %s\n", reading.c_str());
  }
  const v1::AgentStatus& status = answer.message->status();
  const std::vector<std::string> elsewhere = WrittenElsewhere(answer, before);
  for (const std::string& file : elsewhere)
    std::printf("  %s (as the process sees it: not visible from here)\n", file.c_str());
  if (!elsewhere.empty()) return true;
  if (cycles.empty()) {
    std::printf("  nothing was written%s%s\n", status.last_error().empty() ? "" : ": ",
                status.last_error().c_str());
  }
  return AreGood(cycles);
}

std::string WhoIs(const Answer& answer) {
  const int64_t rank = answer.message->status().rank();
  return (rank < 0 ? "" : "rank " + std::to_string(rank) + " ") + "(pid " +
         std::to_string(answer.agent.pid) + ")";
}

void Name(const std::string& line, Laggards* laggards) {
  laggards->names.push_back(line);
  std::fprintf(stderr, "stepagent: %s\n", line.c_str());
}

// Still before the common step, long after the first was done with it: named, and not left armed.
bool GiveUpOn(const Answer& answer, const std::optional<uint64_t>& at_step, Laggards* laggards) {
  const v1::AgentStatus& status = answer.message->status();
  if (!at_step || status.step() >= *at_step) return false;
  Name(WhoIs(answer) + " never reached step " + std::to_string(*at_step) + ": it is at step " +
           std::to_string(status.step()),
       laggards);
  static_cast<void>(launch::Ask(answer.agent, launch::MakeRequest(v1::ControlRequest::STOP)));
  return true;
}

// The command's time is over: what has not begun is called off, what is being recorded goes on.
void LeaveAlone(const Answer& answer, const std::optional<uint64_t>& at_step, Laggards* laggards) {
  const v1::Phase phase = answer.message->status().phase();
  if (GiveUpOn(answer, at_step, laggards)) return;
  if (phase == v1::PHASE_WAITING) {
    Name(WhoIs(answer) + " came to no step to record within --timeout: called off", laggards);
    static_cast<void>(launch::Ask(answer.agent, launch::MakeRequest(v1::ControlRequest::STOP)));
    return;
  }
  Name(WhoIs(answer) + " is not done within --timeout and goes on (" + launch::PhaseText(phase) +
           "): stepagent wait " + std::to_string(answer.agent.pid),
       laggards);
}

}  // namespace

bool IsAtRest(const v1::AgentStatus& status) {
  const bool is_idle = status.phase() == v1::PHASE_IDLE || status.phase() == v1::PHASE_DONE;
  return is_idle && !status.awaits_files();
}

void WaitUntilIdle(std::vector<Answer>* answers, const proto::RuntimeDirs& dirs,
                   Laggards* laggards) {
  std::optional<std::chrono::steady_clock::time_point> first_done;
  const auto begin = std::chrono::steady_clock::now();
  launch::ProgressBar bar(STDERR_FILENO, "stepagent: recording", begin);
  std::vector<int> silent(answers->size());
  std::vector<bool> is_done(answers->size());
  for (size_t done = 0; done < answers->size();) {
    done = 0;
    for (size_t i = 0; i < answers->size(); ++i) {
      Answer& answer = (*answers)[i];
      const auto now = std::chrono::steady_clock::now();
      if (!is_done[i])
        is_done[i] = !WasTaken(answer) || IsFinished(&answer, &silent[i], dirs, laggards->deadline);
      if (is_done[i] && WasTaken(answer) && !first_done) first_done = now;
      const bool is_late = first_done && now - *first_done > laggards->patience;
      if (!is_done[i] && is_late) is_done[i] = GiveUpOn(answer, laggards->at_steps[i], laggards);
      if (!is_done[i] && laggards->deadline && now >= *laggards->deadline) {
        LeaveAlone(answer, laggards->at_steps[i], laggards);
        is_done[i] = true;
      }
      done += is_done[i] ? 1 : 0;
    }
    bar.Show(done, answers->size(), std::chrono::steady_clock::now());
    if (done < answers->size()) poll(nullptr, 0, kRoundMs);
  }
}

bool IsAllWritten(const std::vector<Answer>& answers, const std::vector<Answer>& before) {
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!WasTaken(answers[i])) return false;
    launch::SessionEntry session;
    const uint32_t cycles_before = before[i].message ? before[i].message->status().cycle() : 0;
    const auto cycles = NewCycles(answers[i], cycles_before, &session);
    if (!AreGood(cycles) && WrittenElsewhere(answers[i], before[i]).empty()) return false;
  }
  return true;
}

int WaitForStarted(std::vector<Answer> answers, const std::vector<Answer>& before,
                   const proto::RuntimeDirs& dirs, Laggards* laggards) {
  WaitUntilIdle(&answers, dirs, laggards);
  bool is_good = laggards->names.empty();
  for (size_t i = 0; i < answers.size(); ++i) {
    is_good &= PrintResult(answers[i], before[i]);
  }
  return is_good ? 0 : 1;
}

}  // namespace stepagent::cli
