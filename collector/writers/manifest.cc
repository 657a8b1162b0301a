#include "collector/writers/manifest.h"

#include <optional>

#include "collector/analysis/cost.h"
#include "collector/writers/json_parts.h"
#include "collector/writers/json_text.h"
#include "collector/writers/output_file.h"
#include "collector/writers/steps_csv.h"
#include "nlohmann/json.hpp"

namespace stepagent::writers {
namespace {

using Json = nlohmann::ordered_json;
using model::Cycle;

Json Text(std::string_view bytes) { return ValidUtf8(bytes); }

Json Session(const model::SessionInfo& s) {
  Json out = SessionHead(s);
  out.update({{"local_rank", IdOrNull(s.local_rank)},
              {"cuda_visible_devices", VisibleDevicesJson(s)},
              {"start_unix_ns", s.base_unix_ns},
              {"agent_version", Text(s.agent_version)},
              {"labels", LabelsJson(s)}});
  return out;
}

Json Schedule(const std::optional<model::ScheduleSpec>& schedule) {
  if (!schedule) return nullptr;
  return {
      {"skip_first", schedule->skip_first}, {"wait", schedule->wait},
      {"warmup", schedule->warmup},         {"active", schedule->active},
      {"repeat", schedule->repeat},         {"skip_first_wait", schedule->skip_first_wait ? 1 : 0}};
}

// Device work follows its launch: without launches nobody knows which step it is of.
template <typename T>
Json OfSteps(const Cycle& cycle, const T& count) {
  return cycle.SeesLaunches() ? CountOrNull(count) : Json(nullptr);
}

Json Steps(const Cycle& cycle) {
  Json out = Json::array();
  for (const model::Step& step : cycle.steps) {
    out.push_back(
        {{"index", step.index},
         {"process_index", step.process_index},
         {"phase", "active"},
         {"begin_ns", step.begin_ns},
         {"end_ns", step.end_ns},
         {"complete", StepFlag(cycle, step.complete)},
         {"contains_tracer_start", StepFlag(cycle, step.contains_tracer_start)},
         {"partial", StepFlag(cycle, step.partial)},
         {"launches", cycle.SeesLaunches() && !step.partial ? Json(step.launches) : Json(nullptr)},
         {"kernels", OfSteps(cycle, step.kernels)},
         {"copies", OfSteps(cycle, step.copies)},
         {"sets", OfSteps(cycle, step.sets)}});
  }
  return out;
}

Json OutsideSteps(const Cycle& cycle) {
  const model::OutsideSteps& o = cycle.outside_steps;
  return {{"launches", cycle.SeesLaunches() ? Json(o.launches) : Json(nullptr)},
          {"kernels", OfSteps(cycle, o.kernels)},
          {"copies", OfSteps(cycle, o.copies)},
          {"sets", OfSteps(cycle, o.sets)}};
}

// The most frequent ranges since the process's start, counted until a step matched.
Json RangesSeen(const Cycle& cycle) {
  Json out = Json::array();
  for (const model::NameCount& range : cycle.top_ranges) {
    out.push_back({{"name", Text(range.name)},
                   {"domain", Text(range.domain)},
                   {"count", range.count},
                   {"registered", range.registered}});
  }
  return out;
}

Json Gpu(const Cycle& cycle) {
  Json devices = Json::array();
  for (const model::DeviceInfo& device : cycle.devices) {
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", Text(device.name)},
                       {"uuid", TextOrNull(device.uuid)}});
  }
  const model::Gpu& gpu = cycle.gpu;
  return {{"status", gpu.status},
          {"reason", TextOrNull(gpu.reason)},
          {"reason_code", TextOrNull(gpu.reason_code)},
          {"driver_version", VersionOrNull(gpu.driver_version)},
          {"cupti_version", VersionOrNull(gpu.cupti_version)},
          {"cupti_path", TextOrNull(gpu.cupti_path)},
          {"cupti_choice", TextOrNull(gpu.cupti_choice)},
          {"holder", TextOrNull(gpu.holder)},
          {"graph_level", TextOrNull(gpu.graph_level)},
          {"devices", devices}};
}

Json Kinds(const Cycle& cycle) {
  Json out = Json::object();
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const model::KindStatus& kind = cycle.kinds[i];
    out[std::string(model::ActivityName(static_cast<model::Activity>(i)))] = {
        {"requested", kind.requested},
        {"enabled", kind.enabled},
        {"observed", CountOrNull(kind.observed)},
        {"error", TextOrNull(kind.error)}};
  }
  return out;
}

