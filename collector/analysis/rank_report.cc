#include "collector/analysis/rank_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "collector/analysis/per_step.h"
#include "collector/analysis/rank_groups.h"
#include "collector/analysis/rank_readings.h"
#include "collector/model/cycle.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using Value = std::optional<int64_t>;

const Json& Member(const Json& object, const char* key) {
  static const Json kNone;
  const auto it = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && it != object.end() ? *it : kNone;
}
Value Number(const Json& object, const char* key) {
  const Json& member = Member(object, key);
  return member.is_number() ? Value(member.get<int64_t>()) : std::nullopt;
}
std::string Text(const Json& object, const char* key) {
  const Json& member = Member(object, key);
  return member.is_string() ? member.get<std::string>() : std::string();
}
bool Flag(const Json& object, const char* key) {
  const Json& member = Member(object, key);
  return member.is_boolean() && member.get<bool>();
}
Json Maybe(const Value& value) { return value ? Json(*value) : Json(nullptr); }

// Over a cycle's devices; nullopt where there is no device data.
Value OverDevices(const Json& summary, const char* key) {
  const Json& devices = Member(summary, "devices");
  if (!devices.is_array()) return std::nullopt;
  int64_t total = 0;
  for (const Json& device : devices) {
    const Value figure = Number(device, key);
    if (!figure) return std::nullopt;
    total += *figure;
  }
  return total;
}

// Collection ended on the way; what was never on is another matter: then figures are null already.
bool IsCutShort(const Json& summary) {
  const Json& gpu = Member(summary, "gpu");
  return model::Gpu::WasCutShort(Text(gpu, "status"), Text(gpu, "reason_code"));
}

RankSteps StepsOf(const Json& summary) {
  RankSteps rank;
  const Json& session = Member(summary, "session");
  rank.rank = Number(session, "rank").value_or(-1);
  rank.pid = Number(session, "pid").value_or(-1);
  rank.host = Text(session, "host");
  rank.why_no_steps = WhyStepsDoNotCompare(Text(session, "step_source"));
  if (!rank.why_no_steps.empty()) return rank;
  const Value base = Number(Member(summary, "window"), "base_unix_ns");
  for (const Json& row : Member(Member(summary, "steps"), "each")) {
    // By the process's own count: `index` begins anew with each arming, which ranks may be apart
    // in.
    const Value own_index = Number(row, "process_index");
    const Value index = own_index ? own_index : Number(row, "index");
    const Value wall = Number(row, "wall_ns"), begin = Number(row, "begin_ns");
    if (!index || !wall) continue;
    RankStep step;
    step.wall_ns = *wall;
    step.exposed_ns = std::min(Number(row, "exposed_collective_ns").value_or(0), *wall);
    step.holds_tracer_start = Flag(row, "contains_tracer_start") || Flag(row, "partial");
    // What a trace file does not tell (null) is no fault of the step's.
    step.is_whole = Member(row, "complete") != false && !step.holds_tracer_start;
    if (base && begin) step.begin_unix_ns = *base + *begin;
    rank.steps[static_cast<uint64_t>(*index)] = step;
  }
  return rank;
}

struct HostTimes {
  Value median, min, max;
};

// Of a rank that was killed no step may have all of its device work; how long the host took for
// those that ended is known all the same.
HostTimes HostTimesOf(const Json& steps) {
  HostTimes times{Number(steps, "median_ns"), Number(steps, "min_ns"), Number(steps, "max_ns")};
  if (times.median) return times;
  std::vector<int64_t> walls;
  for (const Json& row : Member(steps, "each")) {
    const Value wall = Number(row, "wall_ns");
    const bool counts = wall && Flag(row, "ended") && !Flag(row, "contains_tracer_start");
    if (counts) walls.push_back(*wall);
  }
  if (walls.empty()) return times;
  const auto [min, max] = std::minmax_element(walls.begin(), walls.end());
  return {Median(walls), *min, *max};
}

