#include "agent/drain/batch_builder.h"

#include <algorithm>
#include <cstring>

#include "agent/core/name_table.h"
#include "agent/drain/columns.h"
#include "agent/drain/cycle_report.h"
#include "agent/drain/device_rows.h"
#include "agent/drain/gate_rows.h"
#include "agent/drain/message_writer.h"
#include "agent/drain/redactor.h"
#include "agent/drain/stack_rows.h"
#include "proto/limits.h"

namespace stepagent::drain {
namespace {

enum : uint32_t {  // batch.proto Activity
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kLaunch = 4,
  kSync = 5,
  kNvtx = 6,
  kMemory = 7,
  kOverhead = 8
};

// Threads that began a step and have no ring (a timer's, or none yet) get an index of their own,
// above any ring's.
constexpr uint32_t kThreadWithoutRing = 0x80000000;

struct ThreadRow {
  uint32_t index, tid;
  char name[16];
};

}  // namespace

uint32_t ActivityOfCall(core::CallClass call_class) {
  switch (call_class) {
    case core::CallClass::kSync:
      return kSync;
    case core::CallClass::kAlloc:
      return kMemory;
    default:
      return kLaunch;
  }
}

uint32_t ActivityOfRecord(const core::Record& record) {
  return record.kind == core::RecordKind::kCall ? ActivityOfCall(record.call_class) : kNvtx;
}

struct BatchBuilder::Columns {
  explicit Columns(BatchIdentity id) : identity(std::move(id)) {}

  BatchIdentity identity;
  Redactor* redactor = nullptr;
  RecordColumns records;
  GateRows gate;
  DeviceRows devices;
  StackRows stacks;
  Dictionary<1> thread_index;
  std::vector<ThreadRow> threads;
  std::vector<std::string> notes, reports;  // encoded messages
  BatchContent content;
  uint64_t invalid[kActivityKinds] = {};
  bool has_device_rows = false;  // new ones since the last batch

  // Names this batch uses. A name is in it when its mark is the batch's generation.
  std::vector<uint32_t> names;
  std::vector<uint32_t> name_mark;
  uint32_t generation = 1;
  size_t name_bytes = 0;

