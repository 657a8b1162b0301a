#include "proto/settings.h"

#include <algorithm>

#include "proto/run_name.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

// The part of a value that an error line shows.
constexpr size_t kShownValueBytes = 80;

// As it was given, if it was.
std::string TextOf(const Settings& settings, const char* name, std::string otherwise) {
  const auto given = settings.given.find(name);
  return given != settings.given.end() ? given->second : otherwise;
}

// Ours, but no settings.
bool IsInternalVariable(std::string_view name) {
  for (const VariableSpec& variable : OtherVariables())
    if (name == variable.name) return true;
  return name.starts_with("STEPAGENT_SIM_") || name.starts_with("STEPAGENT_TEST_");
}

const SettingRow* FindRow(std::string_view name) {
  for (const SettingRow& row : SettingRows()) {
    const std::string_view flag = row.spec.flag;
    if (name == flag || name == flag.substr(2) || name == row.spec.variable ||
        (row.spec.alias && name == row.spec.alias))
      return &row;
  }
  return nullptr;
}

SettingError ErrorOf(const SettingRow& row, std::string_view name, std::string_view value,
                     std::string why) {
  return {std::string(name), std::string(value.substr(0, 4 * kShownValueBytes)), std::move(why),
          row.spec.allowed};
}

}  // namespace

const std::vector<SettingSpec>& AllSettings() {
  static const std::vector<SettingSpec>* const kSpecs = [] {
    auto* specs = new std::vector<SettingSpec>;
    for (const SettingRow& row : SettingRows()) specs->push_back(row.spec);
    return specs;
  }();
  return *kSpecs;
}

const SettingSpec* FindSetting(std::string_view name) {
  const SettingRow* row = FindRow(name);
  return row ? &row->spec : nullptr;
}

std::string SettingError::Line() const {
  std::string line = setting + ": '" + Printable(value, kShownValueBytes) + "'";
  if (!why.empty()) line += ": " + why;
  return allowed.empty() ? line : line + (why.empty() ? ": " : "; ") + "allowed: " + allowed;
}

Settings DefaultSettings() {
  Settings settings;
  std::string why;
  for (const SettingRow& row : SettingRows())
    if (*row.spec.fallback != '\0') row.parse(row.spec.fallback, &settings, &why);
  settings.signal_asked = false;
  return settings;
}

std::optional<SettingError> ApplySetting(std::string_view name, std::string_view value,
                                         Settings* settings) {
  const SettingRow* row = FindRow(name);
  if (!row)
    return SettingError{Printable(name, kShownValueBytes), std::string(value.substr(0, 320)),
                        "no such setting", ""};
  std::string why;
  if (value.empty())
    why = "empty";
  else if (value.size() > kMaxSettingBytes)
    why = "longer than 65536 bytes";
  else if (row->parse(value, settings, &why)) {
    settings->given[row->spec.flag + 2] =
        row->spec.repeatable ? row->text(*settings) : std::string(value);
    return std::nullopt;
  }
  return ErrorOf(*row, name, value, std::move(why));
}

std::optional<SettingError> ApplyEnvironment(char* const* environment, Settings* settings,
                                             std::vector<std::string>* unknown) {
  Settings result = *settings;
  std::vector<std::string_view> seen;
  for (char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with("STEPAGENT_") || equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
    const SettingRow* row = FindRow(name);
    if (name == kRunVariable && !value.empty() && !IsRunId(value))
      return SettingError{kRunVariable, std::string(value.substr(0, 320)), "no name for a run",
                          kRunIdAllowed};
    if (!row) {
      if (unknown && !IsInternalVariable(name))
        unknown->push_back(Printable(name, kShownValueBytes));
      continue;
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return ErrorOf(*row, name, value, "the variable is there twice");
    seen.push_back(name);
    if (auto error = ApplySetting(name, value, &result)) return error;
  }
  *settings = std::move(result);
  return std::nullopt;
}

std::optional<SettingError> CheckTogether(const Settings& s) {
  using Kind = StepSetting::Kind;
  if (s.schedule && !HasStepSource(s))
    return SettingError{"--schedule", TextOf(s, "schedule", s.schedule->Text()),
                        "a schedule needs a step source: give --step (STEPAGENT_STEP)",
                        FindSetting("--step")->allowed};
  if (s.step.kind == Kind::kSignal && s.signal_number == 0)
    return SettingError{"--step", "signal", "there is no signal: --signal is none", "a --signal"};
  if (const uint32_t missing = s.require & ~s.activities)
    return SettingError{"--require", ActivitiesText(missing), "not among the activities recorded",
                        ActivitiesText(s.activities)};
  return std::nullopt;
}

bool HasStepSource(const Settings& settings) {
  return settings.step.kind != StepSetting::Kind::kUnset &&
         settings.step.kind != StepSetting::Kind::kNone;
}

bool ApplyDefaultSchedule(Settings* settings) {
  if (settings->schedule || !HasStepSource(*settings)) return false;
  settings->schedule = ScheduleSetting{10, 5, 2, 3, 1, false};
  return true;
}

ArmMode EffectiveArm(const Settings& settings) {
  if (settings.arm != ArmMode::kUnset) return settings.arm;
  return settings.schedule ? ArmMode::kStart : ArmMode::kDemand;
}

bool IsDisabledValue(std::string_view value) {
  for (const std::string_view off : {"", "0", "off", "no", "false"})
    if (value == off) return false;
  return true;
}

}  // namespace stepagent::proto
