#pragma once
// What a run left on disk, as its session.json and manifest.json files say.
//
// Purpose: one reader of these documents for the launcher's last lines, `wait` and `start`.
// Thread rule: functions without state.
// Failure rule: a file that is missing, cut or of another shape is a session that is not there yet.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace stepagent::launch {

struct CycleEntry {
  uint64_t index = 0;
  std::string state, ended, error;
  std::vector<std::string> files;  // absolute
  [[nodiscard]] bool IsWritten() const;
  [[nodiscard]] bool IsDeferred() const { return state == "deferred"; }
};

struct SessionEntry {
  std::string folder, run_folder;  // absolute
  std::string id, exe, title, host, state;
  int64_t pid = 0, rank = -1, world_size = -1;
  std::string ranks, formats;  // as they were in force
  std::vector<CycleEntry> cycles;
  // Closed, or with cycles all of which are written or deferred: there is nothing to wait for.
  [[nodiscard]] bool IsSettled() const;
  // Cycles that the collector left to whoever reads the session once its process has ended.
  [[nodiscard]] std::vector<uint64_t> DeferredCycles() const;
  // A running collector writes it.
  [[nodiscard]] bool IsHeld() const;
  // Its process runs on this host.
  [[nodiscard]] bool IsAlive() const;
};

[[nodiscard]] std::optional<SessionEntry> ReadSession(const std::string& folder);
// Session folders under a session, run or OUT folder, sorted; `latest` is not followed.
[[nodiscard]] std::vector<std::string> FindSessionFolders(const std::string& path);
// An empty document when there is none.
[[nodiscard]] nlohmann::json ReadJson(const std::string& path);
// Members of documents whose shape is not to be trusted: "" and an empty object stand for whatever
// is missing or of another type.
[[nodiscard]] std::string TextMember(const nlohmann::json& object, const char* key);
[[nodiscard]] const nlohmann::json& Member(const nlohmann::json& object, const char* key);
[[nodiscard]] std::string CycleFolder(const SessionEntry& session, uint64_t cycle);
// "" when the summary has none.
[[nodiscard]] std::string FirstReadingOf(const std::string& cycle_folder);

}  // namespace stepagent::launch
