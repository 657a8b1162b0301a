// Each rule as one function; the thresholds and their reasons are in readings.cc.
#include "collector/analysis/reading_rules.h"

#include <algorithm>

#include "collector/analysis/text_format.h"
#include "collector/writers/json_text.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

struct IdleRange {
  std::string_view name;
  int64_t idle_ns = 0, total_ns = 0, longest_ns = -1;  // idle and total: elapsed, of any thread
  uint64_t count = 0;
  std::vector<Interval> times;
  const model::Range* longest = nullptr;
};

// Per range name of launching threads: how long the device had nothing to do meanwhile.
std::map<std::string_view, IdleRange> IdleByRange(const ReadingContext& c, bool only_quiet) {
  std::map<std::string_view, IdleRange> out;
  for (size_t i = 0; i < c.cycle.ranges.size(); ++i) {
    const model::Range& range = c.cycle.ranges[i];
    if ((only_quiet && c.launches_in_range[i] > 0) || range.end_ns <= range.begin_ns) continue;
    if (range.thread >= c.thread_launches.size() || !c.thread_launches[range.thread]) continue;
    const model::TimeNs begin = std::max(range.begin_ns, c.cycle.window_begin_ns);
    const model::TimeNs end = std::min(range.end_ns, c.cycle.window_end_ns);
    const int64_t begin_to_end = end - begin;
    if (begin_to_end <= c.left_out.CoveredNs(begin, end)) continue;
    IdleRange& q = out[c.cycle.Text(range.name)];
    const int64_t idle = begin_to_end - c.not_idle.CoveredNs(begin, end);
    q.name = c.cycle.Text(range.name);
    q.times.push_back({begin, end}), ++q.count;
    if (idle > q.longest_ns) {
      q.longest_ns = idle, q.longest = &range;
    }
  }
  // Several threads may be in ranges of one name at once: that time passes once.
  for (auto& [name, q] : out) {
    const IntervalUnion all = Without(MakeUnion(std::move(q.times)), c.left_out);
    q.total_ns = all.TotalNs();
    q.idle_ns = q.total_ns - IntersectionNs(all, c.not_idle);
  }
  return out;
}

// The one with most idle time; of nested ranges the inner one, if nearly all of it is its own.
IdleRange MostIdle(const std::map<std::string_view, IdleRange>& ranges) {
  IdleRange most;
  for (const auto& [name, q] : ranges) {
    if (q.idle_ns > most.idle_ns) most = q;
  }
  IdleRange inner = most;
  for (const auto& [name, q] : ranges) {
    if (double(q.idle_ns) >= 0.9 * double(most.idle_ns) && q.total_ns < inner.total_ns) inner = q;
  }
  return inner;
}

// Of the window's begin nobody knows whether earlier work ran; where that is much of it, what is
// counted from there on is the least there can be.
bool IsLowerBound(const ReadingContext& c) {
  const model::TimeNs begin = c.cycle.window_begin_ns;
  const int64_t unknown = c.known_from_ns - begin - c.left_out.CoveredNs(begin, c.known_from_ns);
  return double(unknown) >= At(kIdleInRange) * double(c.window_ns);
}

const char* AtLeast(const ReadingContext& c) { return IsLowerBound(c) ? "at least " : ""; }

std::string CountedFrom(const ReadingContext& c) {
  if (!IsLowerBound(c)) return {};
  return fmt::format(
      "; counted from {} into the window on, when each stream's first work had begun",
      Duration(c.known_from_ns - c.cycle.window_begin_ns));
}

Json IdleEvidence(const ReadingContext& c, const IdleRange& q) {
  if (q.longest == nullptr) return Json::object();
  const std::string name = Fit(q.name, 60);
  const model::Range& longest = *q.longest;
  return {{"text", fmt::format("{} of {} in {} ranges `{}` without device work; longest {} {}{}",
                               Duration(q.idle_ns), Duration(q.total_ns), Count(q.count), name,
                               Duration(std::max<int64_t>(q.longest_ns, 0)),
                               InStep(c, longest.step), CountedFrom(c))},
          {"range", writers::ValidUtf8(q.name)},
          {"idle_ns", q.idle_ns},
          {"window_ns", c.window_ns},
          {"longest_at_ns", longest.begin_ns},
          {"where",
           Where(c, longest.step, longest.begin_ns, longest.end_ns, ThreadRow(c, longest.thread))}};
}

