#include "collector/analysis/kineto_cycle.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>

#include "collector/analysis/text_format.h"
#include "collector/model/step_finder.h"
#include "collector/writers/kineto_names.h"

namespace stepagent::analysis {
namespace {

using model::CallClass;
using writers::ProfilerStepNumber;

constexpr std::string_view kDeviceCategories[] = {"kernel", "gpu_memcpy", "gpu_memset",
                                                  "gpu_graph"};
constexpr std::string_view kCallCategories[] = {"cuda_runtime", "cuda_driver"};
constexpr std::string_view kAnnotation = "user_annotation", kOverhead = "overhead",
                           kSync = "cuda_sync";
// CUPTI_SYNCHRONIZATION_INVALID_VALUE: the stream or the event of a wait that has none.
constexpr uint32_t kNotOfThatKind = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMostTid = std::numeric_limits<int32_t>::max();

bool IsDeviceCategory(std::string_view cat) {
  return std::find(std::begin(kDeviceCategories), std::end(kDeviceCategories), cat) !=
         std::end(kDeviceCategories);
}
bool IsCallCategory(std::string_view cat) {
  return cat == kCallCategories[0] || cat == kCallCategories[1];
}

CallClass ClassOf(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("GraphLaunch")) return CallClass::kGraphLaunch;
  if (has("Launch")) return CallClass::kLaunch;
  if (has("Memcpy")) return CallClass::kMemcpy;
  if (has("Memset")) return CallClass::kMemset;
  if (has("Synchronize")) return CallClass::kSync;
  if (has("Malloc") || has("MemAlloc") || has("Free")) return CallClass::kAlloc;
  return CallClass::kOther;
}

// "Memcpy HtoD (Pinned -> Device)": the kinds by their words, 0 where unknown.
template <typename Name>
uint8_t NumberOf(std::string_view word, uint8_t limit, Name name) {
  for (uint8_t i = 1; i < limit; ++i) {
    if (name(i) == word) return i;
  }
  return 0;
}

void ParseCopyName(std::string_view name, model::Copy* copy) {
  const size_t space = name.find(' '), open = name.find('('), arrow = name.find(" -> ");
  if (space == std::string_view::npos) return;
  const size_t end = name.find(' ', space + 1);
  copy->copy_kind = NumberOf(name.substr(space + 1, end - space - 1), 11, writers::CopyKindName);
  if (open == std::string_view::npos || arrow == std::string_view::npos || arrow < open) return;
  const size_t close = name.find(')', arrow);
  copy->source_kind = NumberOf(name.substr(open + 1, arrow - open - 1), 8, writers::MemoryKindName);
  copy->target_kind =
      NumberOf(name.substr(arrow + 4, close - arrow - 4), 8, writers::MemoryKindName);
}

template <typename T>
void SortByBegin(std::vector<T>& items) {
  std::stable_sort(items.begin(), items.end(), [](const T& a, const T& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
}

}  // namespace

model::StringId KinetoCycle::Text(std::string_view text) {
  if (text.empty()) return 0;
  const auto [it, is_new] =
      strings_.try_emplace(std::string(text), static_cast<model::StringId>(cycle_.strings.size()));
  if (is_new) cycle_.strings.emplace_back(text);
  return it->second;
}

uint32_t KinetoCycle::Thread(const KinetoEvent& event) {
  const auto [it, is_new] = threads_.try_emplace({event.pid, event.tid},
                                                 static_cast<uint32_t>(cycle_.threads.size()));
  if (is_new) {
    cycle_.threads.push_back({static_cast<uint32_t>(event.tid), ""});
    pid_of_thread_.push_back(event.pid);
  }
  ++pids_[event.pid];
  return it->second;
}

uint32_t KinetoCycle::Lane(const KinetoEvent& event) {
  const auto [it, is_new] = lanes_.try_emplace({*event.device, event.context, *event.stream},
                                               static_cast<uint32_t>(cycle_.lanes.size()));
  if (is_new) {
    const auto stream = static_cast<uint64_t>(*event.stream);
    cycle_.lanes.push_back({static_cast<int32_t>(*event.device),
                            static_cast<uint32_t>(event.context.value_or(0)),
                            event.context.has_value(), stream,
                            static_cast<uint32_t>(stream & 0x7fffffff), 0, 0});
  }
  return it->second;
}

uint32_t KinetoCycle::Shape(const KinetoEvent& event) {
  const model::StringId name = Text(event.name);
  const auto [it, is_new] =
      shapes_.try_emplace({name, event.grid, event.block, event.registers, event.shared_bytes},
                          static_cast<uint32_t>(cycle_.shapes.size()));
  if (is_new) {
    model::Shape shape;
    shape.name = shape.demangled = name;
    shape.has_grid = event.grid.has_value(), shape.has_block = event.block.has_value();
    shape.has_registers = event.registers.has_value();
    shape.has_shared = event.shared_bytes.has_value();
    shape.grid = event.grid.value_or(KinetoEvent::Triple{});
    shape.block = event.block.value_or(KinetoEvent::Triple{});
    shape.registers_per_thread = static_cast<uint32_t>(event.registers.value_or(0));
    shape.dynamic_shared_bytes = static_cast<uint32_t>(event.shared_bytes.value_or(0));
    cycle_.shapes.push_back(shape);
  }
  return it->second;
}

void KinetoCycle::AddCall(const KinetoEvent& event, bool is_driver) {
  model::Call call;
  call.begin_ns = event.ts_ns, call.end_ns = event.ts_ns + event.dur_ns;
  call.name = Text(event.name), call.cbid = static_cast<uint32_t>(event.cbid.value_or(0));
  call.correlation = call.flow_id = static_cast<uint32_t>(event.correlation.value_or(0));
  call.thread = Thread(event), call.cls = ClassOf(event.name), call.domain = is_driver ? 1 : 2;
  call.failed = event.is_failed, call.captured = event.is_captured;
  cycle_.calls.push_back(call);
}

void KinetoCycle::AddAnnotation(const KinetoEvent& event) {
  if (const auto number = ProfilerStepNumber(event.name)) {
    model::Step step;
    step.index = *number;
    step.process_index = static_cast<uint64_t>(event.process_step.value_or(0));
    if (!event.process_step) step.process_index = *number;
    step.begin_ns = event.ts_ns, step.end_ns = event.ts_ns + event.dur_ns;
    step.thread = Thread(event);
    step.contains_tracer_start = event.contains_tracer_start;
    step.complete = event.is_complete, step.partial = event.is_partial;
    cycle_.steps.push_back(step);
    return;
  }
  model::Range range;
  range.begin_ns = event.ts_ns, range.end_ns = event.ts_ns + event.dur_ns;
  range.name = Text(event.name), range.domain = Text(event.domain);
  range.is_start_end = event.is_start_end;
  range.cut_at_begin = event.is_cut_at_begin, range.cut_at_end = event.is_cut_at_end;
  range.thread = range.end_thread = Thread(event);
  cycle_.ranges.push_back(range);
}

// Kinds that these files have no word for are left out: nothing is made of them.
void KinetoCycle::AddOverhead(const KinetoEvent& event) {
  const std::optional<uint32_t> kind = writers::OverheadKind(event.name);
  if (!kind) return;
  const auto tid = static_cast<uint32_t>(std::clamp<int64_t>(event.tid, 0, kMostTid));
  cycle_.overheads.push_back({event.ts_ns, event.ts_ns + event.dur_ns, *kind, tid});
}

// What a call waited for. Its duration is the call's: no work, and in no sum of any.
void KinetoCycle::AddSync(const KinetoEvent& event) {
  const std::optional<uint8_t> type = writers::SyncType(event.name);
  if (!type) return;
  model::Sync sync;
  sync.begin_ns = event.ts_ns, sync.end_ns = event.ts_ns + event.dur_ns;
  sync.correlation = static_cast<uint32_t>(event.correlation.value_or(0)), sync.type = *type;
  sync.context = static_cast<uint32_t>(event.context.value_or(0));  // contexts count from 1
  sync.event = static_cast<uint32_t>(event.waited_event.value_or(kNotOfThatKind));
  if (event.stream && *event.stream != kNotOfThatKind) {
    sync.stream = static_cast<uint64_t>(*event.stream);
  }
  sync.device = static_cast<int32_t>(event.device.value_or(-1));
  cycle_.syncs.push_back(sync);
}

bool KinetoCycle::FillDevice(const KinetoEvent& event, model::DeviceItem* item) {
  if (!event.stream || !event.device) return false;
  item->begin_ns = event.ts_ns, item->end_ns = event.ts_ns + event.dur_ns;
  item->correlation = static_cast<uint32_t>(event.correlation.value_or(0));
  item->lane = Lane(event);
  item->graph_id = static_cast<uint32_t>(event.graph_id.value_or(0));
  item->graph_node_id = static_cast<uint64_t>(event.graph_node_id.value_or(0));
  return true;
}

void KinetoCycle::AddUnusable(const KinetoEvent& event) {
  if (unusable_rows_++ == 0) {
    first_unusable_ = event.cat + " `" + Fit(event.name, 60) + "` at ts " +
                      (event.has_ts ? std::to_string(event.ts_ns / 1000) : "unknown");
  }
}

void KinetoCycle::AddDevice(const KinetoEvent& event, std::string_view cat) {
  model::DeviceItem item;
  if (!FillDevice(event, &item)) {
    if (!event.has_refused) AddUnusable(event);
  } else if (cat == "kernel") {
    cycle_.kernels.push_back({item, Shape(event)});
  } else if (cat == "gpu_graph") {
    cycle_.graph_launches.push_back({item});
  } else if (cat == "gpu_memcpy") {
    model::Copy copy{item};
    copy.bytes = static_cast<uint64_t>(event.bytes.value_or(0));
    copy.has_bytes = event.bytes.has_value();
    copy.source_device = static_cast<int32_t>(event.from_device.value_or(-1));
    copy.target_device = static_cast<int32_t>(event.to_device.value_or(-1));
    ParseCopyName(event.name, &copy);
    cycle_.copies.push_back(copy);
  } else {
    model::Set set{item};
    set.bytes = static_cast<uint64_t>(event.bytes.value_or(0));
    set.has_bytes = event.bytes.has_value();
    const size_t open = event.name.find('('), close = event.name.find(')');
    if (open != std::string::npos && close > open) {
      set.memory_kind = NumberOf(std::string_view(event.name).substr(open + 1, close - open - 1), 8,
                                 writers::MemoryKindName);
    }
    cycle_.sets.push_back(set);
  }
}

bool KinetoCycle::Reads(std::string_view cat) {
  return IsDeviceCategory(cat) || IsCallCategory(cat) || cat == kAnnotation || cat == kOverhead ||
         cat == kSync;
}

std::vector<std::string> KinetoCycle::RowProblems(bool is_whole) const {
  std::vector<std::string> lines;
  if (unusable_rows_ > 0) {
    lines.push_back(std::to_string(unusable_rows_) +
                    (unusable_rows_ == 1 ? " row has" : " rows have") +
                    " no time, duration, device or stream that can be used; left out (the "
                    "first: " +
                    first_unusable_ + "); allowed: ts and dur of 0 or more, dur up to 13 days");
  }
  if (half_rows_ > 0) {
    lines.push_back(std::to_string(half_rows_) + (half_rows_ == 1 ? " row is" : " rows are") +
                    " the begin of one (ph B), which is not read; allowed: whole rows (ph X)");
  }
  if (is_whole && !has_any_) {
    std::string cats(kAnnotation);
    for (const std::string_view cat : kCallCategories) cats += ", " + std::string(cat);
    for (const std::string_view cat : kDeviceCategories) cats += ", " + std::string(cat);
    lines.push_back("none of its rows is of a kind that is read (" + cats + ")");
  }
  return lines;
}

void KinetoCycle::Add(const KinetoEvent& event) {
  const std::string& cat = event.cat;
  if (!Reads(cat)) return;
  has_any_ = has_any_ || (cat != kOverhead && cat != kSync);
  half_rows_ += event.ph == "B" ? 1 : 0;
  if (event.ph == "i" && cat == "user_annotation" && event.has_ts) {
    cycle_.marks.push_back({event.ts_ns, Text(event.name), 0, 0, 0, Thread(event), -1});
    return;
  }
  if (event.ph != "X") return;
  // 2^62 ns is the year 2116, 2^50 are 13 days: beyond them, begins and sums leave 64 bits.
  constexpr int64_t kLastNs = int64_t{1} << 62, kLongestNs = int64_t{1} << 50;
  if (!event.has_ts || !event.has_dur || event.ts_ns > kLastNs || event.ts_ns < 0 ||
      event.dur_ns < 0 || event.dur_ns > kLongestNs) {
    AddUnusable(event);
  } else if (IsDeviceCategory(cat)) {
    AddDevice(event, cat);
  } else if (IsCallCategory(cat)) {
    AddCall(event, cat == "cuda_driver");
  } else if (cat == kOverhead) {
    AddOverhead(event);
  } else if (cat == kSync) {
    AddSync(event);
  } else {
    AddAnnotation(event);
  }
}

void KinetoCycle::SortAll() {
  SortByBegin(cycle_.steps), SortByBegin(cycle_.calls), SortByBegin(cycle_.kernels);
  SortByBegin(cycle_.copies), SortByBegin(cycle_.sets), SortByBegin(cycle_.graph_launches);
  SortByBegin(cycle_.ranges), SortByBegin(cycle_.overheads), SortByBegin(cycle_.syncs);
}

// The driver call inside a runtime call is the same call once more.
void KinetoCycle::DropNestedCalls() {
  std::vector<model::TimeNs> ends(cycle_.threads.size(), std::numeric_limits<int64_t>::min());
  std::erase_if(cycle_.calls, [&](const model::Call& call) {
    model::TimeNs& end = ends[call.thread];
    if (call.begin_ns < end && call.end_ns <= end) return true;
    end = std::max(end, call.end_ns);
    return false;
  });
}

template <typename T>
void KinetoCycle::JoinItems(std::vector<T>& items) {
  for (T& item : items) {
    const auto it = call_of_correlation_.find(item.correlation);
    if (it == call_of_correlation_.end()) continue;
    if (it->second == kAmbiguous) {
      if (ambiguous_rows_++ == 0) first_ambiguous_ = item.correlation;
      item.correlation = 0;  // in a converted file it would be joined after all
      continue;
    }
    model::Call& call = cycle_.calls[static_cast<size_t>(it->second)];
    ++call.device_items;
    item.call = it->second, item.flow_id = call.flow_id, item.step = call.step;
  }
}

void KinetoCycle::JoinSyncs() {
  for (model::Sync& sync : cycle_.syncs) {
    const auto it = call_of_correlation_.find(sync.correlation);
    if (it == call_of_correlation_.end() || it->second == kAmbiguous) continue;
    sync.call = it->second, sync.step = cycle_.calls[static_cast<size_t>(it->second)].step;
  }
}

void KinetoCycle::AttributeSteps() {
  IndexCalls();
  const model::StepFinder steps(cycle_.steps);
  for (model::Call& call : cycle_.calls) {
    call.step = steps.Holding(call.begin_ns);
    if (call.cls != CallClass::kLaunch && call.cls != CallClass::kGraphLaunch) continue;
    if (call.step >= 0) {
      ++cycle_.steps[static_cast<size_t>(call.step)].launches;
    } else {
      ++cycle_.outside_steps.launches;
    }
  }
  for (model::Range& range : cycle_.ranges) range.step = steps.Holding(range.begin_ns);
  JoinItems(cycle_.kernels), JoinItems(cycle_.copies), JoinItems(cycle_.sets);
  JoinItems(cycle_.graph_launches);
  JoinSyncs();
  if (!HasDevice()) return;  // not known, and not zero
  for (model::Step& step : cycle_.steps) step.kernels = step.copies = step.sets = 0;
  const auto count = [this](const auto& items, auto field) {
    for (const auto& item : items) {
      if (item.step >= 0) ++*(cycle_.steps[static_cast<size_t>(item.step)].*field);
    }
  };
  count(cycle_.kernels, &model::Step::kernels);
  count(cycle_.copies, &model::Step::copies);
  count(cycle_.sets, &model::Step::sets);
}

void KinetoCycle::SetWindow() {
  model::TimeNs begin = std::numeric_limits<int64_t>::max(), end = 0;
  const auto widen = [&](const auto& items) {
    for (const auto& item : items) {
      begin = std::min(begin, item.begin_ns), end = std::max(end, item.end_ns);
    }
  };
  widen(cycle_.steps);
  if (cycle_.steps.empty()) {
    widen(cycle_.calls), widen(cycle_.ranges), widen(cycle_.kernels), widen(cycle_.copies);
    widen(cycle_.sets), widen(cycle_.graph_launches);
  }
  cycle_.window_begin_ns = std::min(begin, end), cycle_.window_end_ns = end;
}

bool KinetoCycle::HasDevice() const {
  return !cycle_.kernels.empty() || !cycle_.copies.empty() || !cycle_.sets.empty() ||
         !cycle_.graph_launches.empty();
}

void KinetoCycle::SetKinds() {
  using enum model::Activity;
  const bool has_device = HasDevice(), has_calls = !cycle_.calls.empty();
  // Calls alone are something to read: only the device's part is missing.
  cycle_.gpu.status = has_device ? "collected" : has_calls ? "partial" : "unavailable";
  if (!has_device) cycle_.gpu.reason = "the file, as far as it could be read, holds no device rows";
  const std::pair<model::Activity, bool> kinds[] = {{kKernel, has_device}, {kMemcpy, has_device},
                                                    {kMemset, has_device}, {kLaunch, has_calls},
                                                    {kSync, has_calls},    {kNvtx, true}};
  for (const auto& [activity, is_there] : kinds) {
    model::KindStatus& kind = cycle_.kinds[static_cast<size_t>(activity)];
    kind.requested = true, kind.enabled = is_there;
    if (!is_there) kind.error = "the file holds no such rows";
  }
  if (cycle_.overheads.empty()) return;
  model::KindStatus& overhead = cycle_.kinds[static_cast<size_t>(model::Activity::kOverhead)];
  overhead.requested = overhead.enabled = true;
}

model::Cycle KinetoCycle::Finish(const std::string& file_name) {
  cycle_.is_from_trace = true;
  std::erase_if(cycle_.devices, [](const model::DeviceInfo& d) { return d.ordinal < 0; });
  SortAll();
  KeepOneProcess();
  DropNestedCalls();
  AttributeSteps();
  NoteAmbiguous();
  SetWindow();
  SetKinds();
  cycle_.complete = true, cycle_.ended = "schedule";
  cycle_.session.exe = cycle_.session.title = file_name;
  const auto most = std::max_element(
      pids_.begin(), pids_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != pids_.end()) cycle_.session.pid = static_cast<uint32_t>(most->first);
  for (const model::Step& step : cycle_.steps) {
    cycle_.all_steps.each.push_back(
        {step.process_index, static_cast<uint64_t>(step.end_ns - step.begin_ns), 2});
  }
  cycle_.all_steps.count = cycle_.steps.size();
  return std::move(cycle_);
}

}  // namespace stepagent::analysis
