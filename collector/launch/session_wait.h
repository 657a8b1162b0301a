#pragma once
// Waits until what was recorded is written.
//
// Purpose: the end of `run`, of `start` and all of `wait`: sessions under some folders, until each
// is closed or has all its cycles written, bounded in time.
// Thread rule: one thread; polls the session files, which are replaced atomically.
// A session that nobody writes any more is finished from its raw file, and so are cycles that its
// collector deferred, once its process has ended.
// Failure rule: the outcome names why it ended; what was read last is returned in any case.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collector/launch/session_files.h"
#include "proto/address.h"

namespace stepagent::v1 {
class TargetEnded;
}

namespace stepagent::launch {

enum class WaitEnd {
  kWritten,
  kTimeout,  // the deadline
  kInterrupted,
  kAbandoned,  // a session is open, and neither its process nor a collector is there any more
};

struct WaitRules {
  std::vector<std::string> paths;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool leaves_living = false;    // sessions whose process still runs are not waited for
  bool needs_a_session = false;  // nothing there yet is no end
  // Asked when all that has begun is written: whether a living process of these sessions is to
  // record another cycle yet. May be empty.
  std::function<bool(const std::vector<SessionEntry>&)> has_more_to_come = {};
  std::string collector_run;     // whose collector must be gone before nothing is an end
  proto::RuntimeDirs dirs;
  const v1::TargetEnded* ended = nullptr;  // for sessions that we finish ourselves
  std::function<bool()> is_interrupted;    // may be empty
  std::function<void(const std::vector<SessionEntry>&)> on_round;  // may be empty
};

// A session with cycles that its collector had left in raw.steps, and that were written here.
struct LateSession {
  std::string folder;
  std::vector<uint64_t> cycles;
  // "cycle 0 was more than the collector's memory …: written now"
  [[nodiscard]] std::string Text() const;
};

struct WaitResult {
  WaitEnd end = WaitEnd::kWritten;
  std::vector<SessionEntry> sessions;
  std::vector<LateSession> late;
};

[[nodiscard]] WaitResult WaitForSessions(const WaitRules& rules);
// Whether a collector listens for this run.
[[nodiscard]] bool IsCollectorThere(const proto::RuntimeDirs& dirs, const std::string& run);
[[nodiscard]] std::vector<SessionEntry> ReadSessions(const std::vector<std::string>& paths);

}  // namespace stepagent::launch
