#include "collector/analysis/summary.h"

#include "collector/analysis/cost.h"
#include "collector/analysis/idle_table.h"
#include "collector/analysis/per_step.h"
#include "collector/analysis/readings.h"
#include "collector/analysis/tables.h"
#include "collector/writers/json_parts.h"
#include "collector/writers/json_text.h"
#include "collector/writers/output_file.h"

namespace stepagent::analysis {
namespace {

using model::Activity;
using writers::TextOrNull;
using writers::ValidUtf8;
using writers::VersionOrNull;

Json Session(const model::SessionInfo& s) {
  Json settings = Json::object();  // in force, as the flags are named
  for (const auto& [key, value] : s.settings) settings[ValidUtf8(key)] = ValidUtf8(value);
  Json out = writers::SessionHead(s);
  out.update({{"step_source", TextOrNull(s.step_source)},
              {"step_extent", TextOrNull(s.step_extent)},
              {"agent_version", TextOrNull(s.agent_version)},
              {"cuda_visible_devices", writers::VisibleDevicesJson(s)},
              {"settings", settings},
              {"labels", writers::LabelsJson(s)}});
  return out;
}

Json Window(const model::Cycle& c) {
  return {{"begin_ns", c.window_begin_ns},
          {"end_ns", c.window_end_ns},
          {"dur_ns", c.window_end_ns - c.window_begin_ns},
          {"base_unix_ns", c.session.base_unix_ns}};
}

Json Clock(const model::Cycle& c) {
  return {{"wall_offset_ns", c.wall_offset_ns ? Json(*c.wall_offset_ns) : Json(nullptr)},
          {"wall_error_ns", c.wall_error_ns ? Json(*c.wall_error_ns) : Json(nullptr)}};
}

// Why a table is null, by the table's name.
class Absences {
 public:
  explicit Absences(const model::Cycle& cycle) : cycle_(cycle) {}
  template <typename Make>
  Json Table(const char* name, std::initializer_list<Activity> needs_any, Make make) {
    for (const Activity activity : needs_any) {
      if (Collected(cycle_, activity)) return make();
    }
    reasons_[name] = WhyAbsent(cycle_, *needs_any.begin());
    return nullptr;
  }
  // A figure of a table's rows, where there are any; `why` is empty where it is known.
  void Figure(const char* name, const Json& table, const std::string& why) {
    if (!why.empty() && table.is_array() && !table.empty()) reasons_[name] = why;
  }
  // A table that needs more than that something was collected.
  template <typename Make>
  Json TableUnless(const char* name, const std::string& why, Make make) {
    if (why.empty()) return make();
    reasons_[name] = why;
    return nullptr;
  }
  Json Take() { return std::move(reasons_); }

