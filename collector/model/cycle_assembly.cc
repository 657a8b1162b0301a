#include "collector/model/cycle_assembly.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>

#include "collector/model/record_lists.h"

namespace stepagent::model {
namespace {

// A device stamp further than this outside of what host times allow is impossible, not skewed.
constexpr TimeNs kImpossibleNs = 1'000'000'000;

// What tells two pieces of work with the same stamps apart: no two kernels of one launch run on one
// stream at the same nanosecond, but those of a graph's nodes may.
auto Identity(const DeviceItem& item) {
  return std::tuple(item.correlation, item.lane, item.graph_id, item.graph_node_id);
}
auto DetailOf(const Kernel& kernel) { return kernel.shape; }
auto DetailOf(const Copy& copy) { return std::pair(copy.bytes, copy.copy_kind); }
auto DetailOf(const Set& set) { return std::pair(set.bytes, set.value); }
auto DetailOf(const GraphLaunch& /*launch*/) { return 0; }

}  // namespace

void CycleAssembly::Run() {
  PlaceSteps();
  SetWindow();
  PlaceCalls();
  PlaceDevice(&store_.kernels, &cycle_.kernels, Activity::kKernel);
  PlaceDevice(&store_.copies, &cycle_.copies, Activity::kMemcpy);
  PlaceDevice(&store_.sets, &cycle_.sets, Activity::kMemset);
  PlaceDevice(&store_.graph_launches, &cycle_.graph_launches, Activity::kNone);
  if (before_launch_ > 0 && without_launch_ > 0) {
    LeaveOutLaterWork(&cycle_.kernels, Activity::kKernel);
    LeaveOutLaterWork(&cycle_.copies, Activity::kMemcpy);
    LeaveOutLaterWork(&cycle_.sets, Activity::kMemset);
    LeaveOutLaterWork(&cycle_.graph_launches, Activity::kNone);
  }
  PlaceSyncs();
  PlaceMemories();
  PlaceOverheads();
  PlaceRanges();
  PlaceMarks();
  CountSteps();
  launches_for_next_ = index_.Take();
}

// By when a cycle whose end was lost was over: the next one's begin, else the newest time known.
TimeNs CycleAssembly::OverBy() const {
  return in_.later_from ? std::min(in_.last_host_ns, *in_.later_from) : in_.last_host_ns;
}

void CycleAssembly::PlaceSteps() {
  for (const auto& [process_index, step] : in_.pending->active_steps) cycle_.steps.push_back(step);
  SortByBegin(&cycle_.steps);
  for (size_t i = 0; i < cycle_.steps.size(); ++i) {
    Step& step = cycle_.steps[i];
    if (step.end_ns != 0) continue;
    if (i + 1 < cycle_.steps.size()) {
      step.end_ns = cycle_.steps[i + 1].begin_ns;  // its end was lost, but it was over by then
    } else {
      const TimeNs known = in_.pending->active_end.value_or(OverBy());
      step.end_ns = std::max(known, step.begin_ns);
    }
    step.ended = step.complete = false;
  }
}

void CycleAssembly::SetWindow() {
  const PendingCycle& p = *in_.pending;
  if (!cycle_.steps.empty()) {
    cycle_.window_begin_ns = cycle_.steps.front().begin_ns;
    cycle_.window_end_ns = cycle_.steps.back().end_ns;
  } else {
    cycle_.window_begin_ns = p.active_begin.value_or(0);
    cycle_.window_end_ns = p.active_end.value_or(OverBy());
  }
  cycle_.window_end_ns = std::max(cycle_.window_end_ns, cycle_.window_begin_ns);
}

// Reading a large cycle's memory is most of what this costs, so that all that can be known of a
// call is taken in one pass.
void CycleAssembly::PlaceCalls() {
  index_.Reserve(store_.calls.size());
  step_launches_.assign(cycle_.steps.size() + 1, 0);
  CallOrder order;
  Split(&store_.calls, &cycle_.calls, [&](Call& call) {
    const bool is_here = InWindow(call.begin_ns);
    if (is_here) {
      PlaceCall(&call, &order);
    } else if (IsLater(call.begin_ns)) {
      index_.Add(call.correlation, call.begin_ns, JoinIndex::kLater);
      return Belongs::kLater;
    } else {
      index_.Add(call.correlation, call.begin_ns, JoinIndex::kOutside);
      ++OutOfWindow(ActivityOf(call.cls));
    }
    return is_here ? Belongs::kHere : Belongs::kNowhere;
  });
  if (!order.is_sorted) {
    SortByBegin(&cycle_.calls);
    index_.ForgetHere();
    for (size_t i = 0; i < cycle_.calls.size(); ++i) {
      const Call& call = cycle_.calls[i];
      index_.Add(call.correlation, call.begin_ns, static_cast<int32_t>(i));
    }
  }
  index_.Finish();
  if (order.has_unnumbered || index_.HasTwoHere()) NumberFlows();
}

// A call of this cycle, at the place that it has if all come in order.
void CycleAssembly::PlaceCall(Call* call, CallOrder* order) {
  call->step = StepAt(call->begin_ns);
  call->flow_id = call->correlation;
  has_graph_ |= call->cls == CallClass::kGraphLaunch;
  ++Written(ActivityOf(call->cls));
  const bool is_launch = call->cls == CallClass::kLaunch || call->cls == CallClass::kGraphLaunch;
  step_launches_[static_cast<size_t>(call->step + 1)] += is_launch ? 1 : 0;
  if (call->correlation == 0) {
    order->has_unnumbered = true;
  } else if (!newest_correlation_ || IsNewerThanCalls(call->correlation)) {
    newest_correlation_ = call->correlation;
  }
  index_.Add(call->correlation, call->begin_ns, order->count++);
  // Not by length too: calls of a thread do not hold each other, and two that begin in one nanosecond
  // are no reason to sort millions.
  order->is_sorted &= order->count == 1 || call->begin_ns >= order->begin_ns;
  order->begin_ns = call->begin_ns;
}

// A flow id equals the correlation where only one call of the cycle has it; the others get numbers
// that no correlation of this cycle uses.
void CycleAssembly::NumberFlows() {
  std::vector<uint32_t> used;
  used.reserve(cycle_.calls.size());
  for (const Call& call : cycle_.calls) {
    if (call.correlation != 0) used.push_back(call.correlation);
  }
  SortRuns(&used, std::less<>());
  uint32_t fresh = 0;
  const auto next_fresh = [&] {
    do {
      ++fresh;
    } while (std::binary_search(used.begin(), used.end(), fresh));
    return fresh;
  };
  std::vector<uint32_t> repeated;
  for (size_t i = 1; i < used.size(); ++i) {
    if (used[i] == used[i - 1]) repeated.push_back(used[i]);
  }
  for (Call& call : cycle_.calls) {
    const bool is_unique = call.correlation != 0 &&
                           !std::binary_search(repeated.begin(), repeated.end(), call.correlation);
    if (!is_unique) call.flow_id = next_fresh();
  }
}

bool CycleAssembly::IsPossible(const DeviceItem& item, const Call* call) const {
  if (item.end_ns < item.begin_ns) return false;
  if (in_.last_host_ns != 0 && item.end_ns > in_.last_host_ns + kImpossibleNs) return false;
  return call == nullptr || item.begin_ns >= call->begin_ns - kImpossibleNs;
}

bool CycleAssembly::IsBeforeLaunch(const DeviceItem& item, const Call& call) const {
  const auto slack = static_cast<TimeNs>(in_.clock->ResidualNs().value_or(0));
  return item.placed && item.begin_ns + slack < call.begin_ns;
}

// Correlations rise with the calls of a process. Work without a call whose correlation comes before
// all of this cycle's was launched before the window and only ran in it, as that of a device which
// lags by steps. Where collection began within the window, unseen launches may be its own.
bool CycleAssembly::IsOlderThanCalls(uint32_t correlation) const {
  if (correlation == 0 || cycle_.steps.empty() || cycle_.steps.front().contains_tracer_start) {
    return false;
  }
  for (const Call& call : cycle_.calls) {
    if (call.correlation != 0) return static_cast<int32_t>(correlation - call.correlation) < 0;
  }
  return false;
}

// Calls are in no order of their ids, and ids wrap.
bool CycleAssembly::IsNewerThanCalls(uint32_t correlation) const {
  return newest_correlation_ && static_cast<int32_t>(correlation - *newest_correlation_) > 0;
}

// True when the item belongs to this cycle.
template <typename Item>
bool CycleAssembly::PlaceJoined(Item* item, int32_t where) {
  if (where >= 0) {
    Call& call = cycle_.calls[static_cast<size_t>(where)];
    ++call.device_items;
    item->call = where;
    item->step = call.step;
    item->flow_id = call.flow_id;
    item->placed = item->placed && IsPossible(*item, &call);
    if (IsBeforeLaunch(*item, call)) ++before_launch_;
    return true;
  }
  if (where == JoinIndex::kOutside) return false;
  if (item->has_begin && !InWindow(item->begin_ns)) return false;
  if (!item->has_begin && IsNewerThanCalls(item->correlation)) return false;
  if (IsOlderThanCalls(item->correlation)) return false;
  if (item->graph_id != 0) ++unknown_graph_;
  ++without_launch_;
  return true;
}

template <typename Item>
void CycleAssembly::PlaceDevice(std::vector<Item>* from, std::vector<Item>* to, Activity kind) {
  Split(from, to, [&](Item& raw) {
    Item item = raw;
    // What a forced flush cut off has a begin and no end.
    if (item.has_begin) item.begin_ns = in_.clock->ToHost(raw.begin_ns);
    if (item.placed) item.end_ns = in_.clock->ToHost(raw.end_ns);
    const int32_t where = index_.Find(
        item.correlation, item.has_begin ? std::optional<TimeNs>(item.begin_ns) : std::nullopt);
    const bool waits_for_launch = where == JoinIndex::kNone && item.has_begin &&
                                  !InWindow(item.begin_ns) && IsLater(item.begin_ns);
    if (where == JoinIndex::kLater || waits_for_launch) return Belongs::kLater;
    if (!PlaceJoined(&item, where)) {
      ++OutOfWindow(kind);
      return Belongs::kNowhere;
    }
    ++(item.placed ? Written(kind) : Invalid(kind));
    has_graph_ |= item.graph_id != 0 || std::is_same_v<Item, GraphLaunch>;
    if (!item.placed) ++(item.has_end ? impossible_ : unfinished_);
    raw = item;
    return Belongs::kHere;
  });
  SortByBegin(to);
  LeaveOutSecondCopies(to, kind);
}

// Takes back what PlaceJoined counted for an item.
template <typename Item>
void CycleAssembly::Uncount(const Item& item, Activity kind) {
  if (item.placed) {
    --Written(kind);
  } else {
    --Invalid(kind);
    --(item.has_end ? impossible_ : unfinished_);
  }
  if (item.call >= 0) {
    const Call& call = cycle_.calls[static_cast<size_t>(item.call)];
    --cycle_.calls[static_cast<size_t>(item.call)].device_items;
    if (IsBeforeLaunch(item, call)) --before_launch_;
  } else {
    --without_launch_;
    if (item.graph_id != 0) --unknown_graph_;
  }
}

// A record that came twice is counted once as work and once as invalid. Sorted by stamps, copies
// stand in one stretch of equal ones, which mostly has a length of one.
template <typename Item>
void CycleAssembly::LeaveOutSecondCopies(std::vector<Item>* items, Activity kind) {
  const auto key = [](const Item& item) { return std::pair(Identity(item), DetailOf(item)); };
  std::set<decltype(key(Item()))> seen;
  auto kept = items->begin();
  for (auto it = items->begin(); it != items->end();) {
    const auto first = it;
    const auto is_other = [first](const Item& item) {
      return item.begin_ns != first->begin_ns || item.end_ns != first->end_ns;
    };
    const auto end = std::find_if(it + 1, items->end(), is_other);
    const bool is_alone = end - first == 1;
    seen.clear();
    for (; it != end; ++it) {
      if (is_alone || !it->placed || seen.insert(key(*it)).second) {
        if (kept != it) *kept = *it;
        ++kept;
        continue;
      }
      Uncount(*it, kind);
      ++Invalid(kind);
      ++duplicates_;
    }
  }
  items->erase(kept, items->end());
}

// Where device stamps are seen to run ahead of the host's, what was launched after the window's end
// seems to begin in it: no call of the window is as new as that.
template <typename Item>
void CycleAssembly::LeaveOutLaterWork(std::vector<Item>* items, Activity kind) {
  std::erase_if(*items, [&](const Item& item) {
    if (item.call >= 0 || !IsNewerThanCalls(item.correlation)) return false;
    Uncount(item, kind);
    ++OutOfWindow(kind);
    return true;
  });
}

void CycleAssembly::PlaceSyncs() {
  Extract(&store_.syncs, [&](Sync& raw) {
    if (!raw.placed) {  // its call, which knows its own times, says whose it is
      const int32_t call = index_.Find(raw.correlation, std::nullopt);
      if (call >= 0) ++impossible_waits_;
      return call != JoinIndex::kLater;
    }
    Sync sync = raw;
    sync.begin_ns = in_.clock->ToHost(raw.begin_ns);
    sync.end_ns = std::max(in_.clock->ToHost(raw.end_ns), sync.begin_ns);
    const int32_t where = index_.Find(sync.correlation, sync.begin_ns);
    const bool in_window = InWindow(sync.begin_ns);
    if (where == JoinIndex::kLater) return false;
    if (where == JoinIndex::kNone && !in_window && IsLater(sync.begin_ns)) return false;
    if (where >= 0) {
      sync.call = where;
      sync.step = cycle_.calls[static_cast<size_t>(where)].step;
    } else if (where == JoinIndex::kOutside || !in_window) {
      return true;
    } else {
      sync.step = StepAt(sync.begin_ns);
    }
    const auto device = in_.device_of_context->find(sync.context);
    if (device != in_.device_of_context->end()) sync.device = static_cast<int32_t>(device->second);
    cycle_.syncs.push_back(sync);
    return true;
  });
  SortByBegin(&cycle_.syncs);
}

void CycleAssembly::PlaceMemories() {
  Extract(&store_.memories, [&](MemoryEvent& raw) {
    MemoryEvent event = raw;
    event.at_ns = in_.clock->ToHost(raw.at_ns);
    if (!InWindow(event.at_ns) && IsLater(event.at_ns)) return false;
    if (!InWindow(event.at_ns)) {
      ++OutOfWindow(Activity::kMemory);
      return true;
    }
    const int32_t where = index_.Find(event.correlation, event.at_ns);
    event.step = where >= 0 ? cycle_.calls[static_cast<size_t>(where)].step : StepAt(event.at_ns);
    ++Written(Activity::kMemory);
    cycle_.memories.push_back(event);
    return true;
  });
  std::stable_sort(cycle_.memories.begin(), cycle_.memories.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
}

void CycleAssembly::PlaceOverheads() {
  Extract(&store_.overheads, [&](Overhead& raw) {
    Overhead overhead = raw;
    overhead.begin_ns = in_.clock->ToHost(raw.begin_ns);
    overhead.end_ns = std::max(in_.clock->ToHost(raw.end_ns), overhead.begin_ns);
    if (!InWindow(overhead.begin_ns) && IsLater(overhead.begin_ns)) return false;
    if (!InWindow(overhead.begin_ns)) {
      ++OutOfWindow(Activity::kOverhead);
    } else {
      ++Written(Activity::kOverhead);
      cycle_.overheads.push_back(overhead);
    }
    return true;
  });
  SortByBegin(&cycle_.overheads);
}

}  // namespace stepagent::model
