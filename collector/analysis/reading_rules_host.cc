// Rules about the host's own doing: allocations, what we cost it, and names it gives away.
#include <algorithm>

#include "collector/analysis/private_text.h"
#include "collector/analysis/reading_rules.h"
#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

struct Allocations {
  uint64_t count = 0;
  HostTime time;
  const model::Call* longest = nullptr;
  std::map<std::string_view, uint64_t> names;
};

// Within steps, without the stream-ordered ones: those take from a pool and wait for nothing.
Allocations FindAllocations(const ReadingContext& c) {
  Allocations out;
  std::map<uint32_t, std::vector<Interval>> times;
  for (const model::Call& call : c.cycle.calls) {
    const std::string_view name = writers::WithoutVersionSuffix(c.cycle.Text(call.name));
    if (call.cls != model::CallClass::kAlloc || call.step < 0 || IsLeftOut(c, call.step) ||
        name.find("Async") != std::string_view::npos) {
      continue;
    }
    ++out.count, ++out.names[name];
    times[call.thread].push_back({call.begin_ns, call.end_ns});
    if (out.longest == nullptr ||
        call.end_ns - call.begin_ns > out.longest->end_ns - out.longest->begin_ns) {
      out.longest = &call;
    }
  }
  out.time = HostTimeOf(c, times);
  return out;
}

}  // namespace

std::optional<Reading> AllocationsInSteps(const ReadingContext& c) {
  const Allocations a = FindAllocations(c);
  const size_t steps = StepCount(c);
  if (a.longest == nullptr || double(a.count) < At(kAllocsPerStep) * double(steps))
    return std::nullopt;
  std::string names;
  for (const auto& [name, count] : a.names) {
    if (names.size() > 80) continue;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", Count(count), Fit(name, 30));
  }
  const double share = double(a.time.elapsed_ns) / double(c.window_ns);
  Reading r{share, "allocation_calls_in_steps", {}, {}, {}, {}};
  r.observation =
      fmt::format("{:.1f} calls a step allocate or free memory; they take {} on the host.",
                  double(a.count) / double(steps), OfWindow(c, share));
  r.evidence = {{"text", fmt::format("{} in {} steps; {} in all{}, the longest {} {}", names, steps,
                                     Duration(a.time.elapsed_ns), AddedOverThreads(a.time),
                                     Duration(a.longest->end_ns - a.longest->begin_ns),
                                     InStep(c, a.longest->step))},
                {"calls", a.count},
                {"elapsed_ns", a.time.elapsed_ns},
                {"total_ns", a.time.added_ns},
                {"where", Where(c, a.longest->step, a.longest->begin_ns, a.longest->end_ns,
                                ThreadRow(c, a.longest->thread))}};
  r.hypothesis =
      "Such calls may wait for the device and hold the caller; a pool or a buffer kept from step "
      "to "
      "step would spare them. A pool that still grows shows them for a while, and then stops.";
  r.next_check =
      "Record a later window: if the calls are still there, find who makes them (--stacks native) "
      "and keep that buffer.";
  return r;
}

namespace {

CallingThreads FindCallingThreads(const ReadingContext& c) {
  CallingThreads out;
  std::map<uint32_t, uint64_t> calls;
  uint64_t most = 0;
  for (const model::Call& call : c.cycle.calls) most = std::max(most, ++calls[call.thread]);
  out.count = calls.size();
  if (most > 0) out.busiest = double(most) / double(c.cycle.calls.size());
  return out;
}

}  // namespace

std::optional<Reading> ProfilerCost(const ReadingContext& c) {
  return ProfilerCostOf(c.cost, FindCallingThreads(c),
                        double(c.cycle.window_end_ns - c.cycle.window_begin_ns));
}

