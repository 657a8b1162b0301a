#include "collector/writers/sqlite.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/sqlite_file.h"
#include "collector/writers/sqlite_schema.h"
#include "collector/writers/sqlite_stacks.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

constexpr int kPushPop = 59, kStartEnd = 60, kMark = 34, kDomainCreate = 75;
constexpr std::array<int, 8> kMemoryKinds = {7, 0, 1, 2, 3, 4, 5, 6};  // CUPTI's to these tables'

std::optional<uint64_t> NotZero(uint64_t value) {
  return value == 0 ? std::nullopt : std::optional(value);
}
// NULL, not '', where there is none.
std::optional<std::string> TextOrNone(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(ValidUtf8(text));
}
int MemoryKind(uint32_t cupti) { return kMemoryKinds[cupti < kMemoryKinds.size() ? cupti : 0]; }

class SqliteTrace {
 public:
  SqliteTrace(const model::Cycle& cycle, SqliteFile& file,
              const std::function<void(uint64_t, uint64_t)>& progress)
      : cycle_(cycle),
        file_(file),
        progress_(progress),
        global_pid_(int64_t{cycle.session.pid} << 24),
        string_of_(cycle.strings.size(), -1),
        short_of_(cycle.shapes.size(), -1) {
    total_ = cycle.kernels.size() + cycle.copies.size() + cycle.sets.size() + cycle.calls.size() +
             cycle.ranges.size() + cycle.syncs.size();
  }
  void Write() {
    file_.Run(kSqliteAlways);
    SqliteInsert strings(file_, "StringIds", 2);
    strings_ = &strings;
    Head();
    Enums();
    Cycle();
    Kernels();
    Copies();
    Sets();
    Graphs();
    Calls();
    Syncs();
    Nvtx();
    Rest();
    Indexes();
  }
  [[nodiscard]] uint64_t rows() const { return rows_; }

 private:
  int64_t Extra(const std::string& text) {
    const auto [it, is_new] = extra_.try_emplace(text, next_string_);
    if (is_new) (*strings_)(next_string_++, ValidUtf8(text));
    return it->second;
  }
  int64_t String(model::StringId id) {
    if (id >= string_of_.size()) return Extra("unknown");
    if (string_of_[id] < 0) {
      string_of_[id] = next_string_++;
      (*strings_)(string_of_[id], ValidUtf8(cycle_.strings[id]));
    }
    return string_of_[id];
  }
  int64_t Short(const model::Shape& shape, uint32_t index) {
    int64_t& known = short_of_[index];
    if (known < 0) {
      known =
          Extra(ShortKernelName(cycle_.Text(shape.demangled != 0 ? shape.demangled : shape.name)));
    }
    return known;
  }
  [[nodiscard]] int64_t GlobalTid(uint32_t thread) const {
    const uint32_t tid = thread < cycle_.threads.size() ? cycle_.threads[thread].tid : 0;
    return global_pid_ | (tid & 0xFFFFFF);
  }
  // NULL where a trace file did not tell.
  [[nodiscard]] SqliteKnown Known(uint64_t number) const {
    return {number, number != 0 || !cycle_.is_from_trace};
  }
  [[nodiscard]] SqliteKnown Correlation(const model::DeviceItem& item) const {
    return Known(item.flow_id != 0 ? item.flow_id : item.correlation);
  }
  [[nodiscard]] static SqliteKnown Context(const model::Lane& lane) {
    return {lane.context, lane.has_context};
  }
  void Count() {
    ++rows_;
    if (progress_ && rows_ % 65536 == 0) progress_(rows_, total_);
  }
  // Calls use(insert, item, lane) for each drawn item; the table is made where there are items.
  template <typename T, typename Use>
  void Work(const std::vector<T>& items, const char* create, const char* table, int columns,
            Use use) {
    if (items.empty()) return;
    file_.Run(create);
    SqliteInsert insert(file_, table, columns);
    for (const T& item : items) {
      if (!IsDrawn(cycle_, item)) continue;
      use(insert, item, cycle_.lanes[item.lane]);
      Count();
    }
  }
  void Head();
  void Devices();
  void Enums();
  void Cycle();
  void Steps();
  void Losses();
  void Kernels();
  void Copies();
  void Sets();
  void Graphs();
  void Calls();
  void Syncs();
  void Nvtx();
  void Rest();
  void Indexes();

