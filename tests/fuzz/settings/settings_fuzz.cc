// Schedule, step and number syntax: what is accepted prints itself in a form that is accepted
// again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "proto/settings.h"

namespace {

using stepagent::proto::ParseSchedule;
using stepagent::proto::ParseStep;

constexpr const char* kPieces[] = {"wait=",       "active=",
                                   "warmup=",     "repeat=",
                                   "skip_first=", ",",
                                   "nvtx:",       "@",
                                   "\\",          "*",
                                   "nvtx-glob:",  "1",
                                   "0",           "99999999999999999999",
                                   "-",           "every:",
                                   "ms",          "signal",
                                   "none",        "skip_first_wait=",
                                   "?",           ".",
                                   "step",        "="};
constexpr size_t kPieceCount = sizeof kPieces / sizeof *kPieces;

void Check(bool holds) {
  if (!holds) std::abort();
}

bool IsOneLine(const std::optional<stepagent::proto::SettingError>& error) {
  return !error || error->Line().find('\n') == std::string::npos;
}

// A line for each variable.
void CheckEnvironment(std::string text) {
  std::vector<char*> environment;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    environment.push_back(text.data() + begin);
    if (end < text.size()) text[end] = '\0';
    begin = end + 1;
  }
  environment.push_back(nullptr);
  stepagent::proto::Settings settings = stepagent::proto::DefaultSettings();
  std::vector<std::string> unknown;
  auto error = stepagent::proto::ApplyEnvironment(environment.data(), &settings, &unknown);
  Check(IsOneLine(error));
  for (const std::string& name : unknown) Check(name.find('\n') == std::string::npos);
  if (error) return;
  const bool is_default = stepagent::proto::ApplyDefaultSchedule(&settings);
  Check(!is_default || stepagent::proto::HasStepSource(settings));
  Check(IsOneLine(stepagent::proto::CheckTogether(settings)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t bytes) {
  std::string text;
  // After a first byte of 0xFF the text as it is, else a piece or a letter for each byte.
  const bool is_text = bytes > 0 && input[0] == 0xFF;
  if (is_text) text.assign(reinterpret_cast<const char*>(input) + 1, bytes - 1);
  for (size_t i = 0; i < bytes && !is_text; ++i) {
    if (input[i] < 0xE0) {
      text += kPieces[input[i] % kPieceCount];
    } else {
      text += static_cast<char>(input[i] * 37 + i);
    }
  }
  std::string why;
  if (const auto schedule = ParseSchedule(text, &why)) {
    const auto again = ParseSchedule(schedule->Text(), &why);
    Check(again && again->Text() == schedule->Text() && schedule->active >= 1);
  }
  if (const auto step = ParseStep(text, &why)) {
    const auto again = ParseStep(step->Text(), &why);
    Check(again && again->Text() == step->Text() && again->name == step->name);
  }
  stepagent::proto::Settings settings = stepagent::proto::DefaultSettings();
  for (const auto& spec : stepagent::proto::AllSettings()) {
    const auto error = stepagent::proto::ApplySetting(spec.flag, text, &settings);
    Check(IsOneLine(error));
  }
  CheckEnvironment(text);
  return 0;
}