std::optional<Reading> ProfilerCostOf(const Json& cost, const CallingThreads& threads,
                                      double window_ns) {
  const Json& callback_ns = cost.at("callback_ns");
  const Json& ratio = cost.at("ratio");
  const double share =
      callback_ns.is_number() ? threads.busiest * callback_ns.get<double>() / window_ns : 0;
  const bool is_slower =
      ratio.at("low").is_number() && ratio.at("low").get<double>() > At(kCostRatio);
  if (share < At(kCallbackShare) && !is_slower) return std::nullopt;
  const double slower = is_slower ? 1 - 1 / ratio.at("value").get<double>() : 0;
  Reading r{std::max(share, slower), "profiler_cost", {}, {}, {}, {}};
  if (is_slower) {
    r.observation =
        fmt::format("Steps are slower while they are recorded: {:.2f} times the others.",
                    ratio.at("value").get<double>());
  } else if (threads.count < 2) {
    r.observation =
        fmt::format("The profiler's own callbacks take {} of the window.", Percent(share));
  } else {
    r.observation = fmt::format(
        "The profiler's own callbacks take {}, added over {} threads, in a window of {}.",
        Duration(callback_ns.get<int64_t>()), threads.count,
        Duration(static_cast<int64_t>(window_ns)));
  }
  std::string text = "callbacks not measured";
  if (callback_ns.is_number() && cost.at("callbacks").is_number()) {
    text = fmt::format("{} in {} callbacks over all threads", Duration(callback_ns.get<int64_t>()),
                       Count(cost.at("callbacks").get<uint64_t>()));
  }
  if (ratio.at("low").is_number()) {
    text += fmt::format("; ratio of the step medians {:.3f}, between {:.3f} and {:.3f}",
                        ratio.at("value").get<double>(), ratio.at("low").get<double>(),
                        ratio.at("high").get<double>());
  }
  r.evidence = {{"text", text}, {"callback_ns", callback_ns}, {"ratio", ratio}, {"where", nullptr}};
  r.hypothesis =
      "Every figure of this window holds that cost, most of all where launches are many and short. "
      "Steps that differ by themselves, or a neighbour on the machine, change the ratio too.";
  r.next_check =
      "Record with less (--activities kernel,nvtx; --graph graph; --stacks none), and compare the "
      "steps' times of both windows with diff.";
  return r;
}

std::optional<Reading> PrivateNames(const ReadingContext& c) {
  std::map<model::StringId, PrivateText> looks;  // by name, once
  for (const model::Range& range : c.cycle.ranges) looks.try_emplace(range.name);
  for (const model::Mark& mark : c.cycle.marks) looks.try_emplace(mark.name);
  for (auto& [name, look] : looks) look = FindPrivate(c.cycle.Text(name));
  std::erase_if(looks, [](const auto& entry) { return entry.second.kind == PrivateKind::kNone; });
  if (looks.empty()) return std::nullopt;
  uint64_t count = 0;
  Json where = nullptr;
  for (const model::Range& range : c.cycle.ranges) {
    if (!looks.contains(range.name)) continue;
    if (++count == 1) {
      where = Where(c, range.step, range.begin_ns, range.end_ns, ThreadRow(c, range.thread));
    }
  }
  for (const model::Mark& mark : c.cycle.marks) {
    if (!looks.contains(mark.name)) continue;
    if (++count == 1)
      where = Where(c, mark.step, mark.at_ns, mark.at_ns, ThreadRow(c, mark.thread));
  }
  const PrivateText& first = looks.begin()->second;
  Reading r{0, "private_looking_names", {}, {}, {}, {}};
  r.observation = fmt::format("{} private; one holds what looks like {}.",
                              looks.size() == 1 ? std::string("1 range name looks")
                                                : Count(looks.size()) + " range names look",
                              PrivateKindName(first.kind));
  r.evidence = {{"text", fmt::format("{} ranges and marks; the first: `{}`", Count(count),
                                     writers::ValidUtf8(Masked(first.text)))},
                {"names", looks.size()},
                {"ranges", count},
                {"kind", PrivateKindName(first.kind)},
                {"where", where}};
  r.hypothesis =
      "The program puts data into range names. By its shape alone a name cannot be told from a "
      "harmless one; every file of this cycle holds it.";
  r.next_check =
      "Look at the name before you pass these files on; --redact names hashes all of them.";
  return r;
}

}  // namespace stepagent::analysis