  const model::Cycle& cycle_;
  SqliteFile& file_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  const int64_t global_pid_;
  SqliteInsert* strings_ = nullptr;
  int64_t next_string_ = 0;
  std::vector<int64_t> string_of_, short_of_;  // -1: not written yet
  std::map<std::string, int64_t> extra_;
  uint64_t rows_ = 0, total_ = 0;
};

void SqliteTrace::Head() {
  const model::SessionInfo& s = cycle_.session;
  SqliteInsert meta(file_, "META_DATA_EXPORT", 2);
  meta("PRODUCT_NAME", "stepagent");
  meta("PRODUCT_VERSION", TextOrNone(s.agent_version));
  meta("EXPORT_SCHEMA_VERSION", std::string(kSchemaMajor) + "." + std::string(kSchemaMinor) + "." +
                                    std::string(kSchemaMicro));
  meta("EXPORT_SCHEMA_VERSION_MAJOR", kSchemaMajor);
  meta("EXPORT_SCHEMA_VERSION_MINOR", kSchemaMinor);
  meta("EXPORT_SCHEMA_VERSION_MICRO", kSchemaMicro);
  SqliteInsert(file_, "TARGET_INFO_SESSION_START_TIME", 4)(s.base_unix_ns, std::nullopt,
                                                           std::nullopt, std::nullopt);
  SqliteInsert(file_, "ANALYSIS_DETAILS", 4)(0, cycle_.window_end_ns - cycle_.window_begin_ns,
                                             cycle_.window_begin_ns, cycle_.window_end_ns);
  SqliteInsert(file_, "PROCESSES", 3)(global_pid_, NotZero(s.pid),
                                      ValidUtf8(s.title.empty() ? s.exe : s.title));
  SqliteInsert threads(file_, "ThreadNames", 3);
  for (uint32_t i = 0; i < cycle_.threads.size(); ++i) {
    const std::string& name = cycle_.threads[i].name;
    if (!name.empty()) threads(Extra(name), std::nullopt, GlobalTid(i));
  }
  Devices();
}

void SqliteTrace::Devices() {
  SqliteInsert gpus(file_, "TARGET_INFO_GPU", 9), devices(file_, "TARGET_INFO_CUDA_DEVICE", 5);
  for (const model::DeviceInfo& d : cycle_.devices) {
    gpus(0, d.ordinal, ValidUtf8(d.name), NotZero(d.memory_bytes),
         NotZero(d.memory_bandwidth_kbps * 1000), NotZero(d.multiprocessors), TextOrNone(d.uuid),
         NotZero(d.compute_major), SqliteKnown{d.compute_minor, d.compute_major != 0});
    devices(d.ordinal, d.ordinal, cycle_.session.pid, TextOrNone(d.uuid),
            NotZero(d.multiprocessors));
  }
}

void SqliteTrace::Enums() {
  SqliteInsert copies(file_, "ENUM_CUDA_MEMCPY_OPER", 3), memory(file_, "ENUM_CUDA_MEM_KIND", 3);
  for (uint8_t i = 0; i <= 10; ++i) copies(i, CopyKindName(i), CopyKindName(i));
  std::map<int, std::string_view> kinds;
  for (uint8_t i = 0; i < kMemoryKinds.size(); ++i) kinds[MemoryKind(i)] = MemoryKindName(i);
  for (const auto& [id, name] : kinds) memory(id, name, name);
  SqliteInsert syncs(file_, "ENUM_CUPTI_SYNC_TYPE", 3), types(file_, "ENUM_NSYS_EVENT_TYPE", 3);
  for (uint8_t i = 0; i <= 4; ++i) syncs(i, SyncTypeName(i), SyncTypeName(i));
  types(kMark, "NvtxMark", "NVTX mark");
  types(kPushPop, "NvtxPushPopRange", "NVTX push/pop range");
  types(kStartEnd, "NvtxStartEndRange", "NVTX start/end range");
  types(kDomainCreate, "NvtxDomainCreate", "NVTX domain");
}

