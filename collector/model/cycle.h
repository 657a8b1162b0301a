#pragma once
// The canonical cycle: what one active window held, typed, interned, in ns of the session's clock.
//
// Purpose: the one thing every writer and every analysis reads. The model builder makes it from raw
// batches (or from a Kineto file); nothing downstream looks at the wire again.
// Thread rule: built by one thread, then immutable; readers may share it.
// Failure rule: plain data. What was absent is std::nullopt or an empty vector with a reason in
// `notes`, `gpu` or `kinds`; never a zero that stands for "unknown".
//
// Invariants after Finish():
//  1. calls, kernels, copies, sets, syncs, graph_launches are sorted by (begin_ns, longer first).
//  2. A device item's `step` is that of the call that launched it (correlation), never of its time.
//  3. Items with `placed == false` have impossible stamps: counted in balance.invalid, not drawn.
//  4. For each kind: produced = written + dropped + out_of_window + invalid.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stepagent::model {

using TimeNs = int64_t;
using StringId = uint32_t;             // index into Cycle::strings; 0 is ""
inline constexpr int32_t kNoStep = -1;  // outside every step
inline constexpr int32_t kNoIndex = -1;

enum class Activity : uint8_t {
  kNone, kKernel, kMemcpy, kMemset, kLaunch, kSync, kNvtx, kMemory, kOverhead, kCount
};
inline constexpr size_t kActivityCount = static_cast<size_t>(Activity::kCount);
// The name used in --activities, balance and kinds ("kernel", "memcpy" …).
[[nodiscard]] std::string_view ActivityName(Activity a);
[[nodiscard]] std::optional<Activity> ActivityFromName(std::string_view name);

enum class CallClass : uint8_t { kOther, kLaunch, kGraphLaunch, kMemcpy, kMemset, kSync, kAlloc };

struct Thread {
  uint32_t tid = 0;
  std::string name;
};

struct Call {
  TimeNs begin_ns = 0, end_ns = 0;
  uint32_t correlation = 0;   // as CUPTI gave it; unique within (session, generation) only
  uint32_t flow_id = 0;       // unique within this cycle; equals correlation where that is unique
  StringId name = 0;
  uint32_t cbid = 0;
  uint32_t thread = 0;        // index into Cycle::threads
  int32_t step = kNoStep;     // index into Cycle::steps
  int32_t stack = kNoIndex;   // index into Cycle::stacks
  int32_t return_value = 0;
  uint32_t device_items = 0;  // device records joined to it
  CallClass cls = CallClass::kOther;
  uint8_t domain = 0;         // 1 driver, 2 runtime
  bool failed : 1 = false, captured : 1 = false;
  bool empty : 1 = false;  // a copy or set of nothing, which reaches no device
};

struct Lane {  // one per (device, context, stream)
  int32_t device = 0;
  uint32_t context = 0;
  bool has_context = true;    // false: the trace file read does not tell
  uint64_t stream = 0;        // as CUPTI gave it
  uint32_t stream_index = 0;  // small and stable: what is shown; equals `stream` where it fits 31 bits
  uint32_t channel = 0, channel_type = 0;
};

struct Shape {  // what repeats about a kernel
  StringId name = 0;           // raw (mangled)
  StringId demangled = 0;      // equals name where it is not mangled
  std::array<uint32_t, 3> grid{}, block{}, cluster{};
  uint32_t registers_per_thread = 0, static_shared_bytes = 0, dynamic_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
  // False: the trace file read does not tell.
  bool has_grid = true, has_block = true, has_registers = true, has_shared = true;
};

struct DeviceItem {            // common to all device work
  TimeNs begin_ns = 0, end_ns = 0;
  uint32_t correlation = 0;
  uint32_t flow_id = 0;        // that of its call; 0: no launch seen
  int32_t call = kNoIndex;     // index into Cycle::calls
  int32_t step = kNoStep;
  uint32_t lane = 0;           // index into Cycle::lanes
  uint32_t graph_id = 0;
  uint64_t graph_node_id = 0;
  bool placed = true;
  // Its begin is to be believed, its end perhaps not: enough to tell whose window it fell into.
  bool has_begin = true;
  bool has_end = true;  // false: a forced flush came before the work was over
};
struct Kernel : DeviceItem {
  uint32_t shape = 0;          // index into Cycle::shapes
};
struct Copy : DeviceItem {
  uint64_t bytes = 0;
  bool has_bytes = true;  // false: the trace file read does not tell
  uint64_t pieces = 1;
  uint8_t copy_kind = 0, source_kind = 0, target_kind = 0;  // CUPTI's numbers
  int32_t source_device = -1, target_device = -1;           // peer copies
  bool is_async = false;
};
struct Set : DeviceItem {
  uint64_t bytes = 0;
  bool has_bytes = true;  // false: the trace file read does not tell
  uint32_t value = 0;
  uint8_t memory_kind = 0;
};
struct GraphLaunch : DeviceItem {};   // graph level: one record per launch
struct Sync {                         // CUPTI's record, on the session's clock
  TimeNs begin_ns = 0, end_ns = 0;
  bool placed = true;  // false: impossible stamps; never in a cycle
  uint32_t correlation = 0;
  int32_t call = kNoIndex;
  int32_t step = kNoStep;
  uint8_t type = 0;                   // 1 event 2 stream wait event 3 stream 4 context
  uint32_t context = 0;
  std::optional<uint64_t> stream;
  uint32_t event = 0;
  int32_t device = -1;
};

