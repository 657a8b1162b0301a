#include "collector/cli/wait_command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "CLI/CLI.hpp"
#include "collector/cli/agents_at_work.h"
#include "collector/cli/arguments.h"
#include "collector/cli/start_wait.h"
#include "collector/cli/targets.h"
#include "collector/launch/progress_bar.h"
#include "collector/launch/session_wait.h"
#include "proto/settings.h"

namespace stepagent::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;
constexpr int kRoundMs = 100;

bool IsPid(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos &&
         word.size() < 10 && !std::filesystem::exists(word);
}

int FailWait(const std::string& line) {
  std::fprintf(stderr, "stepagent: wait: %s\n", line.c_str());
  return 1;
}

// The sessions of a process that answers, once it rests. False: nothing there, or the deadline.
bool WaitForProcess(int64_t pid, const proto::RuntimeDirs& dirs, const Deadline& deadline,
                    std::vector<std::string>* folders) {
  TargetRules rules;
  rules.pids = {pid};
  const Targets targets = FindTargets(rules, true, dirs);
  if (targets.matched.empty()) return FailWait(targets.error) == 0;
  for (launch::Answer answer : targets.matched) {
    std::string folder;
    while (answer.message) {
      folder = answer.message->status().session_dir();
      if (IsAtRest(answer.message->status())) break;
      if (deadline && Clock::now() >= *deadline)
        return FailWait("process " + std::to_string(pid) + " is not done in time") == 0;
      poll(nullptr, 0, kRoundMs);
      answer = launch::Ask(answer.agent, launch::MakeRequest(v1::ControlRequest::STATUS));
    }
    if (!answer.message && !answer.is_gone)
      return FailWait("process " + std::to_string(pid) + ": " + answer.error) == 0;
    if (folder.empty()) continue;
    std::error_code error;
    if (std::filesystem::exists(folder, error)) {
      folders->push_back(folder);
      continue;
    }
    std::fprintf(stderr,
                 "stepagent: wait: %s: not to be seen from here (removed, or another container's); "
                 "process %lld says that it has nothing more to write\n",
                 folder.c_str(), static_cast<long long>(pid));
    if (answer.message && !answer.message->status().last_error().empty())
      return FailWait(answer.message->status().last_error()) == 0;
  }
  return true;
}

// "": all that has begun is written.
std::string Unfinished(const std::vector<launch::SessionEntry>& sessions) {
  for (const launch::SessionEntry& session : sessions)
    if (session.state != "closed" && !(session.IsAlive() && session.IsSettled()))
      return session.folder + (session.IsAlive() ? ": its process still runs" : ": still open");
  return sessions.empty() ? "no session is there" : "";
}

// Cycles of processes that go on, for which nobody could wait. The status.
int SayDeferred(const std::vector<launch::SessionEntry>& sessions) {
  int status = 0;
  for (const launch::SessionEntry& session : sessions)
    for (const launch::CycleEntry& cycle : session.cycles)
      if (cycle.IsDeferred())
        status =
            FailWait(session.folder + ": cycle " + std::to_string(cycle.index) + " " + cycle.error);
  return status;
}

// A path may come to be later, as a run's folder does: that it is awaited is said at once.
void SayAwaited(const std::vector<std::string>& paths, const Deadline& deadline) {
  for (const std::string& path : paths) {
    if (!launch::FindSessionFolders(path).empty()) continue;
    std::error_code error;
    const bool is_there = std::filesystem::exists(path, error);
    std::fprintf(stderr, "stepagent: wait: %s: %s; waiting for one%s\n", path.c_str(),
                 is_there ? "no session in it yet" : "not there, and no session in it",
                 deadline ? "" : " (--timeout S bounds that)");
  }
}

int WaitForFolders(const std::vector<std::string>& paths, const proto::RuntimeDirs& dirs,
                   const Deadline& deadline) {
  const auto begin = Clock::now();
  SayAwaited(paths, deadline);
  launch::ProgressBar bar(STDERR_FILENO, "stepagent: waiting for sessions", begin);
  launch::WaitRules rules;
  rules.paths = paths;
  rules.dirs = dirs;
  rules.deadline = deadline;
  rules.needs_a_session = true;
  AgentsAtWork at_work(paths, dirs);
  rules.has_more_to_come = [&](const auto& sessions) { return at_work.AreThere(sessions); };
  rules.on_round = [&](const std::vector<launch::SessionEntry>& sessions) {
    const auto settled = std::count_if(sessions.begin(), sessions.end(),
                                       [](const auto& s) { return s.IsSettled(); });
    bar.Show(static_cast<uint64_t>(settled), sessions.size(), Clock::now());
  };
  const launch::WaitResult result = launch::WaitForSessions(rules);
  for (const launch::LateSession& late : result.late)
    std::fprintf(stderr, "stepagent: wait: %s: %s\n", late.folder.c_str(), late.Text().c_str());
  if (result.end == launch::WaitEnd::kWritten) return SayDeferred(result.sessions);
  if (result.end == launch::WaitEnd::kTimeout) {
    const std::string open = Unfinished(result.sessions);
    return FailWait("timeout: " + (open.empty() ? at_work.Text() : open));
  }
  return FailWait("interrupted session: " + Unfinished(result.sessions) +
                  "; stepagent report finishes it");
}

}  // namespace

int WaitMain(const std::vector<std::string>& args, char* const* environment) {
  CLI::App app("Returns when all cycles are written.", "stepagent wait");
  std::vector<std::string> words;
  std::string timeout;
  app.add_option("path", words, "An output, run or session folder, or a process id")->required();
  app.add_option("--timeout", timeout, "Seconds, or a duration (90s, 2m)");
  if (const auto status = ParseArguments(&app, args)) return *status;
  Deadline deadline;
  if (app.count("--timeout")) {
    const auto ns = proto::ParseDuration(timeout);
    if (!ns)
      return FailUsage(
          proto::SettingError{"--timeout", timeout, "", "seconds, or a duration (90s, 2m)"}.Line());
    deadline = Clock::now() + std::chrono::nanoseconds(*ns);
  }
  const proto::RuntimeDirs dirs = proto::RuntimeDirsFromEnvironment(environment);
  std::vector<std::string> folders;
  bool has_paths = false;
  for (const std::string& word : words) {
    std::error_code error;
    if (std::filesystem::is_regular_file(word, error))
      return FailUsage("wait: " + word +
                       ": a file; allowed: an output, run or session folder, or "
                       "a process id");
    if (!IsPid(word)) {
      folders.push_back(word);
      has_paths = true;
    } else if (!WaitForProcess(std::stoll(word), dirs, deadline, &folders)) {
      return 1;
    }
  }
  // A process that never recorded has no folder and nothing to wait for.
  return folders.empty() && !has_paths ? 0 : WaitForFolders(folders, dirs, deadline);
}

}  // namespace stepagent::cli
