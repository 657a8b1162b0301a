#include "collector/analysis/idle_text.h"

#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const std::string& text) { return Paragraph("", 2, text, kTextColumns); }

std::string Time(const Json& object, const char* key) {
  return Duration(object.at(key).get<int64_t>());
}

std::string ThreadText(const Json& thread) {
  const std::string name = thread.at("name").get<std::string>();
  return fmt::format("thread {}{}, which {}", thread.at("tid").get<uint64_t>(),
                     name.empty() ? "" : " (" + Fit(name, 24) + ")",
                     thread.at("why").get<std::string>());
}

// What of the window the figures are of.
std::string LookedAtText(const Json& summary, const Json& idle) {
  std::string text = fmt::format("{} of the window's {}", Time(idle, "looked_at_ns"),
                                 Duration(summary.at("window").at("dur_ns").get<int64_t>()));
  std::string without;
  if (const auto steps = idle.at("steps_left_out").get<uint64_t>(); steps > 0) {
    without = fmt::format("{} of {} with the tracer's start", Time(idle, "left_out_ns"),
                          steps == 1 ? "a step" : Count(steps) + " steps");
  }
  if (idle.at("not_known_ns") != 0) {
    without += fmt::format("{}{} until each stream's first work, when earlier work may still run",
                           without.empty() ? "" : ", and without ", Time(idle, "not_known_ns"));
  }
  return without.empty() ? text : text + ", without " + without;
}

std::string NotRecorded(const Json& summary, const char* what, const char* key) {
  const std::string why = summary.value("absent", Json::object()).value(key, "");
  return why.empty() ? "" : Line(fmt::format("{} not known: {}", what, Fit(why, 70)));
}

}  // namespace

std::string IdleLead(const Json& summary) {
  const Json& idle = summary.at("idle");
  if (idle.at("devices").empty()) return "";
  std::string out = Line(
      fmt::format("{}; looked at: {}", ThreadText(idle.at("thread")), LookedAtText(summary, idle)));
  for (const Json& device : idle.at("devices")) {
    std::string text = fmt::format("GPU {}: idle {}", device.at("ordinal").get<int64_t>(),
                                   Time(device, "idle_ns"));
    if (device.at("outside_steps_ns").is_number())
      text += fmt::format(", {} of it outside every step", Time(device, "outside_steps_ns"));
    out += Line(text);
  }
  return out + NotRecorded(summary, "ranges", "idle.range") +
         NotRecorded(summary, "calls", "idle.call");
}

Json IdleRowInWords(const Json& summary, const Json& row) {
  const Json absent = summary.value("absent", Json::object());
  Json out = row;
  if (row.at("range").is_null() && !absent.contains("idle.range")) out["range"] = "(no range)";
  if (row.at("call").is_null() && !absent.contains("idle.call")) out["call"] = "(no CUDA call)";
  if (row.at("waits_for").is_null()) out["waits_for"] = "";
  const bool has_several = summary.at("idle").at("devices").size() > 1;
  out["device"] =
      has_several ? fmt::format("GPU {}", row.at("device").get<int64_t>()) : std::string();
  return out;
}

}  // namespace stepagent::analysis
