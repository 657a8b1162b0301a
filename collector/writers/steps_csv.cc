#include "collector/writers/steps_csv.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "collector/writers/output_file.h"

namespace stepagent::writers {
namespace {

constexpr std::array<std::string_view, 4> kCollecting = {"no", "warmup", "active", "finishing"};

}  // namespace

WriteResult WriteStepsCsv(const model::Cycle& cycle, const std::string& cycle_dir) {
  std::unordered_map<uint64_t, const model::Step*> active;
  for (const model::Step& step : cycle.steps) active[step.process_index] = &step;
  // Durations are counted from the process's start, `index` from arming.
  const uint64_t armed_at =
      cycle.steps.empty() ? 0 : cycle.steps.front().process_index - cycle.steps.front().index;
  std::string text = "index,process_index,begin_ns,dur_ns,collecting,complete\n";
  for (const model::StepDuration& step : cycle.all_steps.each) {
    const auto it = active.find(step.index);
    const model::Step* known = it == active.end() ? nullptr : it->second;
    if (step.index >= armed_at) text += std::to_string(step.index - armed_at);
    text += "," + std::to_string(step.index) + ",";
    if (known != nullptr) text += std::to_string(known->begin_ns);
    text += "," + std::to_string(step.dur_ns) + ",";
    text += kCollecting[std::min<size_t>(step.collecting, kCollecting.size() - 1)];
    text += known == nullptr ? "," : known->complete ? ",1" : ",0";
    text += "\n";
  }
  WrittenFile written{cycle_dir + "/steps.csv", "csv", 0, cycle.all_steps.each.size(), ""};
  const std::string error = WriteWholeFile(written.path, text, &written.bytes, &written.sha256);
  if (!error.empty()) return {false, error, {}};
  return {true, "", {written}};
}

}  // namespace stepagent::writers
