// summary.txt: the head, the figures per device, the readings, the tables.
#include <algorithm>
#include <cmath>

#include "collector/analysis/per_step.h"
#include "collector/analysis/summary.h"
#include "collector/analysis/table_text.h"
#include "collector/analysis/text_format.h"
#include "collector/model/process_end.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {
namespace {

// For a person: 55,290 and 3.217, never 5.529e+04.
std::string Rate(double per_second) {
  if (per_second >= 1000) return Count(static_cast<uint64_t>(std::llround(per_second)));
  return fmt::format("{:.4g}", per_second);
}

using Json = nlohmann::ordered_json;

std::string Time(const Json& value) {
  return value.is_number() ? Duration(value.get<int64_t>()) : "-";
}
std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}
double Share(const Json& part, int64_t whole) {
  return whole <= 0 || !part.is_number() ? 0 : part.get<double>() / double(whole);
}
std::string Line(const std::string& label, const std::string& text) {
  return Paragraph(label, 11, text, kTextColumns);
}

// Of a trace in several files: which of them this is, and the steps in it.
std::string PartText(const Json& s) {
  const Json part = s.at("cycle").value("part", Json());
  if (!part.is_object()) return "";
  std::string out = fmt::format(", part {} of {}", part.at("number").get<uint64_t>(),
                                part.at("of").get<uint64_t>());
  const Json& each = s.at("steps").at("each");
  if (each.empty()) return out;
  return out + fmt::format(" (steps {} to {})", each.front().at("index").get<uint64_t>(),
                           each.back().at("index").get<uint64_t>());
}

std::string Title(const Json& s) {
  const Json& session = s.at("session");
  std::string out = Fit(Text(session, "exe"), 40);
  if (session.at("rank").is_number()) {
    out += fmt::format("  rank {}", session.at("rank").get<int64_t>());
    if (session.at("world_size").is_number())
      out += fmt::format(" of {}", session.at("world_size").get<int64_t>());
  }
  if (!Text(session, "host").empty()) out += "  host " + Fit(Text(session, "host"), 24);
  if (session.at("pid").is_number())
    out += fmt::format("  pid {}", session.at("pid").get<uint64_t>());
  out += fmt::format("  cycle {}", s.at("cycle").at("index").get<uint64_t>());
  return out + PartText(s) + "\n";
}

// At graph level: what the tables below do not hold.
std::string GraphLine(const Json& s) {
  const Json& graphs = s.at("graph_launches");
  if (!graphs.is_object() || graphs.at("count").get<uint64_t>() == 0) return "";
  return Line("graphs",
              fmt::format("{} CUDA graph launches hold {} (sum); the kernels inside are not listed "
                          "(--graph node lists them)",
                          Count(graphs.at("count").get<uint64_t>()), Time(graphs.at("total_ns"))));
}

// What a reader must know before any figure: host only, partial, incomplete.
std::string Warnings(const Json& s) {
  std::string out;
  const Json &gpu = s.at("gpu"), &cycle = s.at("cycle");
  const std::string reason = FitSentence(Text(gpu, "reason"), 300);
  if (Text(gpu, "status") == "unavailable") {
    out += Line("HOST ONLY",
                "no device data: " + (reason.empty() ? std::string("reason not known") : reason));
  } else {
    out += Line("gpu", Text(gpu, "status") + (reason.empty() ? "" : ": " + reason));
  }
  if (cycle.at("complete") == false) {
    const std::string why = FitSentence(Text(cycle, "reason"), 300), ended = Text(cycle, "ended");
    // A schedule that ran to its end can still lack device work that never came.
    const std::string what = ended == "schedule"
                                 ? "all steps ran, but not all of their work was recorded"
                             : why == model::kGoesOnText ? "not over"
                                                         : "cut short, ended by " + ended;
    out += Line("INCOMPLETE",
                what + (why.empty() ? "" : " (" + why + ")") + "; figures hold what was recorded");
  }
  return out;
}

bool HasClockSlices(const Json& s) {
  return !WhyStepsDoNotCompare(Text(s.at("session"), "step_source")).empty();
}