void SqliteTrace::Cycle() {
  const model::SessionInfo& s = cycle_.session;
  SqliteInsert(file_, "STEPAGENT_CYCLE", 18)(
      TextOrNone(s.id), TextOrNone(s.run), TextOrNone(s.host), NotZero(s.pid), TextOrNone(s.exe),
      s.rank < 0 ? std::nullopt : std::optional(s.rank),
      s.world_size < 0 ? std::nullopt : std::optional(s.world_size), cycle_.index,
      SqliteKnown{cycle_.complete, cycle_.tells_end},
      TextOrNone(cycle_.tells_end ? cycle_.ended : std::string()), TextOrNone(cycle_.reason),
      cycle_.window_begin_ns, cycle_.window_end_ns, s.base_unix_ns, cycle_.gpu.status,
      TextOrNone(cycle_.gpu.reason), TextOrNone(cycle_.gpu.graph_level),
      TextOrNone(s.step_source));
  Steps();
  Losses();
  SqliteInsert notes(file_, "STEPAGENT_NOTE", 2), labels(file_, "STEPAGENT_LABEL", 2);
  for (const model::Note& note : cycle_.notes) notes(note.code, ValidUtf8(note.text));
  for (const auto& [name, value] : s.labels) labels(ValidUtf8(name), ValidUtf8(value));
}

void SqliteTrace::Steps() {
  SqliteInsert insert(file_, "STEPAGENT_STEP", 12);
  const auto flag = [this](bool value) { return SqliteKnown{value, cycle_.tells_step_flags}; };
  for (const model::Step& step : cycle_.steps) {
    const SqliteKnown launches{step.launches, cycle_.SeesLaunches() && !step.partial};
    insert(step.index, step.begin_ns, std::max(step.begin_ns, step.end_ns), step.process_index,
           GlobalTid(step.thread), flag(step.complete), flag(step.contains_tracer_start),
           flag(step.partial), launches, step.kernels, step.copies, step.sets);
  }
}

void SqliteTrace::Losses() {
  SqliteInsert insert(file_, "STEPAGENT_LOSS", 6);
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    if (!cycle_.kinds[i].requested) continue;
    const model::Balance& b = cycle_.balance[i];
    insert(model::ActivityName(static_cast<model::Activity>(i)), b.produced, b.written, b.dropped,
           b.out_of_window, b.invalid);
  }
}

void SqliteTrace::Kernels() {
  const model::Shape unknown{.has_grid = false,
                             .has_block = false,
                             .has_registers = false,
                             .has_shared = false};
  const bool tells_all = !cycle_.is_from_trace;
  const auto known = [](uint64_t value, bool is_known) { return SqliteKnown{value, is_known}; };
  Work(cycle_.kernels, kKernelTable, "CUPTI_ACTIVITY_KIND_KERNEL", 32,
       [&](SqliteInsert& insert, const model::Kernel& k, const model::Lane& lane) {
         const bool is_known = k.shape < cycle_.shapes.size();
         const model::Shape& s = is_known ? cycle_.shapes[k.shape] : unknown;
         const bool is_mangled = s.demangled != 0 && s.demangled != s.name;
         const int64_t name =
             is_known ? String(s.demangled != 0 ? s.demangled : s.name) : Extra("unknown");
         insert(k.begin_ns, k.end_ns, lane.device, Context(lane), std::nullopt, lane.stream_index,
                Correlation(k), global_pid_, name, is_known ? Short(s, k.shape) : name,
                is_mangled ? std::optional(String(s.name)) : std::nullopt, std::nullopt,
                std::nullopt, known(s.registers_per_thread, s.has_registers),
                known(s.grid[0], s.has_grid), known(s.grid[1], s.has_grid),
                known(s.grid[2], s.has_grid), known(s.block[0], s.has_block),
                known(s.block[1], s.has_block), known(s.block[2], s.has_block),
                known(s.static_shared_bytes, tells_all), known(s.dynamic_shared_bytes, s.has_shared),
                known(s.local_bytes_per_thread, tells_all), known(0, tells_all),
                known(0, tells_all), std::nullopt, NotZero(k.graph_node_id),
                std::nullopt, NotZero(k.graph_id), NotZero(s.cluster[0]), NotZero(s.cluster[1]),
                NotZero(s.cluster[2]));
       });
}

