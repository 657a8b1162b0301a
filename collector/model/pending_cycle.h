#pragma once
// What is known of a cycle before its records are put together.
//
// Purpose: the bookkeeping between the builder (which hears events) and the assembly.
// Thread rule: belongs to one builder. Failure rule: plain data; what never came stays empty.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/model/store.h"

#include "batch.pb.h"

namespace stepagent::model {

// The agent's running totals, and what the sequence numbers show to be missing beside them.
struct LossTotals {
  Counts dropped{};
  Counts invalid{};
  std::array<bool, kActivityCount> is_unknown{};
  uint64_t lost_batches = 0;
  // Drops of all kinds, by what would have prevented them.
  uint64_t ring_full = 0, no_buffer = 0, uplink = 0, past_limit = 0;
};

// When the records of batches that never came may have been made.
struct LostSpan {
  TimeNs begin_ns = 0, end_ns = 0;
};

struct PendingCycle {
  uint32_t index = 0;
  uint64_t first_byte = 0;            // of the stream of frames, where it begins
  std::optional<uint64_t> end_byte;   // behind the batch that closed it
  std::optional<TimeNs> warmup_begin, armed, active_begin, active_end, closed;
  bool cancelled = false;
  bool is_let_go = false;  // its records are in the raw file only
  std::string ended, reason;
  std::map<uint64_t, Step> active_steps;  // by process_index; end_ns 0 while open
  std::optional<v1::CycleReport> report;
  std::vector<Note> notes;
  Counts out_of_window{};            // warmup records already let go
  std::optional<LossTotals> losses;  // as they stood when the cycle closed

  [[nodiscard]] bool HasActive() const { return active_begin.has_value() || !active_steps.empty(); }
  // When its collection began: records from here on may be this cycle's.
  [[nodiscard]] std::optional<TimeNs> Begin() const {
    if (warmup_begin) return warmup_begin;
    if (active_begin) return active_begin;
    if (!active_steps.empty()) return active_steps.begin()->second.begin_ns;
    return std::nullopt;
  }
};

}  // namespace stepagent::model