// Where the longest kernel of a kind ran.
template <typename IsWanted>
Json LongestKernel(const ReadingContext& c, IsWanted is_wanted) {
  const model::Kernel* longest = nullptr;
  for (const model::Kernel& kernel : c.cycle.kernels) {
    if (!kernel.placed || IsLeftOut(c, kernel.step) || !is_wanted(kernel)) continue;
    if (longest == nullptr ||
        kernel.end_ns - kernel.begin_ns > longest->end_ns - longest->begin_ns) {
      longest = &kernel;
    }
  }
  if (longest == nullptr) return nullptr;
  return Where(c, longest->step, longest->begin_ns, longest->end_ns, LaneRow(c, longest->lane));
}

}  // namespace

std::string OfWindow(const ReadingContext& c, double share) {
  if (c.left_out.parts().empty()) return Percent(share) + " of the window";
  return fmt::format("{} of the {} looked at", Percent(share), Duration(c.window_ns));
}

std::optional<Reading> IdleInRange(const ReadingContext& c) {
  if (c.busy.parts().empty()) return std::nullopt;
  const IdleRange q = MostIdle(IdleByRange(c, true));
  const double share = double(q.idle_ns) / double(c.window_ns);
  if (share < At(kIdleInRange)) return std::nullopt;
  const std::string name = Fit(q.name, 60);
  Reading r{share, "device_idle_in_range", {}, {}, {}, {}};
  r.observation = fmt::format(
      "No work of this process on {} for {}{} while the host is in `{}`, which launches nothing.",
      DeviceWord(c), AtLeast(c), OfWindow(c, share), name);
  r.evidence = IdleEvidence(c, q);
  r.hypothesis = fmt::format(
      "The device waits for what `{}` prepares (an input pipeline, for instance). Storage, the "
      "interpreter lock, logging or a lock look like this too.",
      name);
  r.next_check = fmt::format(
      "Run one window with the result of `{}` kept from {}: if the idle time stays, the cause is "
      "elsewhere.",
      name, WithSteps(c, "an earlier step", "before"));
  return r;
}

std::optional<Reading> IdleDevice(const ReadingContext& c) {
  if (c.busy.parts().empty()) return std::nullopt;
  const model::TimeNs begin = c.cycle.window_begin_ns, end = c.cycle.window_end_ns;
  const int64_t idle = end - begin - c.not_idle.CoveredNs(begin, end);
  const double share = double(idle) / double(c.window_ns);
  if (share < At(kIdleWindow)) return std::nullopt;
  const IdleRange q = MostIdle(IdleByRange(c, false));
  Reading r{share, "device_idle", {}, {}, {}, {}};
  r.observation = fmt::format("No work of this process on {} for {}{}.", DeviceWord(c), AtLeast(c),
                              OfWindow(c, share));
  r.evidence = IdleEvidence(c, q);
  if (q.idle_ns != 0) {
    r.evidence["text"] = fmt::format("{} in all; most of it in one range: {}", Duration(idle),
                                     r.evidence.at("text").get<std::string>());
  } else {
    r.evidence = {{"text", fmt::format("{} of {} without device work; no range of a launching "
                                       "thread covers it{}",
                                       Duration(idle), Duration(c.window_ns), CountedFrom(c))},
                  {"idle_ns", idle},
                  {"window_ns", c.window_ns},
                  {"where", nullptr}};
  }
  r.hypothesis =
      "The host had nothing queued: it computed, waited or was held up elsewhere. Which of these, "
      "the "
      "ranges do not tell; work of other processes on the device is not seen either.";
  r.next_check = fmt::format(
      "Put ranges around the parts of the {} that launch little, and look at the longest gap in "
      "the trace.",
      WithSteps(c, "step", "program"));
  return r;
}

