#include "collector/analysis/idle_table.h"

#include <algorithm>
#include <array>
#include <compare>
#include <optional>
#include <unordered_map>

#include "collector/analysis/host_place.h"
#include "collector/analysis/known_window.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;
using model::TimeNs;
using writers::ValidUtf8;

constexpr uint32_t kNoThread = UINT32_MAX;

// The thread most of `items` are of; of several the first.
template <typename Item, typename IsWanted>
uint32_t Busiest(const std::vector<Item>& items, size_t threads, IsWanted is_wanted) {
  std::vector<uint64_t> counts(threads);
  for (const Item& item : items) {
    if (item.thread < threads && is_wanted(item)) ++counts[item.thread];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  if (most == counts.end() || *most == 0) return kNoThread;
  return static_cast<uint32_t>(most - counts.begin());
}

bool Enqueues(const model::Call& call) {
  return call.cls == CallClass::kLaunch || call.cls == CallClass::kGraphLaunch ||
         call.cls == CallClass::kMemcpy || call.cls == CallClass::kMemset;
}

struct HostThread {
  uint32_t index = kNoThread;
  const char* why = "";
};

// A step by a signal or a clock is no thread's: then the one that gives the devices most to do.
HostThread ChooseThread(const model::Cycle& cycle) {
  const size_t threads = cycle.threads.size();
  const auto any = [](const auto&) { return true; };
  const bool has_step_thread = cycle.is_from_trace || cycle.session.step_source.starts_with("nvtx");
  if (has_step_thread) {
    const uint32_t steps = Busiest(cycle.steps, threads, any);
    if (steps != kNoThread) return {steps, "runs the steps"};
  }
  const uint32_t launches = Busiest(cycle.calls, threads, Enqueues);
  if (launches != kNoThread) return {launches, "makes most launch calls"};
  return {Busiest(cycle.ranges, threads, any), "has most ranges"};
}

constexpr uint32_t kNothing = UINT32_MAX;  // of a name: in no range, in no call, not known

// What a wait is for, by CUPTI's own record of it: a number of texts().
class Waits {
 public:
  Waits(const model::Cycle& cycle, uint32_t thread) : cycle_(cycle) {
    std::map<std::string, uint32_t> numbers;
    for (const model::Sync& sync : cycle.syncs) {
      if (sync.call < 0 || static_cast<size_t>(sync.call) >= cycle.calls.size()) continue;
      if (cycle.calls[static_cast<size_t>(sync.call)].thread != thread) continue;
      const std::string text = Text(sync);
      if (text.empty()) continue;
      const auto [it, is_new] = numbers.try_emplace(text, static_cast<uint32_t>(texts_.size()));
      if (is_new) texts_.push_back(text);
      of_call_.try_emplace(sync.call, it->second);
    }
  }
  [[nodiscard]] uint32_t Of(int32_t call) const {
    const auto found = of_call_.find(call);
    return found == of_call_.end() ? kNothing : found->second;
  }
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

 private:
  [[nodiscard]] std::string Text(const model::Sync& sync) const {
    if (sync.type == 1) return "an event";
    const std::string device = sync.device < 0 ? "" : "GPU " + std::to_string(sync.device);
    if (sync.type == 4) return device.empty() ? "a context" : "all of " + device;
    if (sync.type != 3 || !sync.stream) return {};
    return (device.empty() ? "" : device + " ") + "stream " + std::to_string(Shown(sync));
  }
  // The number its work is shown under.
  [[nodiscard]] uint64_t Shown(const model::Sync& sync) const {
    for (const model::Lane& lane : cycle_.lanes) {
      if (lane.device == sync.device && lane.stream == *sync.stream) return lane.stream_index;
    }
    return *sync.stream & 0x7fffffff;
  }

  const model::Cycle& cycle_;
  std::unordered_map<int32_t, uint32_t> of_call_;
  std::vector<std::string> texts_;
};

// What of the window is looked at, and what is not.
struct LookedAt {
  IntervalUnion known, steps;
  int64_t left_out_ns = 0, not_known_ns = 0;
  uint64_t steps_left_out = 0;
};

LookedAt LookAt(const model::Cycle& cycle, const DeviceWork& work) {
  LookedAt out;
  const TimeNs begin = cycle.window_begin_ns, end = std::max(begin, cycle.window_end_ns);
  const TimeNs from = std::clamp(KnownFrom(work), begin, end);
  const IntervalUnion left_out = StepsLeftOut(cycle);
  out.left_out_ns = left_out.CoveredNs(begin, end);
  out.not_known_ns = from - begin - left_out.CoveredNs(begin, from);
  out.known = Without(MakeUnion({{from, end}}), left_out);
  std::vector<Interval> steps;
  for (const model::Step& step : cycle.steps) {
    steps.push_back({step.begin_ns, step.end_ns});
    if (!left_out.parts().empty() && HoldsTracerStart(step)) ++out.steps_left_out;
  }
  out.steps = MakeUnion(std::move(steps));
  return out;
}

struct Figures {
  int64_t idle_ns = 0, outside_steps_ns = 0;
  void Add(const Figures& more) {
    idle_ns += more.idle_ns, outside_steps_ns += more.outside_steps_ns;
  }
};

// Where the host was, in numbers: names of a range and its domain, of a call, of what it waits for.
struct Place {
  uint32_t range = kNothing, domain = kNothing, call = kNothing, waits_for = kNothing;
  auto operator<=>(const Place&) const = default;
};

class IdleSplit {
 public:
  IdleSplit(const model::Cycle& cycle, uint32_t thread)
      : cycle_(cycle), thread_(thread), waits_(cycle, thread) {}

  Figures AddDevice(const DeviceTime& device, const LookedAt& looked_at) {
    HostPlace host(cycle_, thread_);
    std::map<Place, Figures> places;
    Figures all;
    const IntervalUnion idle = Without(looked_at.known, device.busy);
    for (const Interval& part : idle.parts()) {
      for (TimeNs at = part.begin_ns; at < part.end_ns;) {
        const TimeNs until = std::min(host.MoveTo(at), part.end_ns);
        const Figures here{until - at, until - at - looked_at.steps.CoveredNs(at, until)};
        places[PlaceOf(host)].Add(here), all.Add(here);
        at = until;
      }
    }
    AddRows(device.ordinal, places, all.idle_ns);
    return all;
  }

  // Most idle time first.
  [[nodiscard]] Json Take() {
    std::stable_sort(rows_.begin(), rows_.end(), [](const Json& a, const Json& b) {
      return a.at("idle_ns").get<int64_t>() > b.at("idle_ns").get<int64_t>();
    });
    Json out = Json::array();
    for (Json& row : rows_) out.push_back(std::move(row));
    return out;
  }

 private:
  [[nodiscard]] Place PlaceOf(const HostPlace& host) const {
    Place place;
    if (host.range() >= 0) {
      const model::Range& range = cycle_.ranges[static_cast<size_t>(host.range())];
      place.range = range.name, place.domain = range.domain;
    }
    if (host.call() >= 0) {
      place.call = cycle_.calls[static_cast<size_t>(host.call())].name;
      place.waits_for = waits_.Of(host.call());
    }
    return place;
  }

  // Names with different numbers may read the same: versions of one call.
  void AddRows(int32_t device, const std::map<Place, Figures>& places, int64_t all_ns) {
    using Names = std::array<std::optional<std::string>, 4>;
    std::map<Names, Figures> by_name;
    for (const auto& [place, figures] : places) {
      Names names;
      if (place.range != kNothing) {
        names[0] = ValidUtf8(cycle_.Text(place.range));
        names[1] = ValidUtf8(cycle_.Text(place.domain));
      }
      if (place.call != kNothing)
        names[2] = ValidUtf8(writers::WithoutVersionSuffix(cycle_.Text(place.call)));
      if (place.waits_for != kNothing) names[3] = waits_.texts()[place.waits_for];
      by_name[names].Add(figures);
    }
    const auto text = [](const std::optional<std::string>& t) {
      return t ? Json(*t) : Json(nullptr);
    };
    for (const auto& [names, figures] : by_name) {
      rows_.push_back({{"device", device},
                       {"range", text(names[0])},
                       {"domain", text(names[1])},
                       {"call", text(names[2])},
                       {"waits_for", text(names[3])},
                       {"idle_ns", figures.idle_ns},
                       {"share_of_idle", double(figures.idle_ns) / double(all_ns)},
                       {"outside_steps_ns", figures.outside_steps_ns}});
    }
  }

  const model::Cycle& cycle_;
  const uint32_t thread_;
  const Waits waits_;
  std::vector<Json> rows_;
};

}  // namespace

