#include "collector/cli/start_wait.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "collector/cli/start_outcome.h"
#include "collector/cli/targets.h"
#include "collector/launch/progress_bar.h"
#include "collector/launch/session_wait.h"

namespace stepagent::cli {
namespace {

using Clock = std::chrono::steady_clock;
using launch::Answer;
constexpr int kRoundMs = 100;
// An agent that only waits answers in a millisecond; a round with one that hangs takes this.
constexpr auto kRoundTime = std::chrono::milliseconds(500);
// The last word before something is said of a process for good, beyond --timeout if need be.
constexpr auto kLastTime = std::chrono::milliseconds(1000);
// One that hangs for longer may be done as far as its files tell.
constexpr auto kLongSilence = std::chrono::seconds(5);

struct Follower {
  Answer* answer;
  const Answer* before;
  std::optional<uint64_t> at_step;
  Clock::time_point heard;
  bool is_silent = false;  // in the last round
  bool is_done = false;
  bool ends_in_files = false;  // nobody is there to ask

  [[nodiscard]] const v1::AgentStatus& status() const { return answer->message->status(); }
  [[nodiscard]] std::string Who() const {
    const int64_t rank = RankOf(*answer);
    return (rank < 0 ? "" : "rank " + std::to_string(rank) + " ") + "(pid " +
           std::to_string(answer->agent.pid) + ")";
  }
};

using Followers = std::vector<Follower*>;

std::vector<Answer> AskEach(const Followers& asked, v1::ControlRequest::Verb verb,
                            std::chrono::milliseconds timeout) {
  std::vector<proto::AgentEntry> agents;
  for (const Follower* one : asked) agents.push_back(one->answer->agent);
  return launch::AskAll(agents, launch::MakeRequest(verb), timeout);
}

void Take(const Answer& now, Follower* one) {
  one->is_silent = !now.message;
  if (now.message) {
    one->heard = Clock::now();
    *one->answer->message->mutable_status() = now.message->status();
    one->is_done = IsAtRest(now.message->status());
    return;
  }
  if (now.is_gone) {
    one->answer->is_gone = true;
    one->is_done = one->ends_in_files = true;
  } else if (Clock::now() - one->heard > kLongSilence) {
    const StartOutcome outcome = OutcomeOf(*one->answer, *one->before);
    const bool has_died = !outcome.session.folder.empty() && !outcome.session.IsAlive();
    one->ends_in_files = has_died;
    one->is_done = has_died || (outcome.is_good && outcome.session.IsSettled());
  }
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

class StartWait {
 public:
  StartWait(std::vector<Answer>* answers, const std::vector<Answer>& before, Laggards* laggards)
      : laggards_(laggards) {
    const auto now = Clock::now();
    for (size_t i = 0; i < answers->size(); ++i) {
      Answer* answer = &(*answers)[i];
      all_.push_back({.answer = answer,
                      .before = &before[i],
                      .at_step = laggards->at_steps[i],
                      .heard = now,
                      .is_done = !WasTaken(*answer)});
    }
  }

  void Run(const proto::RuntimeDirs& dirs) {
    launch::ProgressBar bar(STDERR_FILENO, "stepagent: recording", Clock::now());
    for (;;) {
      Look(kRoundTime);
      if (laggards_->deadline && Clock::now() >= *laggards_->deadline) EndAll();
      if (IsPatienceOver()) GiveUp();
      const Followers left = Pending();
      bar.Show(all_.size() - left.size(), all_.size(), Clock::now());
      if (left.empty()) break;
      poll(nullptr, 0, kRoundMs);
    }
    // After all others have had their say: this may take as long as a collector writes.
    for (Follower& one : all_)
      if (one.ends_in_files) FollowFiles(one.status().session_dir(), dirs, laggards_->deadline);
  }

 private:
  Followers Pending() {
    Followers pending;
    for (Follower& one : all_)
      if (!one.is_done) pending.push_back(&one);
    return pending;
  }
  void Look(std::chrono::milliseconds timeout);
  bool IsPatienceOver() const {
    return first_done_ && Clock::now() - *first_done_ > laggards_->patience;
  }
  void GiveUp();
  void EndAll();
  void CallOff(const Followers& late, const char* what);
  void Name(Follower* one, const std::string& what);

  std::vector<Follower> all_;
  Laggards* laggards_;
  std::optional<Clock::time_point> first_done_;
};

// Side by side: who answers is heard at once, whoever else does not.
void StartWait::Look(std::chrono::milliseconds timeout) {
  const Followers pending = Pending();
  const std::vector<Answer> answers = AskEach(pending, v1::ControlRequest::STATUS, timeout);
  for (size_t i = 0; i < pending.size(); ++i) {
    Take(answers[i], pending[i]);
    if (pending[i]->is_done && !first_done_) first_done_ = Clock::now();
  }
}

void StartWait::Name(Follower* one, const std::string& what) {
  one->is_done = true;
  laggards_->names.push_back(one->Who() + " " + what);
  std::fprintf(stderr, "stepagent: %s\n", laggards_->names.back().c_str());
}

// Asked not to begin any more. What is said of each is what it made of that.
void StartWait::CallOff(const Followers& late, const char* what) {
  const std::vector<Answer> answers = AskEach(late, v1::ControlRequest::STOP, kLastTime);
  for (size_t i = 0; i < late.size(); ++i) {
    Follower* one = late[i];
    const std::string pid = std::to_string(one->answer->agent.pid);
    if (!answers[i].message) {
      Name(one, "was to be called off and does not answer: stepagent status " + pid);
      continue;
    }
    Take(answers[i], one);
    const bool is_stopped = answers[i].message->verdict() == v1::ControlAnswer::OK;
    if (one->is_done && !is_stopped) continue;  // it was done just before
    if (!one->is_done)
      Name(one, (is_stopped ? "began just then and ends early" : "goes on") +
                    std::string(": stepagent wait ") + pid);
    else if (one->at_step)
      Name(one, "never reached step " + std::to_string(*one->at_step) + ": it is at step " +
                    std::to_string(one->status().step()));
    else
      Name(one, what);
  }
}

// Long after the first was done: those still before the common step, and those that hang.
void StartWait::GiveUp() {
  Followers late;
  for (Follower* one : Pending()) {
    if (one->is_silent && Clock::now() - one->heard > kLongSilence)
      Name(one,
           "does not answer any more: stepagent status " + std::to_string(one->answer->agent.pid));
    else if (!one->is_silent && one->at_step && one->status().step() < *one->at_step)
      late.push_back(one);
  }
  if (!late.empty()) CallOff(late, "");
}

// The command's time is over: what has not begun is called off, what is being recorded goes on.
void StartWait::EndAll() {
  if (Pending().empty()) return;
  Look(kLastTime);
  Followers late;
  for (Follower* one : Pending()) {
    const std::string pid = std::to_string(one->answer->agent.pid);
    const v1::Phase phase = one->status().phase();
    if (one->is_silent)
      Name(one,
           "does not answer within --timeout: whether it records is not known: stepagent "
           "status " +
               pid);
    else if (phase == v1::PHASE_WAITING || (one->at_step && one->status().step() < *one->at_step))
      late.push_back(one);
    else
      Name(one, std::string("is not done within --timeout and goes on (") +
                    launch::PhaseText(phase) + "): stepagent wait " + pid);
  }
  if (!late.empty()) CallOff(late, "came to no step to record within --timeout: called off");
}

}  // namespace

bool IsAtRest(const v1::AgentStatus& status) {
  const bool is_idle = status.phase() == v1::PHASE_IDLE || status.phase() == v1::PHASE_DONE;
  return is_idle && !status.awaits_files();
}

void WaitUntilIdle(std::vector<Answer>* answers, const std::vector<Answer>& before,
                   const proto::RuntimeDirs& dirs, Laggards* laggards) {
  StartWait(answers, before, laggards).Run(dirs);
}

}  // namespace stepagent::cli
