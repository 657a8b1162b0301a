#include "collector/writers/chrome.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include <sys/stat.h>

#include "collector/analysis/range_work.h"
#include "collector/writers/chrome_header.h"
#include "collector/writers/chrome_rows.h"
#include "collector/writers/chrome_tracks.h"
#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/output_file.h"
#include "collector/writers/row_walk.h"
#include "collector/writers/trace_parts.h"
#include "collector/writers/work_names.h"

namespace stepagent::writers {
namespace {

// Ranks of the sources: what is outer when two intervals are equal.
enum HostSource : uint8_t { kStep, kRange, kCall, kOverhead };
enum DeviceSource : uint8_t { kAnnotation, kGraphLaunch, kKernel, kCopy, kSet, kSync };

class ChromeTrace {
 public:
  ChromeTrace(const model::Cycle& cycle, OutputFile& file,
              const std::function<void(uint64_t, uint64_t)>& progress)
      : cycle_(cycle),
        file_(file),
        progress_(progress),
        base_unix_ns_(ChromeBaseUnixNs(cycle)),
        tracks_(cycle),
        text_(file),
        rows_(cycle, text_, base_unix_ns_) {
    // Readers join device rows to call rows once there are steps; without call rows they would drop
    // all device work, so then no step rows are written.
    const model::KindStatus& launch = cycle.kinds[static_cast<size_t>(model::Activity::kLaunch)];
    writes_steps_ = launch.requested && (launch.enabled || !HasDeviceWork());
    own_texts_.resize(cycle.steps.size());
  }

  void Write(const std::string& trace_name) {
    FindOwnTexts();
    Annotate();
    BuildHostWalk();
    BuildDeviceWalk();
    file_.Write(ChromeHeader(cycle_, base_unix_ns_));
    FindLanes();
    WriteMetadata();
    WriteHostRows();
    WriteDeviceRows();
    text_.Flush();
    file_.Write(ChromeTail(trace_name));
  }

  [[nodiscard]] uint64_t complete_rows() const { return rows_.complete_rows(); }

 private:
  [[nodiscard]] bool HasDeviceWork() const {
    return !cycle_.kernels.empty() || !cycle_.copies.empty() || !cycle_.sets.empty() ||
           !cycle_.graph_launches.empty();
  }
  // The step's own range whose text reads ProfilerStep#<n>: its row is the step's row.
  [[nodiscard]] bool IsStepRow(const model::Range& range) const {
    return writes_steps_ && range.is_step_range && ProfilerStepNumber(cycle_.Text(range.name));
  }
  void FindOwnTexts() {
    for (const model::Range& range : cycle_.ranges) {
      if (!IsStepRow(range) || range.step < 0) continue;
      if (static_cast<size_t>(range.step) >= own_texts_.size()) continue;
      own_texts_[static_cast<size_t>(range.step)] = cycle_.Text(range.name);
    }
  }

  void Annotate();
  template <typename T>
  void AnnotateItems(const std::vector<T>& items, const analysis::RangeWork& work);
  void BuildHostWalk();
  void BuildDeviceWalk();
  template <typename T>
  void AddDevice(const std::vector<T>& items, uint8_t source);
  void FindLanes();
  void WriteMetadata();
  void WriteTrackNames(Track& track, int64_t& sort_index);
  void ProcessNames();
  void WriteHostRows();
  void WriteHostItem(const RowItem& item, Place place);
  void WriteDeviceRows();
  void WriteDeviceItem(const RowItem& item, Place place);
  template <typename T>
  void WriteWork(const T& item, Place place, void (ChromeRows::*format)(const T&, Place));
  [[nodiscard]] Place CallPlace(int32_t call);
  void Progress() {
    if (progress_ && rows_.complete_rows() % 65536 == 0) progress_(rows_.complete_rows(), total_);
  }