std::string WhyNoIdleTable(const model::Cycle& cycle) {
  if (cycle.HostOnly()) return WhyAbsent(cycle, model::Activity::kKernel);
  if (std::string why = WhyNoBusyTime(cycle); !why.empty()) return why;
  const bool has_partial = std::any_of(cycle.steps.begin(), cycle.steps.end(),
                                       [](const model::Step& step) { return step.partial; });
  if (has_partial && StepsLeftOut(cycle).parts().empty()) {
    return "collection came on within the steps: what ran before is not recorded";
  }
  if (ChooseThread(cycle).index == kNoThread) return "no thread of the host was recorded";
  return {};
}

Json IdleTable(const model::Cycle& cycle, const DeviceWork& work) {
  const HostThread thread = ChooseThread(cycle);
  const LookedAt looked_at = LookAt(cycle, work);
  const bool has_steps = !cycle.steps.empty();
  IdleSplit split(cycle, thread.index);
  Json devices = Json::array();
  for (const DeviceTime& device : work.devices()) {
    const Figures all = split.AddDevice(device, looked_at);
    devices.push_back(
        {{"ordinal", device.ordinal},
         {"idle_ns", all.idle_ns},
         {"outside_steps_ns", has_steps ? Json(all.outside_steps_ns) : Json(nullptr)}});
  }
  Json rows = split.Take();
  if (!has_steps) {
    for (Json& row : rows) row["outside_steps_ns"] = nullptr;
  }
  const model::Thread& chosen = cycle.threads[thread.index];
  return {{"thread", {{"tid", chosen.tid}, {"name", ValidUtf8(chosen.name)}, {"why", thread.why}}},
          {"looked_at_ns", looked_at.known.TotalNs()},
          {"steps_left_out", looked_at.steps_left_out},
          {"left_out_ns", looked_at.left_out_ns},
          {"not_known_ns", looked_at.not_known_ns},
          {"devices", std::move(devices)},
          {"rows", std::move(rows)}};
}

}  // namespace stepagent::analysis