Json RankRow(const Json& summary, const RankSteps& rank) {
  const Json &session = Member(summary, "session"), &steps = Member(summary, "steps");
  std::vector<int64_t> own, exposed;
  uint64_t launches = 0;
  bool has_launches = false, has_exposed = false;
  for (const auto& [index, step] : rank.steps) {
    if (!step.is_whole) continue;
    own.push_back(step.OwnNs());
    exposed.push_back(step.exposed_ns);
  }
  for (const Json& row : Member(steps, "each")) {
    const Value count = Number(row, "launches");
    has_launches |= count.has_value();
    has_exposed |= Number(row, "exposed_collective_ns").has_value();
    launches += static_cast<uint64_t>(count.value_or(0));
  }
  const DeviceFigures device = DeviceFiguresOf(summary);
  const std::string reason = Text(Member(summary, "gpu"), "reason");
  const HostTimes host = HostTimesOf(steps);
  return {{"rank", rank.rank < 0 ? Json(nullptr) : Json(rank.rank)},
          {"host", rank.host},
          {"pid", Maybe(Number(session, "pid"))},
          {"name", rank.name},
          {"restarted", rank.is_restarted},
          {"exe", Text(session, "exe")},
          {"steps", Maybe(Number(steps, "count"))},
          {"counted", Maybe(Number(steps, "counted"))},
          {"step_median_ns", Maybe(host.median)},
          {"step_min_ns", Maybe(host.min)},
          {"step_max_ns", Maybe(host.max)},
          {"step_spread_ns", host.min && host.max ? Json(*host.max - *host.min) : Json(nullptr)},
          {"own_median_ns", has_exposed ? Maybe(Median(own)) : Json(nullptr)},
          {"exposed_median_ns", has_exposed ? Maybe(Median(exposed)) : Json(nullptr)},
          {"busy_ns", Maybe(device.busy_ns)},
          {"idle_ns", Maybe(device.idle_ns)},
          {"collective_ns", Maybe(device.collective_ns)},
          {"exposed_collective_ns", Maybe(device.exposed_ns)},
          {"device_partial", device.is_partial},
          {"device_reason", reason.empty() ? Json(nullptr) : Json(reason)},
          {"launches", has_launches ? Json(launches) : Json(nullptr)}};
}

Json RankOf(const RankSteps* one) {
  return one == nullptr || one->rank < 0 ? Json(nullptr) : Json(one->rank);
}
Json PidOf(const RankSteps* one) {
  return one == nullptr || one->pid < 0 ? Json(nullptr) : Json(one->pid);
}

// Two processes may claim one rank (reading several hosts' folders, a wrong variable); a restarted
// one is another process than the rank's first.
void NameRanks(std::vector<RankSteps>* ranks) {
  std::map<int64_t, size_t> holders;
  for (const RankSteps& one : *ranks) ++holders[one.rank];
  for (RankSteps& one : *ranks) {
    const bool is_by_rank = (one.rank >= 0 && holders[one.rank] == 1) || one.pid < 0;
    one.name = is_by_rank ? "rank " + (one.rank < 0 ? "-" : std::to_string(one.rank))
                          : "pid " + std::to_string(one.pid);
    if (is_by_rank && one.is_restarted && one.pid >= 0)
      one.name += " (restarted, pid " + std::to_string(one.pid) + ")";
  }
}

uint64_t WholeSteps(const RankSteps& rank) {
  return static_cast<uint64_t>(std::count_if(
      rank.steps.begin(), rank.steps.end(), [](const auto& step) { return step.second.is_whole; }));
}

// A rank that died or ended early has few whole steps, or none: to ask for steps that it has whole
// too would leave the others uncompared.
std::vector<RankSteps> Comparable(const std::vector<RankSteps>& ranks) {
  uint64_t most = 0;
  for (const RankSteps& rank : ranks) most = std::max(most, WholeSteps(rank));
  std::vector<RankSteps> kept;
  for (const RankSteps& rank : ranks) {
    if (const uint64_t whole = WholeSteps(rank); whole > 0 && whole * 2 >= most) {
      kept.push_back(rank);
    }
  }
  return kept;
}

bool IsAmong(const std::vector<RankSteps>& compared, const RankSteps& rank) {
  return std::any_of(compared.begin(), compared.end(),
                     [&](const RankSteps& one) { return one.name == rank.name; });
}

Json NotCompared(const std::vector<RankSteps>& ranks, const std::vector<RankSteps>& compared) {
  Json out = Json::array();
  for (const RankSteps& rank : ranks) {
    if (!IsAmong(compared, rank))
      out.push_back({{"name", rank.name}, {"whole_steps", WholeSteps(rank)}});
  }
  return out;
}