std::string StepsLine(const Json& s) {
  const Json& steps = s.at("steps");
  const auto count = steps.at("count").get<uint64_t>(),
             counted = steps.at("counted").get<uint64_t>();
  const std::string window = Time(s.at("window").at("dur_ns")) + " of host time";
  if (count == 0) return Line("window", window) + Line("steps", "none");
  std::string out =
      Line("window", window + ", " + Count(count) + (count == 1 ? " step" : " steps"));
  std::string text = fmt::format(
      "{}median {}, {} to {} (n={})", HasClockSlices(s) ? "slices of the clock: " : "",
      Time(steps.at("median_ns")), Time(steps.at("min_ns")), Time(steps.at("max_ns")), counted);
  if (counted == 0) text = "no whole step to take a median of";
  if (counted < count)
    text += fmt::format("; {} left out (cut, or with the tracer's start)", count - counted);
  out += Line("steps", text);
  if (s.at("examples_per_second").is_number()) {
    out += Line("rate", fmt::format("{} examples per second at the median step",
                                    Rate(s.at("examples_per_second").get<double>())));
  }
  return out;
}

// Steps that were not collected, step 0 apart: it pays for all that happens once.
std::string ApartLine(const Json& s) {
  const Json& apart = s.at("uncollected_steps");
  std::string text;
  if (apart.at("step_0_ns").is_number()) text = "step 0 " + Time(apart.at("step_0_ns"));
  const Json& others = apart.at("others");
  if (others.at("median_ns").is_number()) {
    text += fmt::format("{}{} without collection: median {}, {} to {}", text.empty() ? "" : "; ",
                        Count(others.at("steps").get<uint64_t>()), Time(others.at("median_ns")),
                        Time(others.at("min_ns")), Time(others.at("max_ns")));
  }
  return text.empty() ? "" : Line("apart", text);
}

std::string GroupText(const Json& group) {
  if (!group.at("median_ns").is_number()) {
    const std::string why = Text(group, "reason");
    const size_t colon = why.find(": ");
    return colon == std::string::npos ? "not measured"
                                      : "not measured (" + why.substr(colon + 2) + ")";
  }
  return fmt::format("{} (n={}, {} to {})", Time(group.at("median_ns")),
                     group.at("steps").get<uint64_t>(), Time(group.at("min_ns")),
                     Time(group.at("max_ns")));
}

std::string RatioText(const Json& ratio) {
  std::string text = "ratio of recorded to other steps ";
  if (ratio.at("low").is_number()) {
    text += fmt::format("{:.3f}, between {:.3f} and {:.3f} (at least {:.0f} % sure)",
                        ratio.at("value").get<double>(), ratio.at("low").get<double>(),
                        ratio.at("high").get<double>(), ratio.at("coverage").get<double>() * 100);
  } else {
    text += ratio.at("reason").is_string() ? ratio.at("reason").get<std::string>()
                                           : std::string("not measured");
  }
  return text + "; other causes of a difference are not excluded";
}

std::string StepTimesLines(const Json& s, const Json& cost) {
  if (HasClockSlices(s)) {
    return Line("cost",
                "step times with and without collection " + Text(cost.at("ratio"), "reason"));
  }
  const std::string before = GroupText(cost.at("before")), after = GroupText(cost.at("after"));
  const std::string active = GroupText(cost.at("active"));
  const bool is_alone = before == after && !cost.at("before").at("median_ns").is_number();
  std::string out =
      Line("cost", is_alone ? "step median active " + active + ", before and after " + after
                            : "step median before " + before + ", active " + active + ", after " +
                                  after);
  if (cost.contains("ratio")) out += Line("", RatioText(cost.at("ratio")));
  return out;
}

// What collection took at once, not a little with each call; where it took nothing, no word.
std::string HeldText(const Json& cost, bool has_steps) {
  std::string out;
  const Json held = cost.value("arm_wait_ns", Json()), drain = cost.value("drain_cpu_ns", Json());
  if (held.is_number() && held != 0) {
    out = fmt::format("the application was held {} while CUPTI was armed, before the {}; ",
                      Time(held), has_steps ? "first recorded step" : "window");
  }
  if (drain.is_number() && drain != 0)
    out += fmt::format("{} of CPU in a thread of ours; ", Time(drain));
  return out;
}