 private:
  const model::Cycle& cycle_;
  Json reasons_ = Json::object();
};

Json GraphLaunches(const model::Cycle& cycle) {
  int64_t total = 0;
  uint64_t count = 0;
  for (const model::GraphLaunch& launch : cycle.graph_launches) {
    if (!launch.placed) continue;
    ++count, total += launch.end_ns - launch.begin_ns;
  }
  return {{"count", count}, {"total_ns", total}};
}

// Steps the agent timed without collecting, step 0 apart: it pays for everything that happens once.
Json Uncollected(const model::Cycle& cycle) {
  std::vector<int64_t> others;
  Json first = nullptr;
  const bool is_comparable = WhyStepsDoNotCompare(cycle).empty();
  for (const model::StepDuration& step : cycle.all_steps.each) {
    if (!is_comparable) break;
    if (step.index == 0) first = step.dur_ns;
    if (step.collecting == 0 && step.index != 0)
      others.push_back(static_cast<int64_t>(step.dur_ns));
  }
  return {{"step_0_ns", first},
          {"others", Distribution(std::move(others))},
          {"steps_seen", cycle.all_steps.count}};
}

Json ExamplesPerSecond(const model::Cycle& cycle, const Json& steps) {
  const auto label = cycle.session.labels.find("samples_per_step");
  if (label == cycle.session.labels.end() || !steps.at("median_ns").is_number()) return nullptr;
  if (!WhyStepsDoNotCompare(cycle).empty()) return nullptr;  // the label is of the program's steps
  const double samples = std::strtod(label->second.c_str(), nullptr);
  const double median = steps.at("median_ns").get<double>();
  if (samples <= 0 || median <= 0) return nullptr;
  return samples * 1e9 / median;
}

Json SetAsideRows(const model::Cycle& cycle, const DeviceWork& work) {
  Json out = Json::array();
  for (const SetAside& s : work.set_aside()) {
    const model::Kernel& kernel = cycle.kernels[s.kernel];
    const bool known = kernel.shape < cycle.shapes.size();
    out.push_back(
        {{"name", known ? ValidUtf8(cycle.Text(cycle.shapes[kernel.shape].demangled)) : "unknown"},
         {"begin_ns", kernel.begin_ns},
         {"dur_ns", kernel.end_ns - kernel.begin_ns},
         {"successors", s.successors},
         {"why",
          "its own stream began later kernels before it ended: the duration is not believable"}});
  }
  return out;
}

Json Losses(const model::Cycle& cycle) {
  Json out = Json::object();
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const model::Balance& b = cycle.balance[i];
    const uint64_t lost = b.dropped.value_or(0), invalid = b.invalid.value_or(0);
    if (lost + invalid == 0) continue;
    out[std::string(model::ActivityName(static_cast<Activity>(i)))] = {{"dropped", lost},
                                                                       {"invalid", invalid}};
  }
  return out;
}

void AddIdle(const model::Cycle& cycle, const DeviceWork& work, Absences* absent, Json& out) {
  using enum Activity;
  const Json& idle = out["idle"] =
      absent->TableUnless("idle", WhyNoIdleTable(cycle), [&] { return IdleTable(cycle, work); });
  if (idle.is_null()) return;
  for (const Activity activity : {kNvtx, kLaunch, kSync}) {
    if (Collected(cycle, activity)) continue;
    absent->Figure(activity == kNvtx ? "idle.range" : "idle.call", idle.at("rows"),
                   std::string(model::ActivityName(activity)) + ": " + WhyAbsent(cycle, activity));
  }
}

void AddTables(const model::Cycle& cycle, const DeviceWork& work, Json& out) {
  using enum Activity;
  const RangeWork ranges(cycle);
  Absences absent(cycle);
  out["devices"] = absent.Table("devices", {kKernel, kMemcpy, kMemset},
                                [&] { return DeviceTable(cycle, work, ranges); });
  absent.Figure("devices.busy_ns", out.at("devices"), WhyNoBusyTime(cycle));
  out["collective_rule"] = kCollectiveRule;
  AddIdle(cycle, work, &absent, out);
  out["kernels"] = absent.Table("kernels", {kKernel}, [&] { return KernelTable(cycle, work); });
  out["graph_launches"] =
      absent.Table("graph_launches", {kKernel}, [&] { return GraphLaunches(cycle); });
  const auto launches = [&] { return LaunchTable(cycle, work); };
  out["launches"] = Collected(cycle, kLaunch)
                        ? absent.Table("launches", {kKernel, kMemcpy, kMemset}, launches)
                        : absent.Table("launches", {kLaunch}, launches);
  out["calls"] = absent.Table("calls", {kLaunch, kSync}, [&] { return CallTable(cycle); });
  out["copies"] = absent.Table("copies", {kMemcpy}, [&] { return CopyTable(cycle); });
  out["sets"] = absent.Table("sets", {kMemset}, [&] { return SetTable(cycle); });
  out["ranges"] = absent.Table("ranges", {kNvtx}, [&] { return RangeTable(cycle, work, ranges); });
  out["waits"] = absent.Table("waits", {kSync}, [&] { return WaitTable(cycle); });
  out["streams"] = absent.Table("streams", {kKernel, kMemcpy, kMemset},
                                [&] { return StreamTable(cycle, work); });
  out["threads"] = ThreadTable(cycle);
  out["absent"] = absent.Take();
  out["set_aside"] = SetAsideRows(cycle, work);
  out["cost"] = CostOf(cycle);
  out["readings"] = Readings(cycle, work, ranges, out.at("kernels"), out.at("cost"));
  out["readings_without_input"] = ReadingsWithoutInput(cycle, work, out.at("cost"));
}

}  // namespace

Json Summarize(const model::Cycle& cycle) {
  const DeviceWork work(cycle);
  Json out = {{"schema", "stepagent.summary/1"},
              {"session", Session(cycle.session)},
              {"cycle", writers::CycleHead(cycle)},
              {"gpu",
               {{"status", cycle.gpu.status},
                {"reason", TextOrNull(cycle.gpu.reason)},
                {"reason_code", TextOrNull(cycle.gpu.reason_code)},
                {"graph_level", TextOrNull(cycle.gpu.graph_level)},
                {"driver_version", VersionOrNull(cycle.gpu.driver_version)},
                {"cupti_version", VersionOrNull(cycle.gpu.cupti_version)}}},
              {"window", Window(cycle)},
              {"clock", Clock(cycle)}};
  out["steps"] = StepTable(cycle, work);
  out["uncollected_steps"] = Uncollected(cycle);
  out["examples_per_second"] = ExamplesPerSecond(cycle, out.at("steps"));
  AddTables(cycle, work, out);
  out["losses"] = Losses(cycle);
  out["notes"] = writers::NotesJson(cycle);
  return out;
}

std::string RenderSummaryText(const model::Cycle& cycle, size_t top) {
  RenderOptions options;
  options.top = top;
  return RenderSummaryText(Summarize(cycle), options);
}

writers::WriteResult WriteSummary(const model::Cycle& cycle, const std::string& cycle_dir) {
  const Json summary = Summarize(cycle);
  writers::WriteResult result;
  const std::pair<const char*, std::string> documents[] = {
      {"summary.json", summary.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"},
      {"summary.txt", RenderSummaryText(summary, {})}};
  for (const auto& [name, text] : documents) {
    writers::WrittenFile written{cycle_dir + "/" + name, "summary", 0, 0, ""};
    result.error = writers::WriteWholeFile(written.path, text, &written.bytes, &written.sha256);
    if (!result.error.empty()) return result;
    result.files.push_back(std::move(written));
  }
  result.ok = true;
  return result;
}

}  // namespace stepagent::analysis
