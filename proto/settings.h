#pragma once
// Every setting of stepagent: one table, one parser, one struct.
//
// Purpose: the launcher's flags, the agent's environment variables, `start`'s options and
// docs/configuration.md all derive from kSettings; both processes parse with the same code, so a
// value the launcher accepts is one the agent accepts. (Decision 0003 says why this lies in proto/.)
// Thread rule: pure functions; Settings is a plain value.
// Failure rule: no exceptions. A bad value gives a SettingError that names the setting, the value
// and what is allowed, fit to be printed as one line; the Settings stay as they were.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stepagent::proto {

struct SettingSpec {
  const char* flag;      // "--schedule"
  const char* alias;     // "--cuda-graph-trace" or nullptr
  const char* variable;  // "STEPAGENT_SCHEDULE"
  const char* value;     // metavariable, "KEY=N,…"
  const char* fallback;  // default as text, fit for ApplySetting; "" when it depends on others
  const char* allowed;   // what is allowed, for error lines and the documentation
  const char* help;      // one sentence
  bool repeatable;       // --label may be given several times
};
// A variable of ours that is no setting.
struct VariableSpec {
  const char* name;
  const char* shown;    // appended to the name in the documentation, "=1"
  const char* meaning;  // one sentence, as Markdown
};
[[nodiscard]] std::span<const VariableSpec> OtherVariables();
// In the order of the contract's table.
[[nodiscard]] const std::vector<SettingSpec>& AllSettings();

struct ScheduleSetting {
  uint64_t skip_first = 0, wait = 0, warmup = 0, active = 1, repeat = 0;
  bool skip_first_wait = false;
  [[nodiscard]] std::string Text() const;  // "skip_first=0,wait=…"
};

struct StepSetting {
  enum class Kind : uint8_t { kUnset, kNone, kNvtx, kNvtxGlob, kEvery, kSignal };
  Kind kind = Kind::kUnset;
  std::string name;            // exact text or pattern, unescaped
  std::string domain;          // "" default domain
  bool any_domain = false;     // @*
  uint64_t every_ns = 0;
  [[nodiscard]] std::string Text() const;  // canonical spelling, escaped
};

enum class StepExtent : uint8_t { kRange, kPeriod };
enum class ArmMode : uint8_t { kUnset, kStart, kDemand, kCudaProfilerApi };
enum class GraphLevel : uint8_t { kGraph, kNode };
enum class LogLevel : uint8_t { kOff, kError, kWarn, kInfo, kDebug };

// Bits of Settings::activities, in the order of batch.proto's Activity.
inline constexpr uint32_t ActivityBit(uint32_t activity) { return 1U << activity; }

struct Settings {
  std::optional<ScheduleSetting> schedule;
  StepSetting step;
  StepExtent step_extent = StepExtent::kRange;
  ArmMode arm = ArmMode::kUnset;
  int signal_number = 0;          // 0 none; default SIGUSR2
  bool signal_asked = false;      // given by name, not by default
  std::string out;                // absolute once AbsoluteOut ran; default "stepagent-traces"
  std::vector<std::string> formats{"chrome"};
  uint32_t activities = 0;        // ActivityBit set; default without memory
  uint32_t require = 0;
  GraphLevel graph = GraphLevel::kGraph;
  bool native_stacks = false;
  std::map<std::string, std::string> labels;
  std::vector<std::string> redact;             // paths names args hosts
  std::optional<std::vector<uint32_t>> ranks;  // nullopt: all
  std::string collector = "auto";
  uint64_t max_window_ns = 0, max_records = 0, max_traces = 0, max_bytes = 0;  // 0 none
  uint64_t max_trace_bytes = 0;
  uint64_t ring_memory = 0;  // bytes that enlarged rings may take together
  uint64_t collector_memory = 0;  // bytes that a run's own collector may take; 0: no bound
  uint64_t arm_wait_ns = 0, exit_wait_ns = 0;
  LogLevel log_level = LogLevel::kWarn;
  std::string log_file;           // "" stderr
  std::map<std::string, std::string> given;    // flag name without dashes -> text, those not default
};