struct Range {                        // push/pop and start/end
  TimeNs begin_ns = 0, end_ns = 0;
  StringId name = 0, domain = 0;
  uint32_t category = 0, color = 0;
  uint32_t thread = 0, end_thread = 0;
  uint32_t depth = 0;                 // push/pop: nesting within (thread, domain); start/end: 0
  int32_t step = kNoStep;
  bool is_start_end = false;
  bool cut_at_begin = false, cut_at_end = false;  // open when the window began / ended
  bool is_step_range = false;         // the step's own range
};
struct Mark {
  TimeNs at_ns = 0;
  StringId name = 0, domain = 0;
  uint32_t category = 0, color = 0, thread = 0;
  int32_t step = kNoStep;
};
struct Overhead {
  TimeNs begin_ns = 0, end_ns = 0;
  uint32_t kind = 0;
  uint32_t tid = 0;
};
struct MemoryEvent {
  TimeNs at_ns = 0;
  uint64_t address = 0, bytes = 0;
  uint32_t operation = 0, memory_kind = 0, correlation = 0;
  int32_t device = -1;
  int32_t step = kNoStep;
};
struct Frame {
  enum class Kind : uint8_t { kNative = 1, kPython = 2 };
  Kind kind = Kind::kNative;
  StringId module = 0, name = 0;
  StringId source = 0;   // its source file; 0 not known
  uint64_t address = 0;  // within the module
  uint32_t line = 0;
  std::string build_id;
};

struct Step {
  uint64_t index = 0;          // from 0 at arming
  uint64_t process_index = 0;
  TimeNs begin_ns = 0, end_ns = 0;
  uint32_t thread = 0;
  bool complete = true;        // ended by its own range, all its work has records
  bool ended = true;           // by its own range: its host time is known, whatever its work's is
  bool contains_tracer_start = false;
  bool partial = false;        // device part begins only when arming ended
  // Counted by the builder; nullopt where the device was not collected.
  uint64_t launches = 0;       // kernel and graph launches, failed and captured ones included
  std::optional<uint64_t> kernels, copies, sets;
};

struct Balance {
  std::optional<uint64_t> produced, written, dropped, out_of_window, invalid;
};
struct KindStatus {
  bool requested = false, enabled = false;
  std::optional<uint64_t> observed;
  std::string error;           // "" none
};
struct Gpu {
  std::string status = "unavailable";  // collected partial unavailable
  std::string reason, reason_code;
  uint32_t driver_version = 0, cupti_version = 0;
  std::string cupti_path, cupti_choice, graph_level, holder;
  bool newer_cupti = false;
  // Collection failed on the way; what was never on is another matter, and `kinds` tells it.
  [[nodiscard]] static bool WasCutShort(std::string_view status, std::string_view reason_code) {
    return status == "partial" && reason_code != "kinds_missing";
  }
  [[nodiscard]] bool WasCutShort() const { return WasCutShort(status, reason_code); }
};
struct DeviceInfo {
  int32_t ordinal = 0;
  std::string name;
  std::string uuid;            // GPU-xxxxxxxx-…; "" unknown
  uint64_t memory_bytes = 0, memory_bandwidth_kbps = 0;
  uint32_t multiprocessors = 0, compute_major = 0, compute_minor = 0, clock_khz = 0, warp_size = 0,
           max_threads_per_block = 0, max_threads_per_multiprocessor = 0, registers_per_block = 0,
           registers_per_multiprocessor = 0, shared_per_block = 0, shared_per_multiprocessor = 0,
           shared_per_block_optin = 0;
};
struct Note {
  std::string code, text;
};
struct Joins {
  std::optional<uint64_t> launches, failed, captured, launches_without_device_work,
      device_work_without_launch;
};
struct OutsideSteps {
  uint64_t launches = 0;
  std::optional<uint64_t> kernels, copies, sets;
};
struct StepDuration {
  uint64_t index = 0;
  uint64_t dur_ns = 0;
  uint8_t collecting = 0;      // 0 not, 1 warmup, 2 active, 3 finishing
};
struct AllSteps {
  uint64_t count = 0;
  std::vector<StepDuration> each;
};
struct LaterSteps {            // what came to be known when a cycle had been given already
  uint32_t cycle = 0;
  AllSteps all_steps;          // as far as they are known now
  std::optional<uint64_t> until;  // by process index: where the next cycle's collection began
  std::string why_none;        // why steps behind the cycle were not told; "" they were
};
struct AgentCost {             // measured by the agent; nullopt where not measured
  std::optional<uint64_t> callback_ns, callbacks, arm_wait_ns, arm_ns, drain_cpu_ns, host_bytes,
      device_flush_age_ns;
  // By the collector: what raw.steps grew by from the cycle's begin (warmup) to its end.
  std::optional<uint64_t> raw_bytes;
};
struct NameCount {
  std::string name, domain;
  uint64_t count = 0;
  uint64_t registered = 0;  // of count: begun with a registered string
};
struct ScheduleSpec {
  uint64_t skip_first = 0, wait = 0, warmup = 0, active = 1, repeat = 0;
  bool skip_first_wait = false;
};
struct SessionInfo {
  std::string id, run, host, exe, exe_path, title, rank_source, agent_version;
  std::vector<std::string> argv;
  uint32_t pid = 0;
  int32_t rank = -1, world_size = -1, local_rank = -1;
  std::optional<std::string> cuda_visible_devices;
  int64_t base_unix_ns = 0;    // CLOCK_REALTIME at session clock 0
  std::string clock_host;      // tsc cntvct monotonic
  std::map<std::string, std::string> labels, settings;
  std::optional<ScheduleSpec> schedule;
  std::string step_source, step_extent;
  std::vector<std::string> formats, redact, activities, require;
};