void SqliteTrace::Copies() {
  Work(cycle_.copies, kCopyTable, "CUPTI_ACTIVITY_KIND_MEMCPY", 21,
       [&](SqliteInsert& insert, const model::Copy& c, const model::Lane& lane) {
         const auto device = [](int32_t d) { return d < 0 ? std::nullopt : std::optional(d); };
         insert(c.begin_ns, c.end_ns, lane.device, Context(lane), std::nullopt, lane.stream_index,
                Correlation(c), global_pid_, SqliteKnown{c.bytes, c.has_bytes}, c.copy_kind, std::nullopt,
                MemoryKind(c.source_kind), MemoryKind(c.target_kind), device(c.source_device),
                std::nullopt, device(c.target_device), std::nullopt, std::nullopt,
                NotZero(c.graph_node_id), std::nullopt, c.pieces);
       });
}

void SqliteTrace::Sets() {
  Work(cycle_.sets, kSetTable, "CUPTI_ACTIVITY_KIND_MEMSET", 12,
       [&](SqliteInsert& insert, const model::Set& s, const model::Lane& lane) {
         insert(s.begin_ns, s.end_ns, lane.device, Context(lane), std::nullopt, lane.stream_index,
                Correlation(s), global_pid_, SqliteKnown{s.value, !cycle_.is_from_trace},
                SqliteKnown{s.bytes, s.has_bytes}, NotZero(s.graph_node_id),
                MemoryKind(s.memory_kind));
       });
}

void SqliteTrace::Graphs() {
  Work(cycle_.graph_launches, kGraphTable, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", 8,
       [&](SqliteInsert& insert, const model::GraphLaunch& g, const model::Lane& lane) {
         insert(g.begin_ns, g.end_ns, lane.device, g.graph_id, Context(lane), lane.stream_index,
                Correlation(g), global_pid_);
       });
}

void SqliteTrace::Calls() {
  if (cycle_.calls.empty()) return;
  file_.Run(kRuntimeTable);
  SqliteInsert insert(file_, "CUPTI_ACTIVITY_KIND_RUNTIME", 8);
  for (const model::Call& call : cycle_.calls) {
    insert(call.begin_ns, std::max(call.begin_ns, call.end_ns), call.domain == 1 ? 1 : 0,
           GlobalTid(call.thread), Known(call.flow_id != 0 ? call.flow_id : call.correlation),
           String(call.name),
           cycle_.is_from_trace ? std::nullopt : std::optional(call.return_value), CallchainId(cycle_, call));
    Count();
  }
  rows_ += WriteCallchains(cycle_, file_, [this](const std::string& text) { return Extra(text); });
}

