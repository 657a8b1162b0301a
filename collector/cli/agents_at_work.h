#pragma once
// Whether a living process is to record another cycle yet.
//
// Purpose: `wait` returns when all cycles are written. What is on disk tells only of those that have
// begun: in the pause between two cycles everything is written, and more is to come. So the agents
// of the sessions waited for are asked: by their session, and by their run where they have none yet.
// Thread rule: one thread (the asking uses its own).
// Failure rule: an agent that does not answer may yet record: it counts as at work, and is named.
// One that cannot be seen from here (other runtime folders) is left to its session's files.
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "collector/launch/control_client.h"
#include "collector/launch/session_files.h"

namespace stepagent::cli {

class AgentsAtWork {
 public:
  // `paths`: what is waited for; a session's own folder means that session and no other of its run.
  AgentsAtWork(std::vector<std::string> paths, proto::RuntimeDirs dirs);
  // Asks at most a few times a second; in between it says again what it said last.
  [[nodiscard]] bool AreThere(const std::vector<launch::SessionEntry>& sessions);
  // Of the last look: "rank 2 (pid 4711) is waiting at step 41 and records another cycle"; "" none.
  [[nodiscard]] const std::string& Text() const { return text_; }

 private:
  void Look(const std::vector<launch::SessionEntry>& sessions);
  void Judge(const launch::Answer& answer);

  std::vector<std::string> paths_;
  proto::RuntimeDirs dirs_;
  std::chrono::steady_clock::time_point next_look_;
  std::string text_;
  std::set<int64_t> silent_;  // said once
};

}  // namespace stepagent::cli