  const model::Cycle& cycle_;
  OutputFile& file_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  const int64_t base_unix_ns_;
  ChromeTracks tracks_;
  RowText text_;
  ChromeRows rows_;
  bool writes_steps_ = false;
  uint64_t total_ = 0;
  std::vector<std::string_view> own_texts_;  // by step
  std::vector<Annotation> annotations_;
  std::unordered_map<uint64_t, size_t> annotation_of_;  // range and row -> annotations_
  std::unordered_map<uint32_t, uint32_t> moved_calls_;  // call -> lane, where not 0
  RowWalk host_walk_, device_walk_;
};

template <typename T>
void ChromeTrace::AnnotateItems(const std::vector<T>& items, const analysis::RangeWork& work) {
  for (const T& item : items) {
    if (!IsDrawn(cycle_, item)) continue;
    const uint32_t row = tracks_.LaneRow(item.lane);
    for (const uint32_t range : work.RangesOf(item.call)) {
      if (ProfilerStepNumber(cycle_.Text(cycle_.ranges[range].name))) continue;
      const auto [it, is_new] =
          annotation_of_.try_emplace(uint64_t{range} << 32 | row, annotations_.size());
      if (is_new) annotations_.push_back({item.begin_ns, item.end_ns, row, range});
      Annotation& a = annotations_[it->second];
      a.begin_ns = std::min(a.begin_ns, item.begin_ns);
      a.end_ns = std::max(a.end_ns, item.end_ns);
    }
  }
}

void ChromeTrace::Annotate() {
  if (cycle_.ranges.empty()) return;
  const analysis::RangeWork work(cycle_);
  AnnotateItems(cycle_.graph_launches, work);
  AnnotateItems(cycle_.kernels, work);
  AnnotateItems(cycle_.copies, work);
  AnnotateItems(cycle_.sets, work);
  annotation_of_ = {};
  // Ranges that cover the same work keep the nesting they have on the host.
  std::stable_sort(annotations_.begin(), annotations_.end(),
                   [this](const Annotation& a, const Annotation& b) {
                     if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
                     if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
                     const model::Range &ra = cycle_.ranges[a.range], &rb = cycle_.ranges[b.range];
                     if (ra.begin_ns != rb.begin_ns) return ra.begin_ns < rb.begin_ns;
                     return ra.end_ns > rb.end_ns;
                   });
}

void ChromeTrace::BuildHostWalk() {
  if (writes_steps_) {
    host_walk_.Add(cycle_.steps, kStep, [this](const model::Step& step, RowItem* item) {
      item->row = tracks_.ThreadRow(step.thread);
      item->end_ns = std::max(item->begin_ns, item->end_ns);
      item->is_movable = true;
      return true;
    });
    host_walk_.MoveTogether(kStep);
    total_ += cycle_.steps.size();
  }
  host_walk_.Add(cycle_.ranges, kRange, [this](const model::Range& range, RowItem* item) {
    if (IsStepRow(range)) return false;
    item->row = tracks_.ThreadRow(range.thread);
    item->end_ns = std::max(item->begin_ns, item->end_ns);
    item->is_movable = range.is_start_end;
    return true;
  });
  host_walk_.AddFixed(cycle_.calls, kCall, [this](const model::Call& call, RowItem* item) {
    item->row = tracks_.ThreadRow(call.thread);
    item->end_ns = std::max(item->begin_ns, item->end_ns);
    return true;
  });
  host_walk_.AddFixed(cycle_.overheads, kOverhead,
                      [this](const model::Overhead& overhead, RowItem* item) {
                        item->row = tracks_.OverheadRow(overhead.tid);
                        item->end_ns = std::max(item->begin_ns, item->end_ns);
                        return true;
                      });
  total_ += cycle_.ranges.size() + cycle_.calls.size() + cycle_.overheads.size();
  host_walk_.Prepare();
}

template <typename T>
void ChromeTrace::AddDevice(const std::vector<T>& items, uint8_t source) {
  device_walk_.AddFixed(items, source, [this](const T& t, RowItem* item) {
    if (!IsDrawn(cycle_, t)) return false;
    item->row = tracks_.LaneRow(t.lane);
    item->is_exclusive = true;
    return true;
  });
  total_ += items.size();
}

void ChromeTrace::BuildDeviceWalk() {
  device_walk_.Add(annotations_, kAnnotation, [](const Annotation& a, RowItem* item) {
    item->row = a.row;
    item->is_movable = true;
    return true;
  });
  AddDevice(cycle_.graph_launches, kGraphLaunch);
  AddDevice(cycle_.kernels, kKernel);
  AddDevice(cycle_.copies, kCopy);
  AddDevice(cycle_.sets, kSet);
  device_walk_.AddFixed(cycle_.syncs, kSync, [this](const model::Sync& sync, RowItem* item) {
    item->row = tracks_.SyncRow(sync);
    item->end_ns = std::max(item->begin_ns, item->end_ns);
    return true;
  });
  total_ += annotations_.size() + cycle_.syncs.size();
  device_walk_.Prepare();
}

void ChromeTrace::FindLanes() {
  host_walk_.Walk([this](const RowItem& item, uint32_t lane) {
    tracks_.UseHost(item.row, lane);
    if (item.source == kCall && lane != 0) moved_calls_[item.index] = lane;
  });
  for (const model::Mark& mark : cycle_.marks) tracks_.UseHost(tracks_.ThreadRow(mark.thread), 0);
  device_walk_.Walk(
      [this](const RowItem& item, uint32_t lane) { tracks_.UseDevice(item.row, lane); });
}

void ChromeTrace::WriteTrackNames(Track& track, int64_t& sort_index) {
  if (!track.is_drawn) return;
  for (size_t lane = 0; lane < track.lane_tids.size(); ++lane) {
    const Place place{track.pid, track.lane_tids[lane]};
    std::string name = track.name;
    if (lane > 0) name += " (overlap " + std::to_string(lane) + ")";
    rows_.Metadata("thread_name", place, true, "name", JsonString(name));
    rows_.Metadata("thread_sort_index", place, true, "sort_index", std::to_string(sort_index++));
  }
}

void ChromeTrace::ProcessNames() {
  const model::SessionInfo& session = cycle_.session;
  const std::string mark = HostOnlyMark(cycle_);
  const Place host{static_cast<int64_t>(session.pid), 0};
  const std::string& title = session.title.empty() ? session.exe : session.title;
  rows_.Metadata("process_name", host, false, "name", JsonString(title + mark));
  rows_.Metadata("process_labels", host, false, "labels", JsonString("CPU" + mark));
  rows_.Metadata("process_sort_index", host, false, "sort_index", std::to_string(host.pid));
  std::vector<int64_t> devices;
  bool has_overhead = false;
  for (const Track& track : tracks_.device()) {
    if (track.is_drawn) devices.push_back(track.pid);
  }
  for (const Track& track : tracks_.host()) has_overhead |= track.is_drawn && track.pid < 0;
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (const int64_t device : devices) {
    const Place place{device, 0};
    rows_.Metadata("process_name", place, false, "name", JsonString(title));
    rows_.Metadata("process_labels", place, false, "labels",
                   JsonString("GPU " + std::to_string(device)));
    rows_.Metadata("process_sort_index", place, false, "sort_index",
                   std::to_string(5'000'000 + device));
  }
  if (!has_overhead) return;
  rows_.Metadata("process_name", {-1, 0}, false, "name", JsonString("CUPTI overhead"));
  rows_.Metadata("process_sort_index", {-1, 0}, false, "sort_index", "6000000");
}

void ChromeTrace::WriteMetadata() {
  ProcessNames();
  int64_t sort_index = 0;
  for (Track& track : tracks_.host()) WriteTrackNames(track, sort_index);
  std::vector<Track*> devices;
  for (Track& track : tracks_.device()) devices.push_back(&track);
  std::stable_sort(devices.begin(), devices.end(), [](const Track* a, const Track* b) {
    return std::pair(a->pid, a->lane_tids[0] % 1'000'000) <
           std::pair(b->pid, b->lane_tids[0] % 1'000'000);
  });
  for (Track* track : devices) WriteTrackNames(*track, sort_index);
}

void ChromeTrace::WriteHostItem(const RowItem& item, Place place) {
  switch (item.source) {
    case kStep:
      return rows_.Step(cycle_.steps[item.index], own_texts_[item.index], place);
    case kRange:
      return rows_.Range(cycle_.ranges[item.index], place);
    case kCall:
      return rows_.Call(cycle_.calls[item.index], place);
    default:
      return rows_.Overhead(cycle_.overheads[item.index], place);
  }
}

void ChromeTrace::WriteHostRows() {
  host_walk_.Walk([this](const RowItem& item, uint32_t lane) {
    const Track& track = tracks_.HostTrack(item.row);
    WriteHostItem(item, {track.pid, track.lane_tids[lane]});
    Progress();
  });
  for (const model::Mark& mark : cycle_.marks) {
    const Track& track = tracks_.HostTrack(tracks_.ThreadRow(mark.thread));
    rows_.Mark(mark, {track.pid, track.lane_tids[0]});
  }
}

Place ChromeTrace::CallPlace(int32_t call) {
  const auto index = static_cast<uint32_t>(call);
  const auto moved = moved_calls_.find(index);
  const Track& track = tracks_.HostTrack(tracks_.ThreadRow(cycle_.calls[index].thread));
  return {track.pid, track.lane_tids[moved == moved_calls_.end() ? 0 : moved->second]};
}

template <typename T>
void ChromeTrace::WriteWork(const T& item, Place place,
                            void (ChromeRows::*format)(const T&, Place)) {
  (rows_.*format)(item, place);
  if (item.call < 0 || static_cast<size_t>(item.call) >= cycle_.calls.size()) return;
  rows_.Flow(cycle_.calls[static_cast<size_t>(item.call)], CallPlace(item.call), item, place);
}

void ChromeTrace::WriteDeviceItem(const RowItem& item, Place place) {
  const uint32_t i = item.index;
  switch (item.source) {
    case kAnnotation:
      return rows_.Annotate(annotations_[i], place);
    case kGraphLaunch:
      return WriteWork(cycle_.graph_launches[i], place, &ChromeRows::GraphLaunch);
    case kKernel:
      return WriteWork(cycle_.kernels[i], place, &ChromeRows::Kernel);
    case kCopy:
      return WriteWork(cycle_.copies[i], place, &ChromeRows::Copy);
    case kSet:
      return WriteWork(cycle_.sets[i], place, &ChromeRows::Set);
    default:
      return rows_.Sync(cycle_.syncs[i], place);
  }
}

void ChromeTrace::WriteDeviceRows() {
  device_walk_.Walk([this](const RowItem& item, uint32_t lane) {
    const Track& track = tracks_.DeviceTrack(item.row);
    WriteDeviceItem(item, {track.pid, track.lane_tids[lane]});
    Progress();
  });
}

}  // namespace

int64_t ChromeBaseUnixNs(const model::Cycle& cycle) {
  const int64_t moment = cycle.session.base_unix_ns + cycle.window_begin_ns;
  return moment <= 0 ? 0 : moment / kChromeBaseUnitNs * kChromeBaseUnitNs;
}

namespace {

WriteResult WriteOne(const model::Cycle& cycle, const std::string& folder, const std::string& name,
                     const std::function<void(uint64_t, uint64_t)>& progress) {
  OutputFile file(folder + "/" + name, Compression::kGzip);
  if (!file.ok()) return {false, file.error(), {}};
  ChromeTrace trace(cycle, file, progress);
  trace.Write(name);
  if (!file.Commit()) return {false, file.error(), {}};
  return {true, "", {{file.path(), "chrome", file.bytes(), trace.complete_rows(), file.sha256()}}};
}

}  // namespace

WriteResult ChromeWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  const std::string name =
      target.trace_stem + (cycle.HostOnly() ? ".hostonly" : "") + ".pt.trace.json.gz";
  return WriteParts(cycle, PlanParts(cycle, TraceLimit(cycle.session)),
                    [&](const model::Cycle& part, size_t number) -> WriteResult {
                      const std::string folder = PartFolder(target.traces_dir, number);
                      if (number > 0 && mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
                        return {false, folder + ": create: " + std::strerror(errno), {}};
                      }
                      return WriteOne(part, folder, name, target.progress);
                    });
}

}  // namespace stepagent::writers