// What the ranks that have a step say of it together; `compared`: those that must have it whole.
Json StepRow(uint64_t index, const std::vector<RankSteps>& ranks,
             const std::vector<RankSteps>& compared) {
  const RankStep* slowest = nullptr;
  const RankSteps *slowest_rank = nullptr, *last_rank = nullptr;
  std::vector<int64_t> walls, begins, ends;
  uint64_t tracer_started = 0, counted = 0;
  for (const RankSteps& rank : ranks) {
    const auto it = rank.steps.find(index);
    if (it == rank.steps.end()) continue;
    const RankStep& step = it->second;
    walls.push_back(step.wall_ns);
    tracer_started += step.holds_tracer_start ? 1 : 0;
    const bool counts = compared.size() < 2 || IsAmong(compared, rank);
    counted += counts ? 1 : 0;
    if (counts && (slowest == nullptr || step.OwnNs() > slowest->OwnNs())) {
      slowest = &step;
      slowest_rank = &rank;
    }
    if (!step.begin_unix_ns) continue;
    if (begins.empty() || *step.begin_unix_ns > *std::max_element(begins.begin(), begins.end())) {
      last_rank = &rank;
    }
    begins.push_back(*step.begin_unix_ns);
    ends.push_back(*step.begin_unix_ns + step.wall_ns);
  }
  // Ranks wait for one whose step the tracer's start made long; and one alone is not the slowest.
  if (tracer_started > 0 || counted < 2) slowest = nullptr, slowest_rank = nullptr;
  const auto spread = [](const std::vector<int64_t>& values) {
    if (values.size() < 2) return Json(nullptr);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return Json(*high - *low);
  };
  const auto has_it_whole = [index](const RankSteps& rank) {
    const auto it = rank.steps.find(index);
    return it != rank.steps.end() && it->second.is_whole;
  };
  const bool is_whole =
      compared.size() > 1 && std::all_of(compared.begin(), compared.end(), has_it_whole);
  return {{"index", index},
          {"ranks", walls.size()},
          {"whole_in_all", is_whole},
          {"tracer_started", tracer_started},  // in so many ranks
          {"slowest_rank", RankOf(slowest_rank)},
          {"slowest_pid", PidOf(slowest_rank)},
          {"slowest_name", slowest_rank == nullptr ? Json(nullptr) : Json(slowest_rank->name)},
          {"slowest_own_ns", slowest == nullptr ? Json(nullptr) : Json(slowest->OwnNs())},
          {"slowest_wall_ns", slowest == nullptr ? Json(nullptr) : Json(slowest->wall_ns)},
          {"median_wall_ns", Maybe(Median(walls))},
          {"wall_spread_ns", spread(walls)},
          {"begin_skew_ns", spread(begins)},
          {"end_skew_ns", spread(ends)},
          {"last_to_begin", RankOf(last_rank)},
          {"last_to_begin_pid", PidOf(last_rank)}};
}

uint64_t WholeInAll(const Json& steps) {
  return static_cast<uint64_t>(std::count_if(steps.begin(), steps.end(), [](const Json& step) {
    return step.at("whole_in_all").get<bool>();
  }));
}

// The rank that is slowest, by own work, in most of the steps the readings look at, too: those that
// are whole in every rank that is compared, where these are enough. Ties go to the lower rank.
Json SlowestOf(const Json& steps, const std::vector<RankSteps>& ranks) {
  std::map<std::string, uint64_t> times;
  if (WholeInAll(steps) < LeastSteps()) return nullptr;
  for (const Json& step : steps) {
    if (!step.at("whole_in_all").get<bool>() || !step.at("slowest_name").is_string()) continue;
    ++times[step.at("slowest_name").get<std::string>()];
  }
  Json best = nullptr;
  uint64_t most = 0;
  for (const RankSteps& one : ranks) {
    const uint64_t count = times[one.name];
    if (count <= most) continue;
    most = count;
    best = {{"rank", RankOf(&one)}, {"pid", PidOf(&one)}, {"name", one.name}, {"steps", count}};
  }
  return best;
}

struct Ordered {
  const Json* summary;
  RankSteps steps;
};

std::vector<Ordered> InOrder(const RankGroup& group) {
  std::vector<Ordered> members;
  for (size_t i = 0; i < group.summaries.size(); ++i) {
    members.push_back({group.summaries[i], StepsOf(*group.summaries[i])});
    members.back().steps.is_restarted = group.restarted[i];
  }
  std::stable_sort(members.begin(), members.end(), [](const Ordered& a, const Ordered& b) {
    return std::pair(a.steps.rank, a.steps.pid) < std::pair(b.steps.rank, b.steps.pid);
  });
  return members;
}

// How far apart the ranks' own clocks had come, by the wall clock of their host, and to what that
// is known.
struct ClockOffset {
  Value offset_ns, error_ns;
};

// Brings the begins of one host's ranks to its wall clock, where each rank tells how far it is off.
ClockOffset AlignClocks(const std::vector<Ordered>& members, std::vector<RankSteps>* ranks) {
  std::vector<int64_t> offsets, errors;
  for (const Ordered& member : members) {
    const Json& clock = Member(*member.summary, "clock");
    const Value offset = Number(clock, "wall_offset_ns"), error = Number(clock, "wall_error_ns");
    if (!offset || !error) return {};
    offsets.push_back(*offset), errors.push_back(*error);
  }
  for (size_t i = 0; i < ranks->size(); ++i) {
    for (auto& [index, step] : (*ranks)[i].steps) {
      if (step.begin_unix_ns) *step.begin_unix_ns += offsets[i];
    }
  }
  const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  const int64_t offset = *most - *least;
  std::sort(errors.rbegin(), errors.rend());
  return {offset, errors[0] + (errors.size() > 1 ? errors[1] : 0)};
}