struct TracePart {
  uint64_t number = 0, of = 0;  // from 1
};

struct Cycle {
  SessionInfo session;
  // Read from a trace file of Kineto's form, which has no place for what a call returned, the value
  // of a set and a kernel's local memory, and tells static and dynamic shared memory as one sum
  // (kept as dynamic_shared_bytes).
  bool is_from_trace = false;
  // False: nobody said whether the cycle is complete and how it ended, or so of its steps.
  bool tells_end = true, tells_step_flags = true;
  std::optional<TracePart> part;  // of a trace cut into several files, one of which was read
  uint32_t index = 0;
  bool complete = false;       // all planned active steps ran and the device tail was collected
  std::string ended = "killed";  // schedule signal request exit killed limit error
  std::string reason;
  // Killed under `stepagent run`, which saw how: one of the two.
  std::optional<uint32_t> killed_by_signal, exit_status;
  TimeNs window_begin_ns = 0, window_end_ns = 0;  // host: first active begin, last active end

  std::vector<std::string> strings{std::string()};
  std::vector<Thread> threads;
  std::vector<Lane> lanes;
  std::vector<Shape> shapes;
  std::vector<Step> steps;     // active steps only
  std::vector<Call> calls;     // outermost calls, activity launch and sync (and alloc where asked)
  std::vector<Kernel> kernels;
  std::vector<Copy> copies;
  std::vector<Set> sets;
  std::vector<GraphLaunch> graph_launches;
  std::vector<Sync> syncs;
  std::vector<Range> ranges;
  std::vector<Mark> marks;
  std::vector<Overhead> overheads;
  std::vector<MemoryEvent> memories;
  std::vector<std::vector<Frame>> stacks;  // leaf first
  std::vector<DeviceInfo> devices;

  Gpu gpu;
  std::array<KindStatus, kActivityCount> kinds{};
  std::array<Balance, kActivityCount> balance{};
  Joins joins;
  OutsideSteps outside_steps;
  AllSteps all_steps;
  std::string why_no_later_steps;  // why none behind the cycle are in all_steps; "" not told
  AgentCost cost;
  std::vector<NameCount> top_ranges;
  uint64_t overlapping_steps = 0;
  std::optional<uint64_t> device_residual_ns;
  // The wall clock at the cycle's end less base_unix_ns and the session's clock; known to that
  // error.
  std::optional<int64_t> wall_offset_ns;
  std::optional<uint64_t> wall_error_ns;
  std::vector<Note> notes;

  [[nodiscard]] std::string_view Text(StringId id) const {
    return id < strings.size() ? std::string_view(strings[id]) : std::string_view();
  }
  [[nodiscard]] bool HostOnly() const { return gpu.status == "unavailable"; }
  // Launches are seen by CUPTI's callbacks: where those were not on, their number is not known.
  [[nodiscard]] bool SeesLaunches() const {
    return !HostOnly() && kinds[static_cast<size_t>(Activity::kLaunch)].enabled;
  }
};

}  // namespace stepagent::model
