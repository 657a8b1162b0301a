#include "collector/writers/perfetto_host.h"

#include <algorithm>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

enum HostSource : uint8_t { kStep, kRange, kCall, kSync, kOverhead };

template <typename T, typename Use>
void EachDrawn(const model::Cycle& cycle, const std::vector<T>& items, Use use) {
  for (const T& item : items) {
    if (IsDrawn(cycle, item)) use(item);
  }
}

// In the order in which the device half numbers them.
template <typename Use>
void EachWork(const model::Cycle& cycle, Use use) {
  EachDrawn(cycle, cycle.kernels, use);
  EachDrawn(cycle, cycle.copies, use);
  EachDrawn(cycle, cycle.sets, use);
  EachDrawn(cycle, cycle.graph_launches, use);
}

}  // namespace

CallWork::CallWork(const model::Cycle& cycle) : begin_(cycle.calls.size() + 2, 0) {
  if (cycle.calls.empty()) return;
  const auto has_call = [&](const model::DeviceItem& item) {
    return item.call >= 0 && static_cast<size_t>(item.call) < cycle.calls.size();
  };
  EachWork(cycle, [&](const model::DeviceItem& item) {
    if (has_call(item)) ++begin_[static_cast<size_t>(item.call) + 2];
  });
  for (size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  events_.resize(begin_.back());
  uint32_t event = 0;
  EachWork(cycle, [&](const model::DeviceItem& item) {
    ++event;
    if (has_call(item)) events_[begin_[static_cast<size_t>(item.call) + 1]++] = event;
  });
}

PerfettoHost::PerfettoHost(const model::Cycle& cycle, PerfettoPackets& packets)
    : cycle_(cycle),
      packets_(packets),
      out_(packets.out()),
      work_(cycle),
      stacks_(cycle, packets),
      name_iids_(cycle.strings.size(), 0) {
  BuildWalk();
}

uint32_t PerfettoHost::AddRow(Row row) {
  rows_.push_back(std::move(row));
  return static_cast<uint32_t>(rows_.size() - 1);
}

uint32_t PerfettoHost::ThreadRow(uint32_t thread) {
  const bool is_known = thread < cycle_.threads.size();
  const uint32_t tid = is_known ? cycle_.threads[thread].tid : 0;
  const auto [it, is_new] = thread_rows_.try_emplace(tid, 0);
  if (is_new) {
    Row row{.role = "thread", .name = "unknown thread", .number = tid};
    row.parent = packets_.process_uuid();
    row.is_thread = is_known && tid != 0;
    row.tid = tid;
    if (is_known) row.name = cycle_.threads[thread].name;
    it->second = AddRow(std::move(row));
  } else if (is_known && rows_[it->second].name.empty()) {
    rows_[it->second].name = cycle_.threads[thread].name;
  }
  return it->second;
}

uint32_t PerfettoHost::RangeRow(const model::Range& range) {
  const uint32_t thread_row = ThreadRow(range.thread);
  if (!range.is_start_end) return thread_row;
  const auto [it, is_new] = range_rows_.try_emplace({thread_row, range.domain}, 0);
  if (is_new) {
    const std::string domain(cycle_.Text(range.domain));
    const Row& thread = rows_[thread_row];
    Row row{.role = "start/end " + domain, .number = thread.number};
    row.name = "NVTX start/end" + (domain.empty() ? "" : " (" + domain + ")");
    row.parent = packets_.TrackUuid(thread.role, thread.number);
    it->second = AddRow(std::move(row));
  }
  return it->second;
}

uint32_t PerfettoHost::SyncRow(const model::Sync& sync) {
  const int64_t stream = sync.stream ? static_cast<int64_t>(*sync.stream & INT64_MAX) : -1;
  const auto [it, is_new] = sync_rows_.try_emplace({sync.device, sync.context, stream}, 0);
  if (is_new) {
    Row row{.role = "sync", .number = sync_rows_.size()};
    row.name = stream < 0 ? "Waits, context " + std::to_string(sync.context)
                          : "Waits, stream " + std::to_string(stream);
    if (sync.device >= 0) row.name += ", GPU " + std::to_string(sync.device);
    row.parent = packets_.process_uuid();
    it->second = AddRow(std::move(row));
  }
  return it->second;
}

uint32_t PerfettoHost::OverheadRow(uint32_t tid) {
  const auto [it, is_new] = overhead_rows_.try_emplace(tid, 0);
  if (is_new) {
    Row row{.role = "overhead", .number = tid};
    row.name = "CUPTI overhead, thread " + std::to_string(tid);
    row.parent = packets_.process_uuid();
    it->second = AddRow(std::move(row));
  }
  return it->second;
}

void PerfettoHost::BuildWalk() {
  Row steps{.role = "steps", .name = "Steps"};
  steps.parent = packets_.process_uuid();
  step_row_ = AddRow(std::move(steps));
  const auto on = [](uint32_t row, RowItem* item) {
    item->row = row;
    item->begin_ns = std::max<model::TimeNs>(item->begin_ns, 0);
    item->end_ns = std::max(item->begin_ns, item->end_ns);
    return true;
  };
  // Threads first: a range's track is a child of its thread's.
  for (uint32_t i = 0; i < cycle_.threads.size(); ++i) (void)ThreadRow(i);
  walk_.Add(cycle_.steps, kStep,
            [this, on](const model::Step&, RowItem* item) { return on(step_row_, item); });
  walk_.Add(cycle_.ranges, kRange, [this, on](const model::Range& range, RowItem* item) {
    return !IsStepRow(cycle_, range) && on(RangeRow(range), item);
  });
  walk_.Add(cycle_.calls, kCall, [this, on](const model::Call& call, RowItem* item) {
    return on(ThreadRow(call.thread), item);
  });
  walk_.Add(cycle_.syncs, kSync,
            [this, on](const model::Sync& sync, RowItem* item) { return on(SyncRow(sync), item); });
  walk_.Add(cycle_.overheads, kOverhead, [this, on](const model::Overhead& o, RowItem* item) {
    return on(OverheadRow(o.tid), item);
  });
}

PerfettoHost::Lane& PerfettoHost::UseLane(uint32_t row_index, uint32_t lane_index) {
  Row& row = rows_[row_index];
  while (row.lanes.size() <= lane_index) {
    const auto lane = static_cast<uint32_t>(row.lanes.size());
    const std::string role = lane == 0 ? row.role : row.role + " lane " + std::to_string(lane);
    row.lanes.push_back({packets_.TrackUuid(role, row.number), {}});
    Describe(row, lane, row.lanes.back().uuid);
  }
  return row.lanes[lane_index];
}

void PerfettoHost::Describe(const Row& row, uint32_t lane, uint64_t uuid) {
  packets_.Begin();
  const size_t track = out_.Begin(pf::kPacketTrackDescriptor);
  out_.Uint(pf::kTrackUuid, uuid);
  out_.Uint(pf::kTrackParent, lane == 0 ? row.parent : row.lanes[0].uuid);
  if (lane > 0) {
    out_.Text(pf::kTrackName, "overlap " + std::to_string(lane));
  } else if (row.is_thread) {
    const size_t thread = out_.Begin(pf::kTrackThread);
    out_.Uint(pf::kThreadPid, cycle_.session.pid);
    out_.Uint(pf::kThreadTid, row.tid);
    if (!row.name.empty()) out_.Text(pf::kThreadName, ValidUtf8(row.name));
    out_.End(thread);
  } else {
    out_.Text(pf::kTrackName, ValidUtf8(row.name));
  }
  out_.End(track);
  packets_.End(0);
}

void PerfettoHost::CloseUntil(Lane& lane, model::TimeNs at) {
  while (!lane.open.empty() && lane.open.back() <= at) {
    packets_.Begin(lane.open.back());
    const size_t event = out_.Begin(pf::kPacketTrackEvent);
    out_.Uint(pf::kEventType, pf::kTypeEnd);
    out_.Uint(pf::kEventTrack, lane.uuid);
    out_.End(event);
    packets_.End(0);
    lane.open.pop_back();
  }
}

void PerfettoHost::BeginSlice(uint64_t uuid, const char* category, uint64_t name_iid) {
  out_.Uint(pf::kEventType, pf::kTypeBegin);
  out_.Uint(pf::kEventTrack, uuid);
  out_.Uint(pf::kEventCategories, packets_.InternLiteral(pf::kInternedCategories, category));
  out_.Uint(pf::kEventNameIid, name_iid);
}

void PerfettoHost::Number(const char* key, uint64_t value) {
  const size_t annotation = out_.Begin(pf::kEventAnnotations);
  out_.Uint(pf::kAnnotationNameIid, packets_.InternLiteral(pf::kInternedAnnotationNames, key));
  out_.Uint(pf::kAnnotationUint, value);
  out_.End(annotation);
}

void PerfettoHost::Flag(const char* key, bool value) {
  if (!value) return;
  const size_t annotation = out_.Begin(pf::kEventAnnotations);
  out_.Uint(pf::kAnnotationNameIid, packets_.InternLiteral(pf::kInternedAnnotationNames, key));
  out_.Uint(pf::kAnnotationBool, 1);
  out_.End(annotation);
}

void PerfettoHost::StepNumber(int32_t step) {
  if (step < 0 || static_cast<size_t>(step) >= cycle_.steps.size()) return;
  Number("step", cycle_.steps[static_cast<size_t>(step)].index);
}

void PerfettoHost::Step(const RowItem& item, uint64_t uuid) {
  const model::Step& step = cycle_.steps[item.index];
  BeginSlice(uuid, "user_annotation", packets_.Intern(pf::kInternedEventNames, StepName(step)));
  Number("step", step.index);
  Number("process_step", step.process_index);
  Flag("incomplete", !step.complete);
  Flag("contains_tracer_start", step.contains_tracer_start);
  Flag("partial", step.partial);
}

uint64_t PerfettoHost::NameIid(model::StringId id) {
  if (id >= name_iids_.size()) return packets_.Intern(pf::kInternedEventNames, "unknown");
  if (name_iids_[id] == 0) {
    name_iids_[id] =
        packets_.Intern(pf::kInternedEventNames, WithoutVersionSuffix(cycle_.Text(id)));
  }
  return name_iids_[id];
}

void PerfettoHost::Range(const RowItem& item, uint64_t uuid) {
  const model::Range& range = cycle_.ranges[item.index];
  BeginSlice(uuid, "user_annotation",
             packets_.Intern(pf::kInternedEventNames, RangeName(cycle_, range)));
  if (range.domain != 0) {
    const size_t annotation = out_.Begin(pf::kEventAnnotations);
    out_.Uint(pf::kAnnotationNameIid, packets_.Intern(pf::kInternedAnnotationNames, "domain"));
    out_.Text(pf::kAnnotationText, ValidUtf8(cycle_.Text(range.domain)));
    out_.End(annotation);
  }
  if (range.category != 0) Number("category", range.category);
  if (range.color != 0) Number("color", range.color);
  Flag("cut_at_begin", range.cut_at_begin);
  Flag("cut_at_end", range.cut_at_end);
}

void PerfettoHost::Call(const RowItem& item, uint64_t uuid) {
  const model::Call& call = cycle_.calls[item.index];
  BeginSlice(uuid, call.domain == 1 ? "cuda_driver" : "cuda_runtime", NameIid(call.name));
  Number("correlation", call.flow_id != 0 ? call.flow_id : call.correlation);
  StepNumber(call.step);
  if (call.return_value != 0) {
    const size_t annotation = out_.Begin(pf::kEventAnnotations);
    out_.Uint(pf::kAnnotationNameIid,
              packets_.Intern(pf::kInternedAnnotationNames, "return_value"));
    out_.Int(pf::kAnnotationInt, call.return_value);
    out_.End(annotation);
  }
  Flag("failed", call.failed);
  Flag("captured", call.captured);
  if (const uint64_t stack = stacks_.Iid(call); stack != 0) {
    out_.Uint(pf::kEventCallstackIid, stack);
  }
  if (call.device_items == 0) return;
  const size_t correlation = out_.Begin(pf::kEventGpuCorrelation);
  work_.Each(item.index, [this](uint32_t event) { out_.Uint(pf::kCorrelationSubmissions, event); });
  out_.End(correlation);
}

void PerfettoHost::Sync(const RowItem& item, uint64_t uuid) {
  const model::Sync& sync = cycle_.syncs[item.index];
  BeginSlice(uuid, "cuda_sync", packets_.Intern(pf::kInternedEventNames, SyncTypeName(sync.type)));
  Number("correlation", sync.correlation);
  StepNumber(sync.step);
}

void PerfettoHost::Open(const RowItem& item, uint32_t lane_index) {
  Lane& lane = UseLane(item.row, lane_index);
  CloseUntil(lane, item.begin_ns);
  packets_.Begin(item.begin_ns);
  const size_t event = out_.Begin(pf::kPacketTrackEvent);
  switch (item.source) {
    case kStep:
      Step(item, lane.uuid);
      break;
    case kRange:
      Range(item, lane.uuid);
      break;
    case kCall:
      Call(item, lane.uuid);
      break;
    case kSync:
      Sync(item, lane.uuid);
      break;
    default:
      BeginSlice(lane.uuid, "overhead",
                 packets_.Intern(pf::kInternedEventNames,
                                 OverheadName(cycle_.overheads[item.index].kind)));
  }
  out_.End(event);
  packets_.End(pf::kFlagNeedsState);
  packets_.CountEvent();
  lane.open.push_back(item.end_ns);
}

void PerfettoHost::Marks() {
  for (const model::Mark& mark : cycle_.marks) {
    const uint64_t uuid = UseLane(ThreadRow(mark.thread), 0).uuid;
    packets_.Begin(mark.at_ns);
    const size_t event = out_.Begin(pf::kPacketTrackEvent);
    out_.Uint(pf::kEventType, pf::kTypeInstant);
    out_.Uint(pf::kEventTrack, uuid);
    out_.Uint(pf::kEventCategories, packets_.Intern(pf::kInternedCategories, "user_annotation"));
    out_.Uint(pf::kEventNameIid, packets_.Intern(pf::kInternedEventNames, cycle_.Text(mark.name)));
    out_.End(event);
    packets_.End(pf::kFlagNeedsState);
    packets_.CountEvent();
  }
}

void PerfettoHost::Counter(const char* name, uint32_t unit, uint64_t (*value)(const model::Step&)) {
  const uint64_t uuid = packets_.TrackUuid(name, 0);
  packets_.Begin();
  const size_t track = out_.Begin(pf::kPacketTrackDescriptor);
  out_.Uint(pf::kTrackUuid, uuid);
  out_.Uint(pf::kTrackParent, packets_.process_uuid());
  out_.Text(pf::kTrackName, name);
  const size_t counter = out_.Begin(pf::kTrackCounter);
  out_.Uint(pf::kCounterUnit, unit);
  out_.End(counter);
  out_.End(track);
  packets_.End(0);
  for (const model::Step& step : cycle_.steps) {
    packets_.Begin(step.begin_ns);
    const size_t event = out_.Begin(pf::kPacketTrackEvent);
    out_.Uint(pf::kEventType, pf::kTypeCounter);
    out_.Uint(pf::kEventTrack, uuid);
    out_.Uint(pf::kEventCounterValue, value(step));
    out_.End(event);
    packets_.End(0);
  }
}

void PerfettoHost::StepCounters() {
  if (cycle_.steps.empty()) return;
  Counter("step", pf::kUnitCount, [](const model::Step& step) { return step.index; });
  Counter("step time", pf::kUnitTimeNs, [](const model::Step& step) {
    return static_cast<uint64_t>(std::max<model::TimeNs>(step.end_ns - step.begin_ns, 0));
  });
}

void PerfettoHost::Write(const std::function<void(uint64_t)>& progress) {
  walk_.Walk([&](const RowItem& item, uint32_t lane) {
    Open(item, lane);
    progress(packets_.events());
  });
  for (Row& row : rows_) {
    for (Lane& lane : row.lanes) CloseUntil(lane, INT64_MAX);
  }
  Marks();
  StepCounters();
}

}  // namespace stepagent::writers
