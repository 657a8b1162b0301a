#include "collector/writers/steps_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "collector/writers/output_file.h"

namespace stepagent::writers {
namespace {

constexpr std::array<std::string_view, 4> kCollecting = {"no", "warmup", "active", "finishing"};

// `active`: what is known besides of an active step of the cycle, else nullptr.
std::string Row(const model::StepDuration& step, uint64_t armed_at, const model::Step* active) {
  std::string text;
  if (step.index >= armed_at) text += std::to_string(step.index - armed_at);
  text += "," + std::to_string(step.index) + ",";
  if (active != nullptr) text += std::to_string(active->begin_ns);
  text += "," + std::to_string(step.dur_ns) + ",";
  text += CollectingName(step.collecting);
  text += active == nullptr ? "," : active->complete ? ",1" : ",0";
  return text + "\n";
}

// Of the last row; nullopt where there is none.
std::optional<uint64_t> LastProcessIndex(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  text.remove_prefix(std::min(text.rfind('\n') + 1, text.size()));
  text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  uint64_t index = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), index);
  return read.ec == std::errc() ? std::optional(index) : std::nullopt;
}

}  // namespace

std::string_view CollectingName(uint8_t collecting) {
  return kCollecting[std::min<size_t>(collecting, kCollecting.size() - 1)];
}

uint64_t AddLaterRows(const model::AllSteps& all, uint64_t armed_at, std::string* text) {
  const std::optional<uint64_t> last = LastProcessIndex(*text);
  for (const model::StepDuration& step : all.each) {
    if (!last || step.index > *last) *text += Row(step, armed_at, nullptr);
  }
  return static_cast<uint64_t>(std::count(text->begin(), text->end(), '\n')) - 1;
}

WriteResult WriteStepsCsv(const model::Cycle& cycle, const std::string& cycle_dir) {
  std::unordered_map<uint64_t, const model::Step*> active;
  for (const model::Step& step : cycle.steps) active[step.process_index] = &step;
  // Durations are counted from the process's start, `index` from arming.
  const uint64_t armed_at =
      cycle.steps.empty() ? 0 : cycle.steps.front().process_index - cycle.steps.front().index;
  std::string text = "index,process_index,begin_ns,dur_ns,collecting,complete\n";
  for (const model::StepDuration& step : cycle.all_steps.each) {
    const auto it = active.find(step.index);
    text += Row(step, armed_at, it == active.end() ? nullptr : it->second);
  }
  WrittenFile written{cycle_dir + "/steps.csv", "csv", 0, cycle.all_steps.each.size(), ""};
  const std::string error = WriteWholeFile(written.path, text, &written.bytes, &written.sha256);
  if (!error.empty()) return {false, error, {}};
  return {true, "", {written}};
}

}  // namespace stepagent::writers