Json Balance(const Cycle& cycle) {
  Json out = Json::object();
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const model::Balance& b = cycle.balance[i];
    if (!cycle.kinds[i].requested && !b.written) continue;  // not asked for: `kinds` says so
    out[std::string(model::ActivityName(static_cast<model::Activity>(i)))] = {
        {"produced", CountOrNull(b.produced)},
        {"written", CountOrNull(b.written)},
        {"dropped", CountOrNull(b.dropped)},
        {"out_of_window", CountOrNull(b.out_of_window)},
        {"invalid", CountOrNull(b.invalid)}};
  }
  return out;
}

Json Joins(const model::Joins& j) {
  return {{"launches", CountOrNull(j.launches)},
          {"failed", CountOrNull(j.failed)},
          {"captured", CountOrNull(j.captured)},
          {"launches_without_device_work", CountOrNull(j.launches_without_device_work)},
          {"device_work_without_launch", CountOrNull(j.device_work_without_launch)}};
}

std::string RelativeTo(const std::string& path, const std::string& dir) {
  if (!path.starts_with(dir)) return path;
  const size_t rest = path.find_first_not_of('/', dir.size());
  return rest == std::string::npos ? path : path.substr(rest);
}

Json Files(const std::vector<WrittenFile>& files, const std::string& run_dir) {
  Json out = Json::array();
  for (const WrittenFile& file : files) {
    out.push_back({{"name", Text(RelativeTo(file.path, run_dir))},
                   {"format", file.format},
                   {"bytes", file.bytes},
                   {"events", file.events},
                   {"sha256", file.sha256}});
  }
  return out;
}

}  // namespace

Json AllStepsJson(const model::AllSteps& all) {
  Json each = Json::array();
  for (const model::StepDuration& step : all.each) {
    each.push_back({{"index", step.index},
                    {"dur_ns", step.dur_ns},
                    {"collecting", CollectingName(step.collecting)}});
  }
  return {{"count", all.count}, {"each", each}};
}

Json BuildManifest(const Cycle& cycle, const std::vector<WrittenFile>& files,
                   const std::string& run_dir) {
  return {{"schema", "stepagent.manifest/1"},
          {"session", Session(cycle.session)},
          {"cycle", CycleHead(cycle)},
          {"window", {{"begin_ns", cycle.window_begin_ns}, {"end_ns", cycle.window_end_ns}}},
          {"schedule", Schedule(cycle.session.schedule)},
          {"step_source", TextOrNull(cycle.session.step_source)},
          {"step_extent", TextOrNull(cycle.session.step_extent)},
          {"steps", Steps(cycle)},
          {"outside_steps", OutsideSteps(cycle)},
          {"overlapping_steps", cycle.overlapping_steps},
          {"all_steps", AllStepsJson(cycle.all_steps)},
          {"ranges_seen", RangesSeen(cycle)},
          {"gpu", Gpu(cycle)},
          {"kinds", Kinds(cycle)},
          {"balance", Balance(cycle)},
          {"joins", Joins(cycle.SeesLaunches() ? cycle.joins : model::Joins{})},
          {"clock",
           {{"host", cycle.session.clock_host},
            {"base_unix_ns", cycle.session.base_unix_ns},
            {"device_residual_ns", CountOrNull(cycle.device_residual_ns)},
            {"wall_offset_ns", cycle.wall_offset_ns ? Json(*cycle.wall_offset_ns) : Json(nullptr)},
            {"wall_error_ns", CountOrNull(cycle.wall_error_ns)}}},
          {"cost", analysis::CostOf(cycle)},
          {"notes", NotesJson(cycle)},
          {"files", Files(files, run_dir)}};
}

WriteResult WriteManifest(const Cycle& cycle, const std::vector<WrittenFile>& files,
                          const std::string& cycle_dir, const std::string& run_dir) {
  WrittenFile written{cycle_dir + "/manifest.json", "manifest", 0, 0, ""};
  const std::string text =
      BuildManifest(cycle, files, run_dir).dump(1, ' ', false, Json::error_handler_t::replace) +
      "\n";
  const std::string error = WriteWholeFile(written.path, text, &written.bytes, &written.sha256);
  if (!error.empty()) return {false, error, {}};
  return {true, "", {written}};
}

}  // namespace stepagent::writers
