#pragma once
// The runs this collector writes for, and which rank each session has in its run.
//
// Purpose: one folder per run; ranks that nobody set are numbered by device ordinal, then pid, and
// are no number that a launcher gave: until a session's first cycle its number may still change,
// from then on it stays. Two sessions with one rank are told apart.
// Thread rule: any thread; one mutex, held over a few mkdirs.
// Failure rule: "" is success, else "path: what: errno text"; nothing half-made is used.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::ingest {

struct Run {
  std::string name, path;          // path: OUT/<run>
  std::atomic<uint64_t> bytes{0};  // raw and written so far

  // Ranks nobody set, as numbered so far. Guarded by RunTable's mutex.
  struct Unranked {
    std::string session, name_end;  // name_end: what its folder's name ends with
    std::string host;
    uint32_t pid = 0;
    int64_t device = 0;  // sort key: physical ordinal where it can be known
    int32_t rank = 0;
    bool is_final = false;
  };
  std::vector<Unranked> unranked;
};

struct SessionFolder {
  std::string path;
  bool is_resumed = false;  // the session was here before
  bool has_duplicate_rank = false;
  std::string rank_holder;  // of a duplicate rank: who was given it by us, "" nobody
};

class RunTable {
 public:
  // `now_unix_ns` names runs that have no name yet.
  [[nodiscard]] std::string Find(const std::string& out, const std::string& run_dir,
                                 const std::string& run_id, int64_t now_unix_ns,
                                 std::shared_ptr<Run>* run);
  // Gives the session its folder; fills in session->rank and rank_source where they were not set.
  [[nodiscard]] std::string Enter(Run* run, model::SessionInfo* session, SessionFolder* folder);
  // The device a session was seen to use, for numbering.
  void SetDevice(Run* run, const std::string& session, int64_t device);
  // The rank from here on, by its place among the sessions whose numbers are still open.
  [[nodiscard]] int32_t FinalRank(Run* run, const model::SessionInfo& session);

 private:
  static void Assign(Run* run, const std::string& name_end, const std::vector<std::string>& names,
                     model::SessionInfo* session);
  static void Claim(Run* run, const std::vector<std::string>& names,
                    const model::SessionInfo& session, SessionFolder* folder);
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Run>> runs_;  // by OUT and name
};

// Rank in a session folder's name, -1 for none. Host and exe may hold underscores themselves.
[[nodiscard]] int32_t RankInName(const std::string& folder_name);
// Another session folder of this run carries this host and rank in its name.
[[nodiscard]] bool HasRankTwin(const std::string& session_dir, const model::SessionInfo& session);

}  // namespace stepagent::ingest
