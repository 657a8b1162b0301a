#include "collector/analysis/kineto_header.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

namespace stepagent::analysis {
namespace {

constexpr int64_t kMost32 = std::numeric_limits<int32_t>::max();
constexpr std::string_view kOwnObject = "stepagent", kLabel = "label_";

// Device numbers that are kept as they are.
struct DeviceField {
  std::string_view key;
  uint32_t model::DeviceInfo::*field;
};
constexpr DeviceField kDeviceFields[] = {
    {"numSms", &model::DeviceInfo::multiprocessors},
    {"computeMajor", &model::DeviceInfo::compute_major},
    {"computeMinor", &model::DeviceInfo::compute_minor},
    {"maxThreadsPerBlock", &model::DeviceInfo::max_threads_per_block},
    {"maxThreadsPerMultiprocessor", &model::DeviceInfo::max_threads_per_multiprocessor},
    {"regsPerBlock", &model::DeviceInfo::registers_per_block},
    {"regsPerMultiprocessor", &model::DeviceInfo::registers_per_multiprocessor},
    {"warpSize", &model::DeviceInfo::warp_size},
    {"sharedMemPerBlock", &model::DeviceInfo::shared_per_block},
    {"sharedMemPerBlockOptin", &model::DeviceInfo::shared_per_block_optin},
    {"sharedMemPerMultiprocessor", &model::DeviceInfo::shared_per_multiprocessor}};

std::optional<uint64_t> NumberIn(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsCode(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
                              std::string_view::npos;
}

// The writer joins notes as `code: text; code: text`; a text may hold a semicolon of its own.
std::vector<model::Note> SplitNotes(std::string_view text) {
  std::vector<model::Note> notes;
  while (!text.empty()) {
    const size_t end = text.find("; ");
    const std::string_view piece = text.substr(0, end);
    const size_t colon = piece.find(": ");
    if (colon != std::string_view::npos && IsCode(piece.substr(0, colon))) {
      notes.push_back({std::string(piece.substr(0, colon)), std::string(piece.substr(colon + 2))});
    } else if (!notes.empty()) {
      notes.back().text += "; " + std::string(piece);
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 2);
  }
  return notes;
}

// "part 2 of 3 of this cycle".
std::optional<model::TracePart> PartIn(std::string_view text) {
  constexpr std::string_view kBegin = "part ", kOf = " of ";
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const size_t of = text.find(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(of + kOf.size());
  const auto number = NumberIn(text.substr(0, of)), count = NumberIn(rest.substr(0, rest.find(' ')));
  if (!number || !count) return std::nullopt;
  return model::TracePart{*number, *count};
}

}  // namespace

bool KinetoHeader::Believes(const Where& where, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return true;
  const bool is_top = where.depth == 1;
  refused_.Add(is_top ? where.top_key : where.key, value, AllowedText(least, most),
               is_top ? "the file" : std::string(where.top_key), "the value is left out");
  return false;
}

void KinetoHeader::Number(const Where& where, int64_t value) {
  constexpr int64_t kLastNs = int64_t{1} << 62;
  const auto is_top = [&](std::string_view key) { return where.depth == 1 && where.top_key == key; };
  if (is_top("baseTimeNanoseconds") && Believes(where, value, 0, kLastNs)) {
    cycle_.session.base_unix_ns = value;
  }
  if (is_top("cupti_version") && Believes(where, value, 0, kMost32)) {
    cycle_.gpu.cupti_version = static_cast<uint32_t>(value);
  }
  if (is_top("cuda_driver_version") && Believes(where, value, 0, kMost32)) {
    cycle_.gpu.driver_version = static_cast<uint32_t>(value);
  }
  if (where.depth == 2 && where.top_key == "distributedInfo") {
    if (where.key == "rank" && Believes(where, value, 0, kMost32)) {
      cycle_.session.rank = static_cast<int32_t>(value);
    }
    if (where.key == "world_size" && Believes(where, value, 1, kMost32)) {
      cycle_.session.world_size = static_cast<int32_t>(value);
    }
  }
  if (where.depth == 2 && where.top_key == kOwnObject) {
    own_[std::string(where.key)] = std::to_string(value);
  }
  if (where.depth == 3 && where.top_key == "deviceProperties" && !cycle_.devices.empty()) {
    DeviceNumber(where, value);
  }
}

void KinetoHeader::DeviceNumber(const Where& where, int64_t value) {
  model::DeviceInfo& device = cycle_.devices.back();
  if (where.key == "id") {
    const bool is_one = Believes(where, value, 0, kMostDevice);
    device.ordinal = is_one ? static_cast<int32_t>(value) : -1;
  }
  for (const DeviceField& one : kDeviceFields) {
    if (where.key == one.key && Believes(where, value, 0, kMost32)) {
      device.*(one.field) = static_cast<uint32_t>(value);
    }
  }
  if (where.key == "totalGlobalMem" &&
      Believes(where, value, 0, std::numeric_limits<int64_t>::max() - 1)) {
    device.memory_bytes = static_cast<uint64_t>(value);
  }
}

void KinetoHeader::Text(const Where& where, const std::string& text) {
  if (where.depth == 1 && where.top_key == "host_name") cycle_.session.host = text;
  if (where.depth == 2 && where.top_key == kOwnObject) own_[std::string(where.key)] = text;
  if (where.depth != 3 || where.top_key != "deviceProperties" || cycle_.devices.empty()) return;
  if (where.key == "name") cycle_.devices.back().name = text;
  if (where.key == "uuid") cycle_.devices.back().uuid = text;
}

void KinetoHeader::Boolean(const Where& where, bool value) {
  if (where.depth == 2 && where.top_key == kOwnObject) {
    own_[std::string(where.key)] = value ? "true" : "false";
  }
}

void KinetoHeader::BeginObject(std::string_view top_key) {
  if (top_key == "deviceProperties") cycle_.devices.emplace_back();
}

void KinetoHeader::CheckRank() {
  const model::SessionInfo& session = cycle_.session;
  if (session.world_size < 1 || session.rank < session.world_size) return;
  refused_.Add("rank", session.rank, AllowedText(0, session.world_size - 1), "distributedInfo",
               "it is taken as it is");
}

std::string KinetoHeader::Own(std::string_view key) const {
  const auto it = own_.find(key);
  return it == own_.end() ? std::string() : it->second;
}

void KinetoHeader::Complete(model::Cycle* cycle) const {
  if (IsOwn()) {
    TakeNotes(cycle);
    TakeOwn(cycle);
    TakeDevice(cycle);
    return;
  }
  cycle->tells_end = cycle->tells_step_flags = false;
  cycle->notes.push_back(
      {"not_in_a_kineto_file",
       "not in a Kineto file: the program (the file's name stands for it), whether the recording "
       "is complete and how it ended, which steps were cut or hold the tracer's start, what was "
       "lost, settings and labels; such values are null, in tables -"});
}

void KinetoHeader::TakeOwn(model::Cycle* cycle) const {
  model::SessionInfo& session = cycle->session;
  session.agent_version = Own("version");
  session.run = Own("run");
  session.id = Own("session");
  session.rank_source = Own("rank_source");
  session.step_source = Own("step_source");
  for (const auto& [key, value] : own_) {
    if (key.starts_with(kLabel)) session.labels[key.substr(kLabel.size())] = value;
  }
  constexpr uint64_t kMostCycles = std::numeric_limits<uint32_t>::max();
  cycle->index = static_cast<uint32_t>(std::min(NumberIn(Own("cycle")).value_or(0), kMostCycles));
  cycle->tells_end = own_.contains("complete") && own_.contains("ended");
  cycle->tells_step_flags = cycle->tells_end;
  if (!cycle->tells_end) return;
  cycle->complete = Own("complete") == "true";
  cycle->ended = Own("ended");
  cycle->reason = Own("reason");
}

void KinetoHeader::TakeNotes(model::Cycle* cycle) const {
  std::vector<model::Note> notes = SplitNotes(Own("notes"));
  for (const model::Note& note : notes) {
    if (note.code == "trace_part") cycle->part = PartIn(note.text);
  }
  notes.push_back({"read_from_a_trace_file",
                   "read from a Chrome trace; not in it: the program (the file's name stands for "
                   "it), settings, times of other steps, what was lost; the cycle's manifest.json "
                   "and summary.json hold these"});
  cycle->notes.insert(cycle->notes.begin(), std::make_move_iterator(notes.begin()),
                      std::make_move_iterator(notes.end()));
}

// A device that had nothing to do is no device that was not collected.
void KinetoHeader::TakeDevice(model::Cycle* cycle) const {
  cycle->gpu.graph_level = Own("graph_level");
  const std::string status = Own("gpu_status");
  if (status != "collected" && status != "partial" && status != "unavailable") return;
  cycle->gpu.status = status;
  cycle->gpu.reason = Own("gpu_reason");
  if (status == "unavailable") return;
  using enum model::Activity;
  for (const model::Activity activity : {kKernel, kMemcpy, kMemset, kLaunch, kSync}) {
    model::KindStatus& kind = cycle->kinds[static_cast<size_t>(activity)];
    kind.enabled = true;
    kind.error.clear();
  }
}

}  // namespace stepagent::analysis
