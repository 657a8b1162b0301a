#pragma once
// Writes everything a finished cycle becomes: traces, manifest, summary.
//
// Purpose: the one list of what a cycle folder holds, used live, after a crash and by `convert`.
// Thread rule: any thread; one cycle at a time per place.
// Failure rule: a writer that fails leaves its own file out and is named in `error`; the others go
// on. The manifest comes last: a cycle folder without one was interrupted.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::ingest {

struct CyclePlace {
  std::string run_dir;      // OUT/<run>
  std::string session_dir;  // OUT/<run>/sessions/<…>
  bool with_pid = false;    // another session of the run has the same rank
};
// Called by each writer now and then: rows of the format at hand, done and in all.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;
struct CycleOutput {
  std::vector<std::string> files;  // absolute, traces first
  uint64_t bytes = 0;
  std::string error;                                       // "" all written
  std::vector<std::pair<std::string, int64_t>> format_ns;  // how long each format took
};

[[nodiscard]] CycleOutput WriteCycle(const model::Cycle& cycle, const CyclePlace& place);
[[nodiscard]] CycleOutput WriteCycleShowing(const model::Cycle& cycle, const CyclePlace& place,
                                            const WriteProgress& progress);
// Of the session a cycle belongs to, as its session.json says.
struct WriteFacts {
  bool has_duplicate_rank = false;
  std::string rank_holder;
  std::vector<std::string> rank_conflicts;
  uint64_t raw_cut_bytes = 0;
};
// What is noted of a cycle when it is written: whose rank it shares and where its own is from, what
// was cut, how large it is. `convert` does the same, so that it writes the same bytes.
void AddWriteNotes(const WriteFacts& facts, model::Cycle* cycle);
// A manifest is there: the cycle is finished.
[[nodiscard]] bool IsWritten(const CyclePlace& place, uint32_t cycle);
// Takes away what an interrupted writer left of an unfinished cycle.
void RemoveLeftovers(const model::Cycle& cycle, const CyclePlace& place);

}  // namespace stepagent::ingest