  void UseName(core::NameId id) {
    if (id < name_mark.size() && name_mark[id] == generation) [[likely]]
      return;
    DeclareName(id);
  }
  void DeclareName(core::NameId id);
  void UseStack(uint32_t stack);
  void AddRedacted(uint32_t thread_index, const core::Record& range);
  void DeclareThread(uint32_t index, uint32_t tid, std::string_view name);
  uint32_t IndexOfTid(uint32_t tid);
  void WriteIdentity(BatchWriter* batch, uint32_t cycle) const;
  void WriteStrings(BatchWriter* batch) const;
  void WriteThreads(BatchWriter* batch) const;
  void Clear();
};

void BatchBuilder::Columns::DeclareName(core::NameId id) {
  // 0 is no name, 1 is the full table: both need no text. An id past the session's limit cannot be.
  if (id <= proto::kOverflowName || id > proto::kMaxStringsPerSession + 1) return;
  if (id >= name_mark.size()) name_mark.resize(std::max<size_t>(id + 1, name_mark.size() * 2), 0);
  name_mark[id] = generation;
  names.push_back(id);
  name_bytes += core::NameTable::Text(id).size() + 8;
}

void BatchBuilder::Columns::UseStack(uint32_t stack) {
  stacks.Use(stack, [this](core::NameId path) {
    const core::NameId told = redactor != nullptr ? redactor->StackFileId(path) : path;
    UseName(told);
    return told;
  });
}

void BatchBuilder::Columns::AddRedacted(uint32_t thread_index, const core::Record& range) {
  core::Record told = range;
  told.name = redactor->RangeId(range.name);
  told.domain = redactor->RangeId(range.domain);
  UseName(told.name);
  UseName(told.domain);
  const core::Record* one = &told;
  records.ranges.Add(thread_index, &one, 1);
}

void BatchBuilder::Columns::DeclareThread(uint32_t index, uint32_t tid, std::string_view name) {
  bool is_new;
  thread_index.Find({index}, &is_new);
  if (!is_new) return;
  ThreadRow row{.index = index, .tid = tid, .name = {}};
  if (redactor == nullptr) {
    name.copy(row.name, sizeof row.name - 1);
  } else {
    redactor->ThreadName(name).copy(row.name, sizeof row.name - 1);
  }
  threads.push_back(row);
}

uint32_t BatchBuilder::Columns::IndexOfTid(uint32_t tid) {
  for (const ThreadRow& row : threads) {
    if (row.tid == tid) return row.index;
  }
  DeclareThread(kThreadWithoutRing | tid, tid, "");
  return kThreadWithoutRing | tid;
}

void BatchBuilder::Columns::WriteIdentity(BatchWriter* batch, uint32_t cycle) const {
  protozero::pbf_builder<wire::Identity> message(*batch, wire::Batch::identity);
  PutText(&message, wire::Identity::run, identity.run);
  PutText(&message, wire::Identity::session, identity.session);
  PutText(&message, wire::Identity::host,
          redactor == nullptr ? identity.host : redactor->Host(identity.host));
  PutSigned(&message, wire::Identity::rank, identity.rank);
  PutUint(&message, wire::Identity::cycle, cycle);
}

void BatchBuilder::Columns::WriteStrings(BatchWriter* batch) const {
  if (names.empty()) return;
  protozero::pbf_builder<wire::Strings> message(*batch, wire::Batch::strings);
  message.add_packed_uint32(wire::Strings::id, names.begin(), names.end());
  for (const core::NameId id : names) {
    const std::string_view text = core::NameTable::Text(id);
    message.add_bytes(wire::Strings::text, text.data(), text.size());
  }
}

void BatchBuilder::Columns::WriteThreads(BatchWriter* batch) const {
  if (threads.empty()) return;
  protozero::pbf_builder<wire::Threads> message(*batch, wire::Batch::threads);
  // `index` and `tid` have no count beside them: given in full, zeros too.
  std::vector<uint32_t> values;
  for (const ThreadRow& row : threads) values.push_back(row.index);
  message.add_packed_uint32(wire::Threads::index, values.begin(), values.end());
  values.clear();
  for (const ThreadRow& row : threads) values.push_back(row.tid);
  message.add_packed_uint32(wire::Threads::tid, values.begin(), values.end());
  for (const ThreadRow& row : threads) {
    message.add_bytes(wire::Threads::name, row.name, std::strlen(row.name));
  }
}

void BatchBuilder::Columns::Clear() {
  records.Clear();
  gate.Clear();
  devices.Clear();
  stacks.Clear();
  thread_index.Clear();
  threads.clear();
  notes.clear();
  reports.clear();
  content = BatchContent{};
  has_device_rows = false;
  names.clear();
  name_bytes = 0;
  if (++generation == 0) {  // marks of 2^32 batches ago would look fresh
    std::fill(name_mark.begin(), name_mark.end(), 0);
    generation = 1;
  }
}

BatchBuilder::BatchBuilder(BatchIdentity identity) : columns_(new Columns(std::move(identity))) {}
BatchBuilder::~BatchBuilder() { delete columns_; }

void BatchBuilder::SetRedactor(Redactor* redactor) { columns_->redactor = redactor; }
const Redactor* BatchBuilder::redactor() const { return columns_->redactor; }

void BatchBuilder::AddThread(uint32_t index, uint32_t tid, std::string_view name) {
  columns_->DeclareThread(index, tid, name);
}

void BatchBuilder::AddRecord(uint32_t thread_index, const core::Record& record) {
  const core::Record* one = &record;
  const bool is_call = record.kind == core::RecordKind::kCall;
  is_call ? AddCalls(thread_index, &one, 1) : AddRanges(thread_index, &one, 1);
}

void BatchBuilder::AddCalls(uint32_t thread_index, const core::Record* const* calls,
                            uint32_t count) {
  if (count == 0) return;
  Columns& c = *columns_;
  for (uint32_t i = 0; i < count; ++i) {
    const core::Record& call = *calls[i];
    c.UseName(call.name);  // the API's: nobody's secret
    if (call.stack != 0) [[unlikely]]
      c.UseStack(call.stack);
    ++c.content.records[ActivityOfCall(call.call_class)];
  }
  c.records.calls.Add(thread_index, calls, count);
}

void BatchBuilder::AddRanges(uint32_t thread_index, const core::Record* const* entries,
                             uint32_t count) {
  if (count == 0) return;
  Columns& c = *columns_;
  c.content.records[kNvtx] += count;
  if (c.redactor != nullptr) {
    for (uint32_t i = 0; i < count; ++i) c.AddRedacted(thread_index, *entries[i]);
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    c.UseName(entries[i]->name);
    c.UseName(entries[i]->domain);
  }
  c.records.ranges.Add(thread_index, entries, count);
}

void BatchBuilder::WatchUnloads() { columns_->stacks.WatchUnloads(); }

void BatchBuilder::AddGateEvent(const core::GateEvent& event) { columns_->gate.Add(event); }

void BatchBuilder::AddClockSample(const core::HostClock::Sample& sample) {
  columns_->records.clock_samples.Add(sample);
}

void BatchBuilder::AddNote(uint32_t cycle, std::string_view code, std::string_view text) {
  std::string encoded;
  protozero::pbf_builder<wire::Note> message(encoded);
  PutUint(&message, wire::Note::cycle, cycle);
  PutText(&message, wire::Note::code, code);
  PutText(&message, wire::Note::text,
          columns_->redactor == nullptr ? std::string(text) : columns_->redactor->Sentence(text));
  columns_->notes.push_back(std::move(encoded));
}

void BatchBuilder::AddCycleEvent(uint32_t cycle, uint32_t kind, int64_t host_ns,
                                 std::string_view reason) {
  columns_->gate.AddCycleEvent(cycle, kind, host_ns, "", reason);
}

void BatchBuilder::AddCycleReport(std::string encoded) {
  columns_->reports.push_back(std::move(encoded));
}

void BatchBuilder::OnKernel(const core::KernelActivity& kernel) {
  ++columns_->content.records[kKernel];
  if (columns_->redactor == nullptr) {
    columns_->UseName(columns_->records.kernels.Add(kernel));
    return;
  }
  core::KernelActivity redacted = kernel;
  redacted.name = columns_->redactor->KernelId(kernel.name);
  columns_->UseName(columns_->records.kernels.Add(redacted));
}
void BatchBuilder::OnMemcpy(const core::MemcpyActivity& copy) {
  columns_->records.memcpys.Add(copy);
  ++columns_->content.records[kMemcpy];
}
void BatchBuilder::OnMemset(const core::MemsetActivity& set) {
  columns_->records.memsets.Add(set);
  ++columns_->content.records[kMemset];
}
void BatchBuilder::OnSync(const core::SyncActivity& sync) { columns_->records.syncs.Add(sync); }
void BatchBuilder::OnGraphLaunch(const core::GraphActivity& graph) {
  columns_->records.graph_launches.Add(graph);
  ++columns_->content.records[kKernel];
}
void BatchBuilder::OnOverhead(const core::OverheadActivity& overhead) {
  columns_->records.overheads.Add(overhead);
  ++columns_->content.records[kOverhead];
}
void BatchBuilder::OnMemory(const core::MemoryActivity& memory) {
  columns_->records.memories.Add(memory);
  ++columns_->content.records[kMemory];
}
void BatchBuilder::OnDevice(const core::DeviceActivity& device) {
  columns_->devices.Add(device);
  columns_->has_device_rows = true;
}
void BatchBuilder::OnContext(const core::ContextActivity& context) {
  columns_->devices.Add(context);
  columns_->has_device_rows = true;
}
void BatchBuilder::OnStream(const core::StreamActivity& stream) {
  columns_->devices.Add(stream);
  columns_->has_device_rows = true;
}
void BatchBuilder::OnInvalid(uint32_t activity) {
  ++columns_->invalid[activity < kActivityKinds ? activity : 0];
}

bool BatchBuilder::empty() const {
  const Columns& c = *columns_;
  return c.records.count() == 0 && c.gate.empty() && c.notes.empty() && c.reports.empty() &&
         !c.has_device_rows;
}

size_t BatchBuilder::approximate_bytes() const {
  const Columns& c = *columns_;
  size_t bytes = c.records.bytes() + c.gate.bytes() + c.name_bytes + c.threads.size() * 24 +
                 c.devices.bytes() + c.stacks.bytes() + 512;
  for (const auto* messages : {&c.notes, &c.reports}) {
    for (const std::string& message : *messages) bytes += message.size() + 6;
  }
  return bytes;
}

const BatchContent& BatchBuilder::content() const { return columns_->content; }
std::vector<uint32_t> BatchBuilder::DevicesInUse() const {
  return columns_->devices.DevicesInUse();
}
uint64_t BatchBuilder::invalid(uint32_t activity) const { return columns_->invalid[activity]; }

namespace {

void WriteGauges(const Gauges& gauges, BatchWriter* batch) {
  if (gauges.ring_bytes + gauges.ring_bytes_waiting + gauges.cupti_buffers == 0) return;
  protozero::pbf_builder<wire::Gauges> message(*batch, wire::Batch::gauges);
  PutUint(&message, wire::Gauges::ring_bytes, gauges.ring_bytes);
  PutUint(&message, wire::Gauges::ring_bytes_waiting, gauges.ring_bytes_waiting);
  PutUint(&message, wire::Gauges::cupti_buffers, gauges.cupti_buffers);
}

}  // namespace

std::string BatchBuilder::Finish(uint64_t sequence, int64_t host_ns, uint32_t cycle,
                                 const KindTotals (&totals)[kActivityKinds], const Gauges& gauges) {
  Columns& c = *columns_;
  // The steps' threads first: asking for their index may declare one.
  c.gate.EachThread([&c](uint32_t tid) { (void)c.IndexOfTid(tid); });
  std::string bytes;
  bytes.reserve(approximate_bytes() + 4096);
  BatchWriter batch(bytes);
  c.WriteIdentity(&batch, cycle);
  PutUint(&batch, wire::Batch::sequence, sequence);
  PutUint(&batch, wire::Batch::host_ns, host_ns > 0 ? static_cast<uint64_t>(host_ns) : 0);
  c.WriteStrings(&batch);
  c.WriteThreads(&batch);
  c.gate.WriteSteps(&batch, [&c](uint32_t tid) { return c.IndexOfTid(tid); });
  c.gate.WriteCycleEvents(&batch);
  c.records.WriteUpToClock(&batch);
  PutBytes(&batch, wire::Batch::losses, EncodeLossReport(totals));
  c.devices.Write(&batch);
  for (const std::string& note : c.notes) batch.add_message(wire::Batch::notes, note);
  for (const std::string& report : c.reports) {
    batch.add_message(wire::Batch::cycle_reports, report);
  }
  c.records.WriteMemories(&batch);
  c.stacks.Write(&batch);
  WriteGauges(gauges, &batch);
  c.Clear();
  return bytes;
}

}  // namespace stepagent::drain