std::string CostLines(const Json& s) {
  const Json& cost = s.at("cost");
  const bool has_steps = s.at("steps").at("count") != 0;
  const std::string out = has_steps ? StepTimesLines(s, cost) : std::string();
  std::string own = "callbacks not measured";
  if (cost.at("callback_ns").is_number() && cost.at("callbacks").is_number()) {
    own = fmt::format("{} in {} callbacks of ours, all threads", Time(cost.at("callback_ns")),
                      Count(cost.at("callbacks").get<uint64_t>()));
  }
  const Json& host = cost.at("memory").at("host_bytes");
  const Json per_step = cost.value("bytes_per_step", Json());
  own +=
      "; memory " + (host.is_number() ? Bytes(host.get<uint64_t>()) : std::string("not measured"));
  if (has_steps) {
    own += "; " + (per_step.is_number()
                       ? fmt::format("{} a step in raw.steps ({} of this cycle, its warmup "
                                     "included, over its {} steps)",
                                     Bytes(per_step.get<uint64_t>()),
                                     Bytes(cost.at("raw_bytes").get<uint64_t>()),
                                     Count(cost.at("raw_bytes_steps").get<uint64_t>()))
                       : std::string("bytes a step not measured"));
  }
  return out + Line(has_steps ? "" : "cost", HeldText(cost, has_steps) + own);
}

std::string LatencyLine(const Json& s) {
  const Json launches = s.value("launches", Json());
  if (!launches.is_object() || launches.at("count").get<uint64_t>() == 0) return "";
  const Json& delay = launches.at("delay");
  const Json* deepest = nullptr;
  for (const Json& queue : launches.at("queues")) {
    if (deepest == nullptr || queue.at("max") > deepest->at("max")) deepest = &queue;
  }
  std::string text = fmt::format(
      "{} pieces of device work began {} (median) after their launch call returned, {} the longest",
      Count(launches.at("count").get<uint64_t>()), Time(delay.at("median_ns")),
      Time(delay.at("max_ns")));
  if (deepest != nullptr) {
    text += fmt::format("; at most {} queued on {}", Count(deepest->at("max").get<uint64_t>()),
                        Text(*deepest, "name"));
  }
  return Line("latency", text);
}

// Some device work has no record: what there is of it is a lower bound, and idle time is not known.
std::string LowerBoundLines(const Json& s, const Json& d, const std::string& name) {
  const std::string why = s.value("absent", Json::object()).value("devices.busy_ns", "");
  return Line(fmt::format("GPU {}", d.at("ordinal").get<int64_t>()),
              fmt::format("{}{}busy at least {}; idle time and shares not known: {}", name,
                          name.empty() ? "" : "; ", Time(d.at("busy_at_least_ns")), FitSentence(why, 300)));
}

// Work that no step and no range holds is in no row of their tables.
std::string OutsideText(const Json& d) {
  std::string out;
  for (const auto& [key, what] : {std::pair{"launched_outside_steps_ns", "step"},
                                  std::pair{"launched_outside_ranges_ns", "range"}}) {
    const Json ns = d.value(key, Json());
    if (!ns.is_number() || ns == 0) continue;
    out += fmt::format("{} outside every {} {}", out.empty() ? "; of work launched" : ",", what,
                       Time(ns));
  }
  return out;
}

std::string DeviceLines(const Json& s) {
  if (!s.at("devices").is_array()) return "";
  if (s.at("devices").empty()) return Line("device", "no device work was recorded");
  std::string out;
  const int64_t window = s.at("window").at("dur_ns").get<int64_t>();
  for (const Json& d : s.at("devices")) {
    const int64_t span = d.at("device_span").at("dur_ns").get<int64_t>();
    const auto part = [&](const char* name, const char* key) {
      if (!d.at(key).is_number()) return std::string(name) + " not known";
      return fmt::format("{} {} ({})", name, Time(d.at(key)), Percent(Share(d.at(key), span)));
    };
    const std::string name = Fit(Text(d, "name"), 40);
    if (d.contains("busy_at_least_ns")) {
      out += LowerBoundLines(s, d, name);
      continue;
    }
    out += Line(fmt::format("GPU {}", d.at("ordinal").get<int64_t>()),
                fmt::format("{}{}of its span of {} (first to last work): {}, {}", name,
                            name.empty() ? "" : "; ", Duration(span), part("busy", "busy_ns"),
                            part("idle", "idle_ns")));
    out += Line("", fmt::format("{}, {}, {}, of them exposed {}", part("compute", "compute_ns"),
                                part("copies", "copy_ns"), part("collectives", "collective_ns"),
                                Time(d.at("exposed_collective_ns"))));
    if (d.at("collective_ns").is_number() && d.at("collective_ns") != 0) {
      out += Line("", "collective: " + s.at("collective_rule").get<std::string>());
    }
    if (!d.at("busy_ns").is_number()) {
      const std::string why = s.value("absent", Json::object()).value("devices.busy_ns", "");
      out += Line("", "busy time needs kernels, copies and sets; " + FitSentence(why, 300));
      continue;
    }
    out += Line("", fmt::format("compute and copies at once {}; busy for {} of the window{}",
                                Time(d.at("overlap_ns")),
                                Percent(Share(d.at("busy_in_window_ns"), window)),
                                OutsideText(d)));
  }
  return out;
}