struct SettingError {
  std::string setting;   // the flag or the variable, as the user gave it
  std::string value;
  std::string why;       // what is wrong with it, may be empty
  std::string allowed;
  // "--schedule: 'x': why; allowed: …"; the value cut to about 80 characters, always one line.
  [[nodiscard]] std::string Line() const;
};

// Names start with these and are ours, but no settings of a user: never reported as unknown.
//   STEPAGENT_RUN        the run's id and folder name, one for the whole tree
//   STEPAGENT_RUN_MODE   "whole": record from the first CUDA or NVTX use to the end
inline constexpr const char* kRunVariable = "STEPAGENT_RUN";
inline constexpr const char* kRunModeVariable = "STEPAGENT_RUN_MODE";
//   STEPAGENT_RUN_LAUNCHER  the pid of `stepagent run`: who learns how its child ends
inline constexpr const char* kRunLauncherVariable = "STEPAGENT_RUN_LAUNCHER";
inline constexpr const char* kDisableVariable = "STEPAGENT_DISABLE";

// The defaults of the table.
[[nodiscard]] Settings DefaultSettings();
// Applies one setting by flag ("--schedule" or "schedule"), alias or variable name.
[[nodiscard]] std::optional<SettingError> ApplySetting(std::string_view name, std::string_view value,
                                                       Settings* settings);
// Applies every STEPAGENT_* variable of `environment` ("NAME=value" entries). Unknown STEPAGENT_
// variables are returned as a warning list, never an error.
[[nodiscard]] std::optional<SettingError> ApplyEnvironment(char* const* environment,
                                                           Settings* settings,
                                                           std::vector<std::string>* unknown);
// What no single value shows: a schedule without a step source, a required kind that is not
// recorded, `--step signal` with no signal. Applied after ApplyDefaultSchedule or before, alike.
[[nodiscard]] std::optional<SettingError> CheckTogether(const Settings& settings);
// A step source and no schedule: sets the contract's schedule and returns true (say so).
bool ApplyDefaultSchedule(Settings* settings);
// Whether anything but the whole run or a command decides where a step begins.
[[nodiscard]] bool HasStepSource(const Settings& settings);
// `arm` with its default resolved: start with a schedule, else demand.
[[nodiscard]] ArmMode EffectiveArm(const Settings& settings);
// STEPAGENT_DISABLE: any value but "", "0", "off", "no" and "false" disables.
[[nodiscard]] bool IsDisabledValue(std::string_view value);
// nullptr: no such flag ("--schedule", "schedule"), alias ("-o") or variable.
[[nodiscard]] const SettingSpec* FindSetting(std::string_view name);
// The whole as flag name without dashes -> canonical text, for Hello.settings and session.json.
// Always valid UTF-8 (other bytes become U+FFFD). ApplySetting takes every text back.
[[nodiscard]] std::map<std::string, std::string> SettingsText(const Settings& settings);

// Shared parsers. Durations: "200ms", "5s", "2m", "1h", "100us", "7ns", "0"; a bare number is seconds.
[[nodiscard]] std::optional<uint64_t> ParseDuration(std::string_view text);
// "50M" (10^6), "2GiB", "64KiB", "1000".
[[nodiscard]] std::optional<uint64_t> ParseCount(std::string_view text);
// "USR2", "SIGUSR2", "RTMIN+10", "12", "none" (0).
[[nodiscard]] std::optional<int> ParseSignal(std::string_view text);
// "USR2", "RTMIN+10", "SEGV"; the number where there is no name, "none" for 0.
[[nodiscard]] std::string SignalText(int number);
[[nodiscard]] std::optional<ScheduleSetting> ParseSchedule(std::string_view text, std::string* why);
[[nodiscard]] std::optional<StepSetting> ParseStep(std::string_view text, std::string* why);
[[nodiscard]] const char* ActivityText(uint32_t activity);
// The longest value any setting takes.
inline constexpr size_t kMaxSettingBytes = 64 * 1024;
// The largest numbers of a schedule: skip_first + repeat * (wait + warmup + active) stays below 2^62.
inline constexpr uint64_t kMaxSkipFirst = 1'000'000'000'000'000;
inline constexpr uint64_t kMaxPhaseSteps = 1'000'000'000'000;
inline constexpr uint64_t kMaxRepeat = 1'000'000;

}  // namespace stepagent::proto