void SqliteTrace::Syncs() {
  if (cycle_.syncs.empty()) return;
  file_.Run(kSyncTable);
  SqliteInsert insert(file_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", 12);
  for (const model::Sync& sync : cycle_.syncs) {
    const int64_t stream = sync.stream ? static_cast<int64_t>(*sync.stream & 0xFFFFFFFF) : -1;
    const SqliteKnown device{static_cast<uint64_t>(sync.device), sync.device >= 0};
    insert(sync.begin_ns, std::max(sync.begin_ns, sync.end_ns), device,
           SqliteKnown{sync.context, sync.context != 0}, std::nullopt, stream,
           SqliteKnown{sync.correlation, sync.correlation != 0}, global_pid_, std::nullopt,
           sync.type, sync.event, std::nullopt);
    Count();
  }
}

void SqliteTrace::Nvtx() {
  if (cycle_.ranges.empty() && cycle_.marks.empty() && cycle_.steps.empty()) return;
  file_.Run(kNvtxTable);
  SqliteInsert insert(file_, "NVTX_EVENTS", 20);
  std::map<model::StringId, int64_t> domains{{0, 0}};
  const auto row = [&](int64_t begin, std::optional<int64_t> end, int type,
                       std::optional<uint64_t> category, std::optional<uint64_t> color,
                       std::optional<int64_t> tid, std::optional<int64_t> end_tid, int64_t text,
                       int64_t domain) {
    const auto none = std::nullopt;
    insert(begin, end, type, none, category, color, none, tid, end_tid, text, domain, none, none,
           none, none, none, none, none, none, none);
    Count();
  };
  std::set<model::StringId> named;
  for (const model::Range& range : cycle_.ranges) named.insert(range.domain);
  for (const model::Mark& mark : cycle_.marks) named.insert(mark.domain);
  for (const model::StringId id : named) {
    if (id == 0) continue;
    const auto number = static_cast<int64_t>(domains.size());
    domains[id] = number;
    row(cycle_.window_begin_ns, std::nullopt, kDomainCreate, std::nullopt, std::nullopt,
        std::nullopt, std::nullopt, String(id), number);
  }
  for (const model::Step& step : cycle_.steps) {
    row(step.begin_ns, std::max(step.begin_ns, step.end_ns), kPushPop, std::nullopt, std::nullopt,
        GlobalTid(step.thread), std::nullopt, Extra(StepName(step)), 0);
  }
  for (const model::Range& r : cycle_.ranges) {
    if (IsStepRow(cycle_, r)) continue;
    const bool is_plain = !ProfilerStepNumber(cycle_.Text(r.name));
    const auto end_tid = r.is_start_end ? std::optional(GlobalTid(r.end_thread)) : std::nullopt;
    row(r.begin_ns, std::max(r.begin_ns, r.end_ns), r.is_start_end ? kStartEnd : kPushPop,
        NotZero(r.category), NotZero(r.color), GlobalTid(r.thread), end_tid,
        is_plain ? String(r.name) : Extra(RangeName(cycle_, r)), domains.at(r.domain));
  }
  for (const model::Mark& m : cycle_.marks) {
    row(m.at_ns, std::nullopt, kMark, NotZero(m.category), NotZero(m.color), GlobalTid(m.thread),
        std::nullopt, String(m.name), domains.at(m.domain));
  }
}

void SqliteTrace::Rest() {
  if (!cycle_.overheads.empty()) {
    file_.Run(kOverheadTable);
    SqliteInsert insert(file_, "PROFILER_OVERHEAD", 4);
    for (const model::Overhead& o : cycle_.overheads) {
      insert(o.begin_ns, std::max(o.begin_ns, o.end_ns), global_pid_ | (o.tid & 0xFFFFFF),
             Extra(std::string(OverheadName(o.kind))));
      Count();
    }
  }
  if (cycle_.memories.empty()) return;
  file_.Run(kMemoryTable);
  SqliteInsert insert(file_, "CUDA_GPU_MEMORY_USAGE_EVENTS", 8);
  for (const model::MemoryEvent& m : cycle_.memories) {
    insert(m.at_ns, global_pid_, m.device, m.address, m.bytes, MemoryKind(m.memory_kind),
           m.operation, m.correlation);
    Count();
  }
}

void SqliteTrace::Indexes() {
  const auto has_table = [&](std::string_view table) {
    if (table == "CUPTI_ACTIVITY_KIND_KERNEL") return !cycle_.kernels.empty();
    if (table == "CUPTI_ACTIVITY_KIND_MEMCPY") return !cycle_.copies.empty();
    if (table == "CUPTI_ACTIVITY_KIND_MEMSET") return !cycle_.sets.empty();
    if (table == "CUPTI_ACTIVITY_KIND_RUNTIME") return !cycle_.calls.empty();
    return !cycle_.ranges.empty() || !cycle_.marks.empty() || !cycle_.steps.empty();
  };
  for (const auto& [table, column] : kSqliteIndexes) {
    const std::string t(table), c(column);
    if (has_table(table)) file_.Run("CREATE INDEX " + t + "_" + c + " ON " + t + " (" + c + ")");
  }
}

}  // namespace

WriteResult SqliteWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  SqliteFile file(target.cycle_dir + "/trace.sqlite");
  if (!file.ok()) return {false, file.error(), {}};
  uint64_t rows = 0;
  {
    // Its statements must be gone before the file is closed.
    SqliteTrace trace(cycle, file, target.progress);
    trace.Write();
    rows = trace.rows();
  }
  if (!file.Commit()) return {false, file.error(), {}};
  return {true, "", {{file.path(), "sqlite", file.bytes(), rows, file.sha256()}}};
}

}  // namespace stepagent::writers