std::string LossLines(const Json& s) {
  std::string out;
  for (const auto& [kind, loss] : s.at("losses").items()) {
    out += Line("LOST", fmt::format("{}: {} dropped, {} invalid", kind,
                                    Count(loss.at("dropped").get<uint64_t>()),
                                    Count(loss.at("invalid").get<uint64_t>())));
  }
  for (const Json& row : s.at("set_aside")) {
    out += Line("set aside", fmt::format("{} of {}: {}", Fit(Text(row, "name"), 40),
                                         Time(row.at("dur_ns")), Text(row, "why")));
  }
  for (const Json& note : s.at("notes")) {
    out += Line("note", Fit(Text(note, "code"), 40) + ": " + FitSentence(Text(note, "text"), 300));
  }
  return out;
}

std::string LabelLine(const Json& s) {
  std::string text;
  for (const auto& [key, value] : s.at("session").at("labels").items()) {
    text += (text.empty() ? "" : ", ") + Fit(key, 30) + "=" + Fit(value.get<std::string>(), 40);
  }
  return text.empty() ? "" : Line("labels", text);
}

// Rules that had nothing to look at: silence must not read as a clean bill.
std::string SilentLine(const Json& s) {
  const Json silent = s.value("readings_without_input", Json::array());
  if (silent.empty()) return "";
  std::string text;
  for (const Json& rule : silent) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", Text(rule, "id"),
                        FitSentence(Text(rule, "why"), 300));
  }
  return Paragraph("  not looked at", 17, text, kTextColumns);
}

std::string ReadingLines(const Json& s) {
  const Json& readings = s.at("readings");
  if (Text(s.at("gpu"), "status") == "unavailable") {
    return "Readings\n  none: they need device data\n";
  }
  if (readings.empty()) {
    return "Readings\n  nothing stands out by the rules of this version\n" + SilentLine(s);
  }
  std::string out;
  for (const Json& r : readings) {
    out += out.empty() ? "Place to start\n" : "Then\n";
    const auto line = [&](const char* label, const std::string& text) {
      out += Paragraph(std::string("  ") + label, 14, text, kTextColumns);
    };
    line("observed", Text(r, "observation"));
    line("evidence", Text(r.at("evidence"), "text"));
    line("perhaps", Text(r, "hypothesis"));
    line("next check", Text(r, "next_check"));
  }
  return out + SilentLine(s);
}

}  // namespace

std::string RenderSummaryText(const Json& summary, const RenderOptions& options) {
  std::string out = Title(summary) + GraphLine(summary) + Warnings(summary);
  if (!options.by.empty()) {
    return Printable(out + "\n" + TableText(summary, options.by, options), true);
  }
  out += LabelLine(summary) + StepsLine(summary) + ApartLine(summary) + CostLines(summary) +
         DeviceLines(summary) + LatencyLine(summary) + LossLines(summary);
  for (const std::string& file : options.files) out += "file       " + file + "\n";
  out += "\n" + ReadingLines(summary);
  for (const std::string_view table : {"step", "idle", "kernel", "range", "call", "copy", "wait"}) {
    out += "\n" + TableText(summary, table, options);
  }
  return Printable(out, true);
}

std::string FirstReading(const Json& summary) {
  const Json& readings = summary.at("readings");
  if (readings.empty()) {
    return Text(summary.at("gpu"), "status") == "unavailable" ? "no reading: no device data"
                                                              : "nothing stands out";
  }
  return Text(readings.front(), "observation");
}

}  // namespace stepagent::analysis