std::optional<Reading> ExposedCollectives(const ReadingContext& c) {
  int64_t exposed = 0, collective = 0, span = 0;
  for (const DeviceTime& d : c.work.devices()) {
    const IntervalUnion own = Without(d.collective, c.left_out);
    collective += own.TotalNs(), exposed += own.TotalNs() - IntersectionNs(own, d.compute);
    span += d.SpanNs() - c.left_out.CoveredNs(d.span_begin_ns, d.span_end_ns);
  }
  const double share = span <= 0 ? 0 : double(exposed) / double(span);
  if (share < At(kExposedShare)) return std::nullopt;
  const bool is_one = c.work.devices().size() == 1;
  Reading r{share, "exposed_collectives", {}, {}, {}, {}};
  r.observation =
      is_one ? fmt::format("{} is in collectives with no compute beside them for {} of its span.",
                           DeviceWord(c), Percent(share))
             : fmt::format(
                   "The {} GPUs are in collectives with no compute beside them for {} of "
                   "their spans.",
                   c.work.devices().size(), Percent(share));
  r.evidence = {{"text", fmt::format("{} of {} in collectives ({}) is exposed; span {}{}",
                                     Duration(exposed), Duration(collective), kCollectiveRule,
                                     Duration(span), is_one ? "" : "; added over devices")},
                {"exposed_ns", exposed},
                {"collective_ns", collective},
                {"span_ns", span},
                {"where", LongestKernel(c, [&](const model::Kernel& k) {
                   return c.work.IsCollective(k.shape);
                 })}};
  r.hypothesis =
      "A collective's time includes waiting for the slowest rank: a late rank, a slow link "
      "and a large message look alike from one rank.";
  r.next_check = fmt::format(
      "Compare the same {} on all ranks (report on the run): the rank with the shortest "
      "collectives is the one the others wait for.",
      WithSteps(c, "step", "window"));
  return r;
}

std::optional<Reading> DominantKernel(const ReadingContext& c) {
  if (!c.kernels.is_array() || c.kernels.size() < 3) return std::nullopt;
  const Json* top = &c.kernels[0];
  for (const Json& row : c.kernels) {
    if (row.at("share_of_busy").is_number() && row.at("share_of_busy") > top->at("share_of_busy"))
      top = &row;
  }
  if (!top->at("share_of_busy").is_number()) return std::nullopt;
  // On streams side by side each of several kernels may fill most of the busy time.
  int64_t others_ns = 0;
  for (const Json& row : c.kernels) {
    if (&row != top) others_ns += row.at("total_ns").get<int64_t>();
  }
  if (top->at("total_ns").get<int64_t>() <= others_ns) return std::nullopt;
  const double share = top->at("share_of_busy").get<double>();
  const model::TimeNs begin = c.cycle.window_begin_ns, end = c.cycle.window_end_ns;
  const double busy = double(c.busy.CoveredNs(begin, end)) / double(end - begin);
  if (share < At(kDominant) || busy < At(kBusyWindow) || top->at("collective").get<bool>())
    return std::nullopt;
  const std::string& whole_name = top->at("name").get_ref<const std::string&>();
  const std::string name = Fit(whole_name, 60);
  std::vector<bool> is_it;  // by shape
  for (const model::Shape& shape : c.cycle.shapes) {
    const model::StringId id = shape.demangled != 0 ? shape.demangled : shape.name;
    is_it.push_back(writers::ValidUtf8(c.cycle.Text(id)) == whole_name);
  }
  Reading r{share * busy, "one_kernel_dominates", {}, {}, {}, {}};
  r.observation = fmt::format("`{}` holds {} of the device's busy time.", name, Percent(share));
  r.evidence = {{"text", fmt::format("{} executions, {} in total, {} on average, {} the longest; "
                                     "device busy for {} of the window",
                                     Count(top->at("count").get<uint64_t>()),
                                     Duration(top->at("total_ns").get<int64_t>()),
                                     Duration(top->at("mean_ns").get<int64_t>()),
                                     Duration(top->at("max_ns").get<int64_t>()), Percent(busy))},
                {"kernel", top->at("name")},
                {"share_of_busy", share},
                {"total_ns", top->at("total_ns")},
                {"where", LongestKernel(c, [&](const model::Kernel& k) {
                   return k.shape < is_it.size() && is_it[k.shape];
                 })}};
  r.hypothesis = fmt::format(
      "The {} time follows this kernel. It may be doing the {} real work at full speed, or wait "
      "inside for memory or for another device: its duration alone does not tell.",
      WithSteps(c, "step's", "window's"), WithSteps(c, "step's", "program's"));
  r.next_check = fmt::format(
      "Profile this kernel alone with a kernel profiler, or halve its input and see whether the {} "
      "follows.",
      WithSteps(c, "step", "rate of requests"));
  return r;
}

}  // namespace stepagent::analysis
