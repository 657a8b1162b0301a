#include "collector/launch/session_wait.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "collector/spool/recover.h"

namespace stepagent::launch {
namespace {

using Clock = std::chrono::steady_clock;
// Half of what a person notices; session files are small and read from the page cache.
constexpr int kRoundMs = 50;
// Between a collector's death and the next one taking its sessions over; then we do.
constexpr auto kAbandonedAfter = std::chrono::seconds(1);
// A collector without a session of ours: it was started, and its agent died before its hello.
constexpr auto kNoSessionAfter = std::chrono::seconds(1);

bool Connects(const proto::SocketAddress& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool is_there =
      connect(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length) == 0 ||
      errno == EAGAIN;
  close(fd);
  return is_there;
}

struct Round {
  bool is_settled = true;             // nothing to wait for
  std::vector<std::string> orphans;   // sessions that nobody writes and nobody feeds
  std::vector<LateSession> deferred;  // closed, with cycles that are left to us
};

Round Judge(const WaitRules& rules, const std::vector<SessionEntry>& sessions) {
  Round round;
  for (const SessionEntry& session : sessions) {
    if (session.state == "closed") {
      const std::vector<uint64_t> cycles = session.DeferredCycles();
      if (cycles.empty()) continue;
      // Its collector lets the raw file go a moment after the session is closed.
      if (session.IsHeld()) {
        round.is_settled = false;
      } else {
        round.deferred.push_back({session.folder, cycles});
      }
      continue;
    }
    const bool is_alive = session.IsAlive();
    if (is_alive && (rules.leaves_living || session.IsSettled())) continue;
    round.is_settled = false;
    if (!is_alive && !session.IsHeld()) round.orphans.push_back(session.folder);
  }
  return round;
}

// One that was not tried yet. False: there is none.
bool WriteDeferred(const std::vector<LateSession>& deferred, std::vector<LateSession>* done) {
  for (const LateSession& session : deferred) {
    const bool is_tried = std::any_of(done->begin(), done->end(), [&](const LateSession& other) {
      return other.folder == session.folder;
    });
    if (is_tried) continue;
    done->push_back(session);
    spool::RecoverReport report;
    spool::RecoverSession(session.folder, spool::Living::kLeaveAlone, &report);
    return true;
  }
  return false;
}

// Of those tried, what is written now.
std::vector<LateSession> Written(const std::vector<LateSession>& tried,
                                 const std::vector<SessionEntry>& sessions) {
  std::vector<LateSession> late;
  for (const LateSession& one : tried)
    for (const SessionEntry& session : sessions) {
      if (session.folder != one.folder) continue;
      LateSession written{one.folder, {}};
      for (const CycleEntry& cycle : session.cycles) {
        const bool was_deferred =
            std::find(one.cycles.begin(), one.cycles.end(), cycle.index) != one.cycles.end();
        if (was_deferred && cycle.state == "written") written.cycles.push_back(cycle.index);
      }
      if (!written.cycles.empty()) late.push_back(std::move(written));
    }
  return late;
}

}  // namespace

std::string LateSession::Text() const {
  std::string numbers;
  for (const uint64_t cycle : cycles)
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(cycle);
  return (cycles.size() == 1 ? "cycle " + numbers + " needed" : "cycles " + numbers + " needed") +
         " more than the collector's memory limit (STEPAGENT_COLLECTOR_MEMORY) and " +
         (cycles.size() == 1 ? "was" : "were") + " written afterwards, from raw.steps";
}

bool IsCollectorThere(const proto::RuntimeDirs& dirs, const std::string& run) {
  const auto address = proto::CollectorAddress(proto::SocketFolder(dirs), geteuid(), run);
  if (Connects(address)) return true;
  // An agent whose folder could not be used fell back to the abstract name.
  return !address.IsAbstract() && Connects(proto::CollectorAddress("", geteuid(), run));
}

std::vector<SessionEntry> ReadSessions(const std::vector<std::string>& paths) {
  std::vector<SessionEntry> sessions;
  for (const std::string& path : paths)
    for (const std::string& folder : FindSessionFolders(path)) {
      const bool is_known = std::any_of(sessions.begin(), sessions.end(),
                                        [&](const auto& s) { return s.folder == folder; });
      if (is_known) continue;  // two paths may be one folder
      if (auto session = ReadSession(folder)) sessions.push_back(*std::move(session));
    }
  return sessions;
}

WaitResult WaitForSessions(const WaitRules& rules) {
  const auto begin = Clock::now();
  auto cared_for = begin;  // when every open session had someone to write it
  bool was_recovered = false;
  std::vector<LateSession> tried;
  for (;;) {
    WaitResult result{WaitEnd::kWritten, ReadSessions(rules.paths)};
    const auto now = Clock::now();
    const Round round = Judge(rules, result.sessions);
    const bool waits_for_first =
        result.sessions.empty() &&
        (rules.needs_a_session || (!rules.collector_run.empty() && now - begin < kNoSessionAfter &&
                                   IsCollectorThere(rules.dirs, rules.collector_run)));
    result.late = Written(tried, result.sessions);
    const bool is_interrupted = rules.is_interrupted && rules.is_interrupted();
    if (!is_interrupted && WriteDeferred(round.deferred, &tried)) continue;
    const bool is_over = round.is_settled && !waits_for_first;
    if (is_over && !(rules.has_more_to_come && rules.has_more_to_come(result.sessions)))
      return result;
    if (round.orphans.empty()) cared_for = now;
    if (rules.on_round) rules.on_round(result.sessions);
    if (now - cared_for >= kAbandonedAfter && !was_recovered) {
      was_recovered = true;
      spool::RecoverReport report;
      for (const std::string& folder : round.orphans)
        spool::RecoverSession(folder, spool::Living::kLeaveAlone, &report, {}, rules.ended);
      continue;
    }
    result.end = is_interrupted                             ? WaitEnd::kInterrupted
                 : rules.deadline && now >= *rules.deadline ? WaitEnd::kTimeout
                 : now - cared_for >= kAbandonedAfter       ? WaitEnd::kAbandoned
                                                            : WaitEnd::kWritten;
    if (result.end != WaitEnd::kWritten) return result;
    poll(nullptr, 0, kRoundMs);
  }
}

}  // namespace stepagent::launch