Json Compare(const RankGroup& group) {
  Json rows = Json::array(), steps = Json::array();
  std::vector<RankSteps> ranks;
  std::set<uint64_t> indexes;
  std::set<std::string> hosts;
  Json why_no_steps = nullptr;
  const std::vector<Ordered> members = InOrder(group);
  for (const Ordered& member : members) {
    ranks.push_back(member.steps);
    hosts.insert(member.steps.host);
    if (!member.steps.why_no_steps.empty()) why_no_steps = member.steps.why_no_steps;
    for (const auto& [step, unused] : member.steps.steps) indexes.insert(step);
  }
  NameRanks(&ranks);
  for (size_t i = 0; i < ranks.size(); ++i) rows.push_back(RankRow(*members[i].summary, ranks[i]));
  const bool is_one_host = hosts.size() == 1;
  const ClockOffset clocks = is_one_host ? AlignClocks(members, &ranks) : ClockOffset{};
  const std::vector<RankSteps> compared = Comparable(ranks);
  for (const uint64_t step : indexes) steps.push_back(StepRow(step, ranks, compared));
  const Json slowest = SlowestOf(steps, ranks);
  return {{"ranks", rows},
          {"slowest", slowest},
          {"steps", steps},
          {"whole_steps", WholeInAll(steps)},
          {"steps_needed", LeastSteps()},  // to name a rank
          {"steps_not_compared", why_no_steps},
          {"hosts", hosts.size()},
          {"host_names", hosts},
          // Taken out of begins and skews. Nothing that is recorded tells one host's clock from
          // another's.
          {"clock_offset_ns", Maybe(clocks.offset_ns)},
          {"clock_error_ns", Maybe(clocks.error_ns)},
          {"not_compared", NotCompared(ranks, compared)},
          {"readings", RankReadings(compared, is_one_host)}};
}

// One comparison for each set of processes that ran side by side.
void CompareCycle(const std::string& run, uint64_t index, std::span<const Json* const> summaries,
                  Json* out) {
  const std::vector<RankGroup> groups = GroupByTime(summaries);
  for (size_t i = 0; i < groups.size(); ++i) {
    Json compared = {{"run", run.empty() ? Json(nullptr) : Json(run)},
                     {"cycle", index},
                     {"incarnation", i},
                     {"incarnations", groups.size()}};
    compared.update(Compare(groups[i]));
    out->push_back(std::move(compared));
  }
}

// Some of a device's work has no record: its own summary says "at least".
bool IsLowerBound(const Json& summary) {
  const Json& devices = Member(summary, "devices");
  return devices.is_array() && std::any_of(devices.begin(), devices.end(), [](const Json& device) {
           return device.contains("busy_at_least_ns");
         });
}

}  // namespace

DeviceFigures DeviceFiguresOf(const Json& summary) {
  DeviceFigures figures{OverDevices(summary, "busy_ns"), OverDevices(summary, "idle_ns"),
                        OverDevices(summary, "collective_ns"),
                        OverDevices(summary, "exposed_collective_ns")};
  if (IsLowerBound(summary) || (figures.busy_ns && IsCutShort(summary)))
    figures = {.is_partial = true};
  return figures;
}

std::optional<int64_t> Median(std::vector<int64_t> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  return values[half - 1] + (values[half] - values[half - 1]) / 2;
}

Json CompareRanks(std::span<const Json* const> summaries) {
  // Ranks belong together within one run; files of other tools know none.
  struct Run {
    std::map<uint64_t, std::vector<const Json*>> cycles;
    // Files of other tools have no session id either, but a rank.
    std::set<std::pair<std::string, int64_t>> sessions;
  };
  std::map<std::string, Run> runs;
  for (const Json* summary : summaries) {
    const Json& session = Member(*summary, "session");
    Run& run = runs[Text(session, "run")];
    run.sessions.emplace(Text(session, "id"), Number(session, "rank").value_or(-1));
    const Value index = Number(Member(*summary, "cycle"), "index");
    if (index) run.cycles[static_cast<uint64_t>(*index)].push_back(summary);
  }
  Json out = Json::array();
  for (const auto& [name, run] : runs) {
    if (run.sessions.size() < 2) continue;
    for (const auto& [index, group] : run.cycles) CompareCycle(name, index, group, &out);
  }
  return out;
}

}  // namespace stepagent::analysis
