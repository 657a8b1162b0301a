#include "collector/writers/chrome_header.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "collector/writers/json_text.h"

namespace stepagent::writers {
namespace {

class Object {
 public:
  void Text(std::string_view key, std::string_view value) { Add(key, JsonString(value)); }
  // Of a trace file that was read and does not tell: the key is left out.
  void Told(std::string_view key, std::string_view value, const model::Cycle& cycle) {
    if (!value.empty() || !cycle.is_from_trace) Text(key, value);
  }
  void Number(std::string_view key, int64_t value) { Add(key, std::to_string(value)); }
  // 0 stands for "not known" in device data and versions: the key is left out.
  void Known(std::string_view key, uint64_t value) {
    if (value != 0) Add(key, std::to_string(value));
  }
  void Add(std::string_view key, const std::string& json) {
    body_ += body_.empty() ? "" : ", ";
    body_ += JsonString(key) + ": " + json;
  }
  [[nodiscard]] std::string Close() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

std::string DeviceObject(const model::DeviceInfo& d) {
  Object o;
  o.Number("id", d.ordinal);
  o.Text("name", d.name);
  o.Known("totalGlobalMem", d.memory_bytes);
  o.Known("computeMajor", d.compute_major);
  // A minor of 0 is a value, but only beside a known major.
  if (d.compute_major != 0) o.Number("computeMinor", d.compute_minor);
  o.Known("maxThreadsPerBlock", d.max_threads_per_block);
  o.Known("maxThreadsPerMultiprocessor", d.max_threads_per_multiprocessor);
  o.Known("regsPerBlock", d.registers_per_block);
  o.Known("warpSize", d.warp_size);
  o.Known("sharedMemPerBlock", d.shared_per_block);
  o.Known("numSms", d.multiprocessors);
  o.Known("regsPerMultiprocessor", d.registers_per_multiprocessor);
  o.Known("sharedMemPerBlockOptin", d.shared_per_block_optin);
  o.Known("sharedMemPerMultiprocessor", d.shared_per_multiprocessor);
  if (!d.uuid.empty()) o.Text("uuid", d.uuid);
  return o.Close();
}

std::string Devices(const model::Cycle& cycle) {
  std::vector<const model::DeviceInfo*> devices;
  for (const model::DeviceInfo& d : cycle.devices) devices.push_back(&d);
  std::sort(devices.begin(), devices.end(),
            [](const auto* a, const auto* b) { return a->ordinal < b->ordinal; });
  std::string out = "[";
  for (const model::DeviceInfo* d : devices) {
    out += out.size() == 1 ? "\n    " : ",\n    ";
    out += DeviceObject(*d);
  }
  return out + (out.size() == 1 ? "]" : "\n  ]");
}

std::string Own(const model::Cycle& cycle) {
  const model::SessionInfo& s = cycle.session;
  Object o;
  o.Told("version", s.agent_version, cycle);
  o.Told("run", s.run, cycle);
  o.Told("session", s.id, cycle);
  o.Number("cycle", cycle.index);
  if (cycle.tells_end) {
    o.Add("complete", cycle.complete ? "true" : "false");
    o.Text("ended", cycle.ended);
  }
  if (!cycle.reason.empty()) o.Text("reason", cycle.reason);
  o.Told("rank_source", s.rank_source, cycle);
  o.Told("step_source", s.step_source, cycle);
  o.Text("gpu_status", cycle.gpu.status);
  if (!cycle.gpu.reason.empty()) o.Text("gpu_reason", cycle.gpu.reason);
  o.Add("host_only", cycle.HostOnly() ? "true" : "false");
  o.Told("graph_level", cycle.gpu.graph_level, cycle);
  std::string notes;
  for (const model::Note& note : cycle.notes) {
    notes += (notes.empty() ? "" : "; ") + note.code + ": " + note.text;
  }
  o.Text("notes", notes);
  for (const auto& [key, value] : s.labels) o.Text("label_" + key, value);
  return o.Close();
}

}  // namespace

std::string ChromeHeader(const model::Cycle& cycle, int64_t base_unix_ns) {
  const model::SessionInfo& s = cycle.session;
  std::string out = "{\n  \"schemaVersion\": 1,\n";
  if (s.rank >= 0) {
    out += "  \"distributedInfo\": {\n    \"rank\": " + std::to_string(s.rank);
    if (s.world_size >= 0) out += ",\n    \"world_size\": " + std::to_string(s.world_size);
    out += "\n  },\n";
  }
  out += "  \"deviceProperties\": " + Devices(cycle) + ",\n";
  if (cycle.gpu.cupti_version != 0) {
    out += "  \"cupti_version\": " + std::to_string(cycle.gpu.cupti_version) + ",\n";
  }
  if (cycle.gpu.driver_version != 0) {
    out += "  \"cuda_driver_version\": " + std::to_string(cycle.gpu.driver_version) + ",\n";
  }
  if (!s.id.empty() || !cycle.is_from_trace) {
    out += "  \"trace_id\": " + JsonString(s.id + "." + std::to_string(cycle.index)) + ",\n";
  }
  if (!s.host.empty() || !cycle.is_from_trace) {
    out += "  \"host_name\": " + JsonString(s.host) + ",\n";
  }
  out += "  \"stepagent\": " + Own(cycle) + ",\n";
  out += "  \"displayTimeUnit\": \"ms\",\n";
  out += "  \"baseTimeNanoseconds\": " + std::to_string(base_unix_ns) + ",\n";
  return out + "  \"traceEvents\": [\n";
}

std::string ChromeTail(const std::string& trace_name) {
  return "\n  ],\n  \"traceName\": " + JsonString(trace_name) + "\n}\n";
}

std::string HostOnlyMark(const model::Cycle& cycle) {
  if (!cycle.HostOnly()) return "";
  const std::string& reason = cycle.gpu.reason;
  return reason.empty() ? " [host only]" : " [host only: " + reason + "]";
}

}  // namespace stepagent::writers
