#include "collector/cli/agents_at_work.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "collector/cli/start_wait.h"
#include "collector/cli/targets.h"

namespace stepagent::cli {
namespace {

using launch::Answer;
using launch::SessionEntry;

// What a person does not notice, and what costs an application's core nothing.
constexpr auto kPause = std::chrono::milliseconds(200);

std::string Canonical(const std::string& path) {
  std::error_code error;
  const auto canonical = std::filesystem::canonical(path, error);
  return error ? path : canonical.string();
}

std::string Who(const Answer& answer) {
  const int64_t rank = RankOf(answer);
  return (rank < 0 ? "process " : "rank " + std::to_string(rank) + " (pid ") +
         std::to_string(answer.agent.pid) + (rank < 0 ? "" : ")");
}

// Ended just now: its files may tell of more than was read of them.
bool HasEnded(const SessionEntry& session) {
  return session.state != "closed" && !session.IsAlive();
}

}  // namespace

AgentsAtWork::AgentsAtWork(std::vector<std::string> paths, proto::RuntimeDirs dirs)
    : dirs_(std::move(dirs)) {
  for (const std::string& path : paths) paths_.push_back(Canonical(path));
}

bool AgentsAtWork::AreThere(const std::vector<SessionEntry>& sessions) {
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_look_) {
    Look(sessions);
    next_look_ = std::chrono::steady_clock::now() + kPause;
  }
  // After the look: whatever a process recorded before it ended is then read anew.
  return !text_.empty() || std::any_of(sessions.begin(), sessions.end(), HasEnded);
}

void AgentsAtWork::Look(const std::vector<SessionEntry>& sessions) {
  std::set<std::string> ids, runs;
  for (const SessionEntry& session : sessions) {
    if (session.state != "closed") ids.insert(session.id);
    const bool is_named =
        std::find(paths_.begin(), paths_.end(), session.folder) != paths_.end();
    if (!is_named) runs.insert(std::filesystem::path(session.run_folder).filename().string());
  }
  text_.clear();
  const auto status = launch::MakeRequest(v1::ControlRequest::STATUS);
  const auto agents = proto::ListAgents(dirs_, geteuid());
  for (const Answer& answer : launch::AskAll(agents, status)) {
    const bool is_of_session = ids.contains(answer.agent.session);
    // One of the run that has not come to its first cycle yet has no session to be known by.
    const bool is_of_run = answer.message && answer.message->status().session_dir().empty() &&
                           runs.contains(answer.message->status().run());
    if ((is_of_session || is_of_run) && !answer.is_gone) Judge(answer);
  }
}

void AgentsAtWork::Judge(const Answer& answer) {
  if (answer.message && IsAtRest(answer.message->status())) return;
  if (answer.message) {
    const v1::AgentStatus& status = answer.message->status();
    text_ = Who(answer) + " is " + launch::PhaseText(status.phase()) + " at step " +
            std::to_string(status.step()) + " and is to record another cycle";
    return;
  }
  text_ = Who(answer) + " does not answer: whether it is to record another cycle is not known";
  if (silent_.insert(answer.agent.pid).second)
    std::fprintf(stderr, "stepagent: wait: %s; waiting for it (--timeout S bounds that)\n",
                 text_.c_str());
}

}  // namespace stepagent::cli
