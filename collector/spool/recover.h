#pragma once
// Finishes what an interrupted collector left.
//
// Purpose: `report`, `convert`, `wait` and the next collector in a folder call this first, so that
// a session whose collector was killed ends like any other: every cycle written, session.json
// closed. Thread rule: any thread; a session held by a running collector is left alone (flock).
// Failure rule: every problem is a line; a folder that cannot be recovered stays as it is.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::v1 {
class TargetEnded;
}

namespace stepagent::ingest {
class MemoryBudget;
}

namespace stepagent::spool {

struct FirstHello;
class RawReader;

struct RecoverReport {
  uint32_t sessions = 0;  // looked at
  uint32_t live = 0;      // left alone: held by a running collector, or its process lives
  uint32_t cycles_written = 0;
  uint32_t deferred_written = 0;  // of these, left by a collector that had no memory for them
  uint64_t cut_bytes = 0;         // after the last whole frame
  std::vector<std::string> files;
  std::vector<std::string> problems;
};

// Whether the very process that said Hello still runs on this host, by its start time; nullopt:
// there is no raw file with a Hello to tell.
[[nodiscard]] std::optional<bool> ProcessLives(const std::string& session_dir);

// A session whose process lives on this host may come back to the next collector.
enum class Living : uint8_t { kFinishToo, kLeaveAlone };

// A session's folder is renamed once when its rank is numbered (contract: by device, then pid).
// Where `path` is gone, its sibling of the same process and session; else `path` itself.
[[nodiscard]] std::string CurrentSessionDir(const std::string& path);

// OUT/<run>/sessions/<session>.
// `progress`: rows of the file at hand, while it is written; may be empty.
using RecoverProgress = std::function<void(uint64_t done, uint64_t total)>;
// `ended`: how one process ended, from who started it; null: not known.
// `memory`: of a collector, which leaves cycles that are too large for it to others; null: no
// bound.
void RecoverSession(const std::string& session_dir, Living living, RecoverReport* report,
                    const RecoverProgress& progress = {}, const v1::TargetEnded* ended = nullptr,
                    std::shared_ptr<ingest::MemoryBudget> memory = nullptr);
// A session, a run, or OUT with all its runs.
[[nodiscard]] RecoverReport RecoverAll(
    const std::string& path, Living living = Living::kFinishToo,
    const RecoverProgress& progress = {},
    const std::shared_ptr<ingest::MemoryBudget>& memory = nullptr);

// Reads a raw file into cycles, writing nothing. "" or why it cannot be read. The session's rank is
// that of its folder's name where the agent knew none.
struct RawReport {
  uint64_t frames = 0, damaged_frames = 0, damaged_bytes = 0, cut_bytes = 0;
  uint64_t foreign_frames = 0;  // whole, but nothing of this session's that can be read
  std::string hello_problem;    // where the file does not begin with a whole Hello
  bool said_goodbye = false;
  // What a reader that came to the end passed over.
  void Count(const RawReader& reader, const FirstHello& first);
};
// What of it is not good, one sentence each, with the path.
[[nodiscard]] std::vector<std::string> ProblemsOf(const RawReport& report, const std::string& path);
// `on_later`: what is told of the steps behind a cycle once it was given, more than once perhaps.
[[nodiscard]] std::string ReadCycles(
    const std::string& raw_path, const std::function<void(model::Cycle)>& on_cycle,
    RawReport* report, const std::function<void(const model::LaterSteps&)>& on_later = {});

}  // namespace stepagent::spool
