// The comparison of ranks as text.
#include <algorithm>
#include <optional>

#include "collector/analysis/rank_report.h"
#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 100, kLabel = 14;

std::string Time(const Json& value) {
  return value.is_number() ? Duration(value.get<int64_t>()) : "-";
}
std::string Figure(const Json& row, const char* key) {
  const Json& value = row.at(key);
  return FigureText(value.is_number() ? std::optional(value.get<int64_t>()) : std::nullopt,
                    row.at("device_partial").get<bool>());
}
std::string Whole(const Json& value) {
  return value.is_number() ? Count(value.get<uint64_t>()) : "-";
}

std::string NameOf(const Json& name) { return name.is_string() ? name.get<std::string>() : "-"; }

// "  pid 77" where the rank alone does not tell the process.
std::string WhoElse(const Json& row) {
  const std::string name = NameOf(row.at("name"));
  if (row.at("restarted").get<bool>() && row.at("pid").is_number())
    return "  pid " + std::to_string(row.at("pid").get<int64_t>());
  return name.starts_with("pid ") ? "  " + name : "";
}

// "rank 3" of "rank 3 (restarted, pid 77)": the heading tells the rest.
std::string ShortName(const Json& name) {
  const std::string text = NameOf(name);
  return text.substr(0, text.find(" ("));
}

std::string RestartedLine(const Json& compared) {
  std::string names;
  for (const Json& row : compared.at("ranks"))
    if (row.at("restarted").get<bool>())
      names += (names.empty() ? "" : ", ") + NameOf(row.at("name"));
  return names.empty() ? "" : Paragraph("  ", 2, "other processes than before: " + names, kColumns);
}

std::string RankRows(const Json& compared) {
  const Json& slowest = compared.at("slowest");
  std::string out =
      "  rank steps    median   spread  own work     busy     idle collective  exposed  launches\n";
  for (const Json& row : compared.at("ranks")) {
    const bool is_slowest = slowest.is_object() && row.at("name") == slowest.at("name");
    out +=
        PadLeft(Whole(row.at("rank")), 6) + PadLeft(Whole(row.at("steps")), 6) +
        PadLeft(Time(row.at("step_median_ns")), 10) + PadLeft(Time(row.at("step_spread_ns")), 9) +
        PadLeft(Time(row.at("own_median_ns")), 10) + PadLeft(Figure(row, "busy_ns"), 9) +
        PadLeft(Figure(row, "idle_ns"), 9) + PadLeft(Figure(row, "collective_ns"), 11) +
        PadLeft(Figure(row, "exposed_collective_ns"), 9) + PadLeft(Whole(row.at("launches")), 10) +
        WhoElse(row) + (is_slowest ? "  slowest" : "") + "\n";
  }
  return out;
}

uint64_t WholeSteps(const Json& compared) { return compared.at("whole_steps").get<uint64_t>(); }

bool HasTooFewSteps(const Json& compared) {
  return WholeSteps(compared) < compared.at("steps_needed").get<uint64_t>();
}

std::string SlowestLine(const Json& compared) {
  const Json& slowest = compared.at("slowest");
  if (WholeSteps(compared) > 0 && HasTooFewSteps(compared))
    return fmt::format("  slowest: none is named: {} whole in all, too few ({} are needed)\n",
                       WholeSteps(compared) == 1 ? std::string("1 step is")
                                                 : Count(WholeSteps(compared)) + " steps are",
                       compared.at("steps_needed").get<uint64_t>());
  if (!slowest.is_object()) return "";
  return fmt::format("  slowest: {} in {} of {} steps that {} have whole, by own work\n",
                     slowest.at("name").get<std::string>(), slowest.at("steps").get<uint64_t>(),
                     WholeSteps(compared),
                     compared.at("not_compared").empty() ? "all ranks" : "those compared");
}

// Ranks that ended too early to be held against the others.
std::string NotComparedLine(const Json& compared) {
  if (compared.at("ranks").size() == 1)
    return "  nothing to compare with: no other rank recorded this cycle at that time\n";
  if (compared.at("steps").empty() && compared.at("steps_not_compared").is_string())
    return "  not compared: " + NameOf(compared.at("steps_not_compared")) + "\n";
  if (compared.at("steps").empty())
    return "  no step was recorded: ranks are compared by steps, which --step names\n";
  std::string names;
  for (const Json& one : compared.at("not_compared")) {
    names += (names.empty() ? "" : ", ") + one.at("name").get<std::string>() + " (" +
             Whole(one.at("whole_steps")) + ")";
  }
  if (names.empty()) return "";
  return Paragraph("  ", 2, "not compared, for want of whole steps: " + names, kColumns);
}

// Only where there is such a row.
std::string PartialLine(const Json& compared) {
  const Json& rows = compared.at("ranks");
  const bool has_one = std::any_of(rows.begin(), rows.end(), [](const Json& row) {
    return row.at("device_partial").get<bool>();
  });
  if (!has_one) return "";
  return Paragraph("  ", 2,
                   "partial: some device records of that rank came and not all (it was killed, or "
                   "collection failed); its own summary has what came",
                   kColumns);
}

