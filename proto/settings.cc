#include "proto/settings.h"

#include <algorithm>

#include "proto/redaction.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

// The part of a value that an error line shows.
constexpr size_t kShownValueBytes = 80;

template <typename Field>
using FieldPointer = Field Settings::*;

template <FieldPointer<uint64_t> kField>
bool Duration(std::string_view value, Settings* settings, std::string* why) {
  const auto ns = ParseDuration(value);
  if (!ns) return Fail(why, "no duration");
  settings->*kField = *ns;
  return true;
}

template <FieldPointer<uint64_t> kField>
bool Count(std::string_view value, Settings* settings, std::string* why) {
  const auto count = ParseCount(value);
  if (!count) return Fail(why, "no count");
  settings->*kField = *count;
  return true;
}

bool Extent(std::string_view value, Settings* settings, std::string* why) {
  if (value != "range" && value != "period") return Fail(why, "not known");
  settings->step_extent = value == "range" ? StepExtent::kRange : StepExtent::kPeriod;
  return true;
}

bool Arm(std::string_view value, Settings* settings, std::string* why) {
  if (value == "start")
    settings->arm = ArmMode::kStart;
  else if (value == "demand")
    settings->arm = ArmMode::kDemand;
  else if (value == "cudaProfilerApi")
    settings->arm = ArmMode::kCudaProfilerApi;
  else
    return Fail(why, "not known");
  return true;
}

std::string ArmText(const Settings& settings) {
  switch (EffectiveArm(settings)) {
    case ArmMode::kStart:
      return "start";
    case ArmMode::kCudaProfilerApi:
      return "cudaProfilerApi";
    default:
      return "demand";
  }
}

bool Out(std::string_view value, Settings* settings, std::string*) {
  settings->out = std::string(value);
  return true;
}

bool Graph(std::string_view value, Settings* settings, std::string* why) {
  if (value != "graph" && value != "node") return Fail(why, "not known");
  settings->graph = value == "graph" ? GraphLevel::kGraph : GraphLevel::kNode;
  return true;
}

bool Stacks(std::string_view value, Settings* settings, std::string* why) {
  if (value != "none" && value != "native") return Fail(why, "not known");
  settings->native_stacks = value == "native";
  return true;
}

constexpr const char* kDurationAllowed = "a duration (100ms, 5s, 2m); 0 is none";
constexpr const char* kCountAllowed = "a count (1000, 50M); 0 is none";

