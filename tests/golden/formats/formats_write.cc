// formats_write DIR: writes every golden cycle in every format, one folder a case, and beside them
// what the cycle itself holds: model.json, the sums that every format must give back.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <tuple>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/work_names.h"
#include "collector/writers/writer.h"
#include "nlohmann/json.hpp"
#include "tests/golden/cycles.h"

namespace {

using stepagent::model::Cycle;
using stepagent::model::DeviceItem;

// kind, device, stream, name -> count, sum of durations
using Sums =
    std::map<std::tuple<std::string, int64_t, int64_t, std::string>, std::pair<uint64_t, int64_t>>;

void Add(Sums& sums, const char* kind, int64_t device, int64_t stream, std::string_view name,
         int64_t ns) {
  auto& [count, sum] = sums[{kind, device, stream, stepagent::writers::ValidUtf8(name)}];
  ++count;
  sum += std::max<int64_t>(ns, 0);
}

void AddDevice(Sums& sums, const Cycle& cycle, const char* kind, const DeviceItem& item,
               std::string_view name) {
  // Counted here by the rule itself, not by the writers' own helper.
  if (!item.placed || item.lane >= cycle.lanes.size() || item.end_ns < item.begin_ns) return;
  const auto& lane = cycle.lanes[item.lane];
  Add(sums, kind, lane.device, lane.stream_index, name, item.end_ns - item.begin_ns);
}

Sums SumsOf(const Cycle& cycle) {
  namespace writers = stepagent::writers;
  Sums sums;
  for (const auto& k : cycle.kernels) {
    AddDevice(sums, cycle, "kernel", k, cycle.Text(cycle.shapes[k.shape].demangled));
  }
  for (const auto& c : cycle.copies) AddDevice(sums, cycle, "memcpy", c, writers::CopyName(c));
  for (const auto& s : cycle.sets) AddDevice(sums, cycle, "memset", s, writers::SetName(s));
  for (const auto& g : cycle.graph_launches) {
    AddDevice(sums, cycle, "graph", g, writers::GraphLaunchName(g));
  }
  for (const auto& call : cycle.calls) {
    Add(sums, "call", -1, -1, writers::WithoutVersionSuffix(cycle.Text(call.name)),
        call.end_ns - call.begin_ns);
  }
  for (const auto& sync : cycle.syncs) {
    Add(sums, "sync", -1, -1, writers::SyncTypeName(sync.type), sync.end_ns - sync.begin_ns);
  }
  for (const auto& step : cycle.steps) {
    Add(sums, "range", -1, -1, writers::StepName(step), step.end_ns - step.begin_ns);
  }
  for (const auto& range : cycle.ranges) {
    if (writers::IsStepRow(cycle, range)) continue;
    Add(sums, "range", -1, -1, writers::RangeName(cycle, range), range.end_ns - range.begin_ns);
  }
  return sums;
}

// The stack of each launch by the number of its row: frames, leaf first, as they are in the cycle.
nlohmann::ordered_json StacksOf(const Cycle& cycle) {
  nlohmann::ordered_json stacks = nlohmann::ordered_json::object();
  const auto text = [&](stepagent::model::StringId id) {
    return stepagent::writers::ValidUtf8(cycle.Text(id));
  };
  for (const auto& call : cycle.calls) {
    if (call.stack < 0) continue;
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const auto& f : cycle.stacks.at(static_cast<size_t>(call.stack))) {
      frames.push_back(
          {text(f.name), text(f.source), f.line, text(f.module), f.build_id, f.address});
    }
    stacks[std::to_string(call.flow_id)] = std::move(frames);
  }
  return stacks;
}

bool WriteModel(const std::string& dir, const Cycle& cycle) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [key, value] : SumsOf(cycle)) {
    const auto& [kind, device, stream, name] = key;
    rows.push_back({kind, device, stream, name, value.first, value.second});
  }
  nlohmann::ordered_json out = {{"pid", cycle.session.pid},
                                {"base_unix_ns", cycle.session.base_unix_ns},
                                {"stacks", StacksOf(cycle)},
                                {"sums", std::move(rows)}};
  std::ofstream file(dir + "/model.json");
  file << out.dump(1);
  return file.good();
}

bool WriteCase(const std::string& dir, const Cycle& cycle) {
  bool good = WriteModel(dir, cycle);
  for (const std::string_view format : stepagent::writers::KnownFormats()) {
    const auto result = stepagent::writers::MakeWriter(format)->Write(
        cycle, {dir, dir, "train.py_node-7_rank3.0", {}});
    if (!result.ok) std::fprintf(stderr, "%s\n", result.error.c_str());
    good &= result.ok;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  return stepagent::testing::WriteGoldenCases(argc, argv, WriteCase);
}