std::string StepRows(const Json& compared, size_t top) {
  std::string out =
      "  step  ranks    slowest   its step   its own work  median step  begin skew    end skew\n";
  const Json& steps = compared.at("steps");
  const size_t shown = top == 0 ? steps.size() : std::min(top, steps.size());
  for (size_t i = 0; i < shown; ++i) {
    const Json& step = steps.at(i);
    out += "  " + PadLeft(Whole(step.at("index")), 4) + PadLeft(Whole(step.at("ranks")), 7) +
           PadLeft(ShortName(step.at("slowest_name")), 11) +
           PadLeft(Time(step.at("slowest_wall_ns")), 11) +
           PadLeft(Time(step.at("slowest_own_ns")), 15) +
           PadLeft(Time(step.at("median_wall_ns")), 13) +
           PadLeft(Time(step.at("begin_skew_ns")), 12) + PadLeft(Time(step.at("end_skew_ns")), 12) +
           (step.at("tracer_started").get<uint64_t>() > 0 ? " tracer start" : "") + "\n";
  }
  if (shown < steps.size()) {
    out += fmt::format("  … {} more (--top 0 shows all)\n", steps.size() - shown);
  }
  return out;
}

// Whose ranks are on which host, and what that means for times of several.
std::string HostLines(const Json& compared) {
  if (compared.at("hosts").get<uint64_t>() < 2) return "";
  std::string hosts;
  for (const Json& host : compared.at("host_names")) {
    std::string ranks;
    for (const Json& row : compared.at("ranks"))
      if (row.at("host") == host) ranks += (ranks.empty() ? "" : ", ") + Whole(row.at("rank"));
    hosts += (hosts.empty() ? "" : "; ") + host.get<std::string>() + " (rank " + ranks + ")";
  }
  return Paragraph("  ", 2,
                   "hosts: " + hosts +
                       ". Their clocks are not one clock and the offset between them is unknown: "
                       "skews of steps include it, own work and medians do not",
                   kColumns);
}

}  // namespace

std::string FigureText(const std::optional<int64_t>& ns, bool is_partial) {
  return ns ? Duration(*ns) : is_partial ? "partial" : "-";
}

std::string IncarnationText(const Json& compared) {
  const auto place = compared.at("incarnation").get<uint64_t>() + 1,
             count = compared.at("incarnations").get<uint64_t>();
  if (count < 2) return "";
  return fmt::format(", {} a restart ({} of {})", place == 1 ? "before" : "after", place, count);
}

std::string RankRowsText(const Json& compared) {
  std::string out = RankRows(compared) + RestartedLine(compared) + PartialLine(compared) +
                    SlowestLine(compared) + NotComparedLine(compared) + HostLines(compared);
  for (const Json& reading : compared.at("readings")) {
    out += Paragraph("  ", 2, reading.at("observation").get<std::string>(), kColumns - 12);
  }
  return Printable(out, true);
}

std::string RanksText(const Json& compared, size_t top) {
  std::string out =
      fmt::format("Cycle {}{}{}\n", compared.at("cycle").get<uint64_t>(),
                  compared.at("run").is_string() ? " of run " + NameOf(compared.at("run")) : "",
                  IncarnationText(compared));
  out += RankRows(compared) + RestartedLine(compared) + PartialLine(compared) +
         SlowestLine(compared) + NotComparedLine(compared) + HostLines(compared);
  out += Paragraph("  ", 2,
                   "median, spread: of a step's time; own work: that less its exposed collectives "
                   "(median); busy to exposed: unions within each device's span, added over its "
                   "devices; exposed: collectives with no compute beside",
                   kColumns);
  if (compared.at("steps").empty()) return Printable(out, true);
  out += "\n" + StepRows(compared, top);
  const Json& readings = compared.at("readings");
  if (readings.empty()) {
    if (WholeSteps(compared) == 0)
      return out +
             "\nNo step is whole in all ranks: nothing can be said of who is slower over all.\n";
    return out + (HasTooFewSteps(compared)
                      ? "\nToo few steps to say whether a rank stands out.\n"
                      : "\nNo rank stands out: own work, waiting and begins are alike.\n");
  }
  for (const Json& reading : readings) {
    out += "\n" +
           Paragraph("  observed", kLabel, reading.at("observation").get<std::string>(), kColumns) +
           Paragraph("  evidence", kLabel, reading.at("evidence").at("text").get<std::string>(),
                     kColumns) +
           Paragraph("  perhaps", kLabel, reading.at("hypothesis").get<std::string>(), kColumns) +
           Paragraph("  next check", kLabel, reading.at("next_check").get<std::string>(), kColumns);
  }
  return Printable(out, true);
}

}  // namespace stepagent::analysis