// One row per setting, in the order of the contract's table. Leaked: no destructor runs at the
// target's exit, when its other threads may still be here.
const std::vector<SettingRow>* MakeRows() {
  using S = const Settings&;
  return new std::vector<SettingRow>{
      {{"--schedule", nullptr, "STEPAGENT_SCHEDULE", "KEY=N,…", "none",
        "skip_first=N,wait=N,warmup=N,active=N,repeat=N,skip_first_wait=0|1 in any order, active "
        "at "
        "least 1 and given",
        "Which steps are recorded, counted as torch.profiler.schedule counts them; repeat=0 goes "
        "on "
        "until the end, within --max-traces. Needs a step source.",
        false},
       ParseScheduleInto,
       [](S s) { return s.schedule ? s.schedule->Text() : "none"; }},
      {{"--step", nullptr, "STEPAGENT_STEP", "SOURCE", "none",
        "nvtx:NAME[@DOMAIN], nvtx-glob:PATTERN[@DOMAIN], every:DURATION (1ms or more), signal, "
        "none",
        "What is one step. NAME is the whole text of the range, PATTERN takes * and ?; without "
        "@DOMAIN the default domain, @* any domain; \\@ and \\\\ stand for @ and \\. With a step "
        "source and no schedule: skip_first=10,wait=5,warmup=2,active=3,repeat=1.",
        false},
       ParseStepInto,
       [](S s) { return s.step.Text(); }},
      {{"--step-extent", nullptr, "STEPAGENT_STEP_EXTENT", "EXTENT", "range", "range, period",
        "range: from the begin to the end of the range; period: from a begin to the next begin, as "
        "torch.profiler's step().",
        false},
       Extent,
       [](S s) { return std::string(s.step_extent == StepExtent::kRange ? "range" : "period"); }},
      {{"--arm", nullptr, "STEPAGENT_ARM", "WHEN", "", "start, demand, cudaProfilerApi",
        "start: the schedule counts from the first step; demand: from the next step after a signal "
        "or `stepagent start`; cudaProfilerApi: between cudaProfilerStart and cudaProfilerStop. "
        "Default: start under `run` or with a schedule, else demand.",
        false},
       Arm,
       ArmText},
      {{"--signal", nullptr, "STEPAGENT_SIGNAL", "SIGNAL", "USR2",
        "a signal's name (USR2, RTMIN+10) or number, none; no fault, KILL, STOP or CHLD",
        "The signal that toggles capture. Taken only where its disposition is the default; a "
        "handler of the application's own wins. Given by name it is installed at process start, "
        "else at the first CUDA or NVTX use.",
        false},
       ParseSignalInto,
       [](S s) { return SignalText(s.signal_number); }},
      {{"--out", "-o", "STEPAGENT_OUT", "DIR", "stepagent-traces", "a directory",
        "Where the runs go; made absolute at process start, created when first needed.", false},
       Out,
       [](S s) { return s.out; }},
      {{"--formats", nullptr, "STEPAGENT_FORMATS", "LIST", "chrome",
        "a list of chrome perfetto sqlite html folded pprof",
        "Formats of the traces.", false},
       ParseFormatsInto,
       [](S s) { return JoinWords(s.formats); }},
      {{"--activities", nullptr, "STEPAGENT_ACTIVITIES", "LIST",
        "kernel,memcpy,memset,launch,sync,nvtx,overhead",
        "a list of kernel memcpy memset launch sync nvtx memory overhead, or +x,-y on top of the "
        "default, or none",
        "What is recorded. none times steps only.", false},
       ParseActivitiesInto,
       [](S s) { return ActivitiesText(s.activities); }},
      {{"--require", nullptr, "STEPAGENT_REQUIRE", "LIST", "none",
        "a list of kernel memcpy memset launch sync nvtx memory overhead",
        "Kinds that must be collectable: `start` is refused otherwise, and `run` ends with 125 if "
        "the application itself ended with 0.",
        false},
       ParseRequireInto,
       [](S s) { return ActivitiesText(s.require); }},
      {{"--graph", "--cuda-graph-trace", "STEPAGENT_GRAPH", "LEVEL", "graph", "graph, node",
        "CUDA graphs as one record per launch (graph) or per kernel (node).", false},
       Graph,
       [](S s) { return std::string(s.graph == GraphLevel::kGraph ? "graph" : "node"); }},
      {{"--stacks", nullptr, "STEPAGENT_STACKS", "KIND", "none",
        "none, native",
        "Call stacks at each launch, for folded and pprof (native: C and C++ frames, by libunwind).",
        false},
       Stacks,
       [](S s) { return std::string(s.native_stacks ? "native" : "none"); }},
      {{"--label", nullptr, "STEPAGENT_LABELS", "K=V", "none",
        "K=V[,K=V…], a comma in it as \\,, a backslash as \\\\",
        "Shown at the head of every report and compared by `diff`; samples_per_step=N gives "
        "examples per second. May be given several times.",
        true},
       ParseLabelsInto,
       LabelsText},
      {{"--redact", nullptr, "STEPAGENT_REDACT", "LIST", "none",
        "a list of paths names args hosts, none",
        "Texts that leave the program as keyed hashes only; see docs/privacy.md.", false},
       ParseRedactInto,
       [](S s) { return JoinWords(s.redact); }},
      {{"--ranks", nullptr, "STEPAGENT_RANKS", "LIST", "all", "a list of ranks (0,3,8-15), all",
        "Only these ranks record.", false},
       ParseRanksInto,
       RanksText},
      {{"--collector", nullptr, "STEPAGENT_COLLECTOR", "SOCKET", "auto",
        "the path of a collector's socket (at most 107 bytes), auto",
        "A running collector, whose --out then wins; auto starts one per run and host at the first "
        "warmup.",
        false},
       ParseCollectorInto,
       [](S s) { return s.collector; }},
      {{"--max-window", nullptr, "STEPAGENT_MAX_WINDOW", "DURATION", "120s", kDurationAllowed,
        "The longest one cycle may record.", false},
       Duration<&Settings::max_window_ns>,
       [](S s) { return DurationText(s.max_window_ns); }},
      {{"--max-records", nullptr, "STEPAGENT_MAX_RECORDS", "COUNT", "50M", kCountAllowed,
        "The most records of one cycle.", false},
       Count<&Settings::max_records>,
       [](S s) { return CountText(s.max_records); }},
      {{"--max-traces", nullptr, "STEPAGENT_MAX_TRACES", "COUNT", "100", kCountAllowed,
        "The most cycles of a run.", false},
       Count<&Settings::max_traces>,
       [](S s) { return CountText(s.max_traces); }},
      {{"--max-bytes", nullptr, "STEPAGENT_MAX_BYTES", "BYTES", "2GiB",
        "a number of bytes (2GiB, 500MB); 0 is none", "The most bytes a run may write.", false},
       Count<&Settings::max_bytes>,
       [](S s) { return BytesText(s.max_bytes); }},
      {{"--max-trace-bytes", nullptr, "STEPAGENT_MAX_TRACE_BYTES", "BYTES", "384MiB",
        "a number of bytes (384MiB, 100MB); 0 is none",
        "The most JSON text of one Chrome trace; more is cut into parts where a step begins.",
        false},
       Count<&Settings::max_trace_bytes>,
       [](S s) { return BytesText(s.max_trace_bytes); }},
      {{"--arm-wait", nullptr, "STEPAGENT_ARM_WAIT", "DURATION", "100ms", kDurationAllowed,
        "The longest a first active step may be held until collection is on.", false},
       Duration<&Settings::arm_wait_ns>,
       [](S s) { return DurationText(s.arm_wait_ns); }},
      {{"--exit-wait", nullptr, "STEPAGENT_EXIT_WAIT", "DURATION", "2s", kDurationAllowed,
        "The longest the exit with a cycle open may be held.", false},
       Duration<&Settings::exit_wait_ns>,
       [](S s) { return DurationText(s.exit_wait_ns); }},
      {{"--log", nullptr, "STEPAGENT_LOG", "LEVEL[:FILE]", "warn",
        "off, error, warn, info or debug, with :FILE if it is not for stderr",
        "What the agent says; info prints each change of phase.", false},
       ParseLogInto,
       LogText},
  };
}

// Ours, but no settings: see settings.h.
bool IsInternalVariable(std::string_view name) {
  return name == kDisableVariable || name == "STEPAGENT_RUNTIME_DIR" || name == "STEPAGENT_LIB" ||
         name == kRedactKeyVariable || name.starts_with(kRunVariable) ||
         name.starts_with("STEPAGENT_SIM_") || name.starts_with("STEPAGENT_TEST_");
}

// As it was given, if it was.
std::string TextOf(const Settings& settings, const char* name, std::string otherwise) {
  const auto given = settings.given.find(name);
  return given != settings.given.end() ? given->second : otherwise;
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

const std::vector<SettingRow>& SettingRows() {
  static const std::vector<SettingRow>* const kRows = MakeRows();
  return *kRows;
}

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
