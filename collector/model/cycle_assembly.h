#pragma once
// Puts one cycle together out of the store.
//
// Purpose: window, steps, joins, attribution, counts. What belongs to a later cycle stays in the
// store; everything else leaves it, into the cycle or into a count.
// Thread rule: one use, one thread. Failure rule: as builder.h says.
#include <optional>
#include <vector>

#include "collector/model/clock_map.h"
#include "collector/model/join_index.h"
#include "collector/model/pending_cycle.h"
#include "collector/model/range_matcher.h"
#include "collector/model/step_finder.h"
#include "collector/model/store.h"

namespace stepagent::model {

struct AssemblyInput {
  const PendingCycle* pending;
  const Dictionary* dictionary;
  const ClockMap* clock;  // prepared
  const RangeMatcher* open_ranges;
  const std::map<uint32_t, uint32_t>* device_of_context;
  std::optional<TimeNs> later_from;  // records from here on are a later cycle's
  TimeNs last_host_ns = 0;           // newest host time heard of, 0 unknown
  std::string step_source;
};

class CycleAssembly {
 public:
  // `launches`: of calls whose records are gone; afterwards of this cycle's.
  CycleAssembly(const AssemblyInput& in, Records* records, std::vector<Launch>* launches,
                Cycle* cycle)
      : in_(in),
        store_(*records),
        launches_for_next_(*launches),
        cycle_(*cycle),
        index_(std::move(*launches)),
        steps_(cycle->steps) {}

  void Run();
  [[nodiscard]] const Counts& written() const { return written_; }
  [[nodiscard]] const Counts& out_of_window() const { return out_of_window_; }
  // Impossible stamps, work without an end, and second copies; each also counted apart.
  [[nodiscard]] const Counts& invalid() const { return invalid_; }
  [[nodiscard]] uint64_t impossible() const { return impossible_; }
  [[nodiscard]] uint64_t unfinished() const { return unfinished_; }
  [[nodiscard]] uint64_t duplicates() const { return duplicates_; }
  // Records of waits, which are detail beside their calls: these count nowhere else.
  [[nodiscard]] uint64_t impossible_waits() const { return impossible_waits_; }
  [[nodiscard]] uint64_t unclosed_ranges() const { return unclosed_ranges_; }
  [[nodiscard]] uint64_t before_launch() const { return before_launch_; }
  [[nodiscard]] uint64_t unknown_graph() const { return unknown_graph_; }
  [[nodiscard]] uint64_t without_launch() const { return without_launch_; }
  // A graph was launched or work of one is among the records.
  [[nodiscard]] bool has_graph() const { return has_graph_; }

 private:
  [[nodiscard]] TimeNs OverBy() const;
  void PlaceSteps();
  void SetWindow();
  void PlaceCalls();
  struct CallOrder {  // what is known of the calls placed so far
    int32_t count = 0;
    TimeNs begin_ns = 0;  // of the last
    bool is_sorted = true, has_unnumbered = false;
  };
  void PlaceCall(Call* call, CallOrder* order);
  void NumberFlows();
  template <typename Item>
  void PlaceDevice(std::vector<Item>* from, std::vector<Item>* to, Activity kind);
  template <typename Item>
  bool PlaceJoined(Item* item, int32_t where);
  [[nodiscard]] bool IsBeforeLaunch(const DeviceItem& item, const Call& call) const;
  [[nodiscard]] bool IsOlderThanCalls(uint32_t correlation) const;
  [[nodiscard]] bool IsNewerThanCalls(uint32_t correlation) const;
  template <typename Item>
  void Uncount(const Item& item, Activity kind);
  template <typename Item>
  void LeaveOutSecondCopies(std::vector<Item>* items, Activity kind);
  template <typename Item>
  void LeaveOutLaterWork(std::vector<Item>* items, Activity kind);
  [[nodiscard]] bool IsPossible(const DeviceItem& item, const Call* call) const;
  void PlaceSyncs();
  void PlaceMemories();
  void PlaceOverheads();
  void PlaceRanges();
  void PlaceRange(const Range& range, bool is_open);
  void MarkStepRanges();
  void PlaceMarks();
  void CountSteps();
  template <typename Item>
  void MarkUntimedSteps(const std::vector<Item>& items, std::optional<uint64_t> Step::*count);

  [[nodiscard]] bool InWindow(TimeNs t) const {
    return t >= cycle_.window_begin_ns && t < cycle_.window_end_ns;
  }
  [[nodiscard]] bool IsLater(TimeNs t) const { return in_.later_from && t >= *in_.later_from; }
  [[nodiscard]] int32_t StepAt(TimeNs t) { return steps_.Holding(t); }
  uint64_t& Written(Activity a) { return written_[static_cast<size_t>(a)]; }
  uint64_t& OutOfWindow(Activity a) { return out_of_window_[static_cast<size_t>(a)]; }
  uint64_t& Invalid(Activity a) { return invalid_[static_cast<size_t>(a)]; }

  const AssemblyInput& in_;
  Records& store_;
  std::vector<Launch>& launches_for_next_;  // this cycle's own, once it has run
  Cycle& cycle_;
  JoinIndex index_;
  Counts written_{}, out_of_window_{}, invalid_{};
  uint64_t unclosed_ranges_ = 0, before_launch_ = 0, unknown_graph_ = 0, without_launch_ = 0;
  bool has_graph_ = false;
  uint64_t impossible_ = 0, unfinished_ = 0, impossible_waits_ = 0, duplicates_ = 0;
  std::vector<uint64_t> step_launches_;         // by step + 1; first those outside
  StepFinder steps_;
  std::optional<uint32_t> newest_correlation_;  // of this cycle's calls
};

}  // namespace stepagent::model
