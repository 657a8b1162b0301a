// The table of settings, a row each, and of the variables that are none.
#include <algorithm>

#include "proto/redaction.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

using S = const Settings&;
using Rows = std::vector<SettingRow>;

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

// Half of it is the program itself and what waits to be taken in.
constexpr uint64_t kLeastCollectorMemory = uint64_t{64} << 20;

bool CollectorMemory(std::string_view value, Settings* settings, std::string* why) {
  const auto bytes = ParseCount(value);
  if (!bytes) return Fail(why, "no number of bytes");
  if (*bytes != 0 && *bytes < kLeastCollectorMemory) return Fail(why, "too little");
  settings->collector_memory = *bytes;
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

// What is a step, and when recording goes on.
Rows StepRows() {
  return {
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
  };
}

// What is recorded, and as what.
Rows RecordRows() {
  return {
      {{"--out", "-o", "STEPAGENT_OUT", "DIR", "stepagent-traces", "a directory",
        "Where the runs go; made absolute at process start, created when first needed.", false},
       Out,
       [](S s) { return s.out; }},
      {{"--formats", nullptr, "STEPAGENT_FORMATS", "LIST", "chrome",
        "a list of chrome perfetto sqlite html folded pprof", "Formats of the traces.", false},
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
      {{"--stacks", nullptr, "STEPAGENT_STACKS", "KIND", "none", "none, native",
        "Call stacks at each launch, for folded and pprof (native: C and C++ frames, by "
        "libunwind).",
        false},
       Stacks,
       [](S s) { return std::string(s.native_stacks ? "native" : "none"); }},
  };
}

// Who records, what it is called, and where it goes.
Rows IdentityRows() {
  return {
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
  };
}

// How much at most.
Rows CapRows() {
  return {
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
        "The most JSON text of one Chrome trace, or bytes of one Perfetto trace; more is cut into "
        "parts "
        "where a step begins.",
        false},
       Count<&Settings::max_trace_bytes>,
       [](S s) { return BytesText(s.max_trace_bytes); }},
      {{"--ring-memory", nullptr, "STEPAGENT_RING_MEMORY", "BYTES", "256MiB",
        "a number of bytes (256MiB, 1GiB); 0 is none",
        "The most memory for enlarging the buffers of threads that record faster than they are "
        "emptied, 12 MiB each.",
        false},
       Count<&Settings::ring_memory>,
       [](S s) { return BytesText(s.ring_memory); }},
      {{"--collector-memory", nullptr, "STEPAGENT_COLLECTOR_MEMORY", "BYTES", "256MiB",
        "64MiB or more (256MiB, 1GiB); 0 is no bound",
        "The most memory a run's own collector may take; a cycle that needs more is written at the "
        "end of the run, or when its session is read.",
        false},
       CollectorMemory,
       [](S s) { return BytesText(s.collector_memory); }},
  };
}

// How long others may be held, and what is said.
Rows PatienceRows() {
  return {
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

// In the order of the contract's table. Leaked: no destructor runs at the target's exit, when its
// other threads may still be here.
const Rows* MakeRows() {
  auto* rows = new Rows;
  for (Rows (*const group)() : {StepRows, RecordRows, IdentityRows, CapRows, PatienceRows}) {
    Rows more = group();
    std::move(more.begin(), more.end(), std::back_inserter(*rows));
  }
  return rows;
}

constexpr VariableSpec kOtherVariables[] = {
    {kDisableVariable, "=1",
     "the library does nothing at all (`0`, `no`, `off`, `false` and empty: as if unset)"},
    {"STEPAGENT_RUNTIME_DIR", "",
     "absolute folder of the control sockets; else `$XDG_RUNTIME_DIR/stepagent`, else abstract "
     "names"},
    {"STEPAGENT_LIB", "", "the `libstepagent.so` that `stepagent run` preloads"},
    {"STEPAGENT_CUPTI", "",
     "the CUPTI library to use, or a folder that holds one, before any that is found "
     "(docs/cupti.md "
     "has the order)"},
    {kRunVariable, "",
     "id of the run and name of its folder, one for a whole process tree; `run` makes one and "
     "keeps one that is set. Letters, digits, `_`, `-` and `.`, at most 64, not beginning with `-` "
     "or `.`; not `latest`, the link to the newest run"},
    {kRedactKeyVariable, "",
     "any text: the key of the hashes that `--redact` leaves, to compare names of several runs; "
     "`run` makes one for each run"},
    {kRunModeVariable, "", "what `run` tells the library; not to be set by hand"},
    {kRunLauncherVariable, "",
     "process id of `stepagent run`, for its child; not to be set by hand"},
};

}  // namespace

const std::vector<SettingRow>& SettingRows() {
  static const Rows* const kRows = MakeRows();
  return *kRows;
}

std::span<const VariableSpec> OtherVariables() { return kOtherVariables; }

}  // namespace stepagent::proto
