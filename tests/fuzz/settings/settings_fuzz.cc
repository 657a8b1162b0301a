// Schedule, step and number syntax: what is accepted prints itself in a form that is accepted
// again.
#include <cstdint>
#include <cstdlib>
#include <string>

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
    if (error) Check(error->Line().find('\n') == std::string::npos);
  }
  return 0;
}
