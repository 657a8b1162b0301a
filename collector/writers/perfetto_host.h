#pragma once
// The host half of a Perfetto trace: threads, ranges, steps, marks, waits and overhead as tracks.
//
// Purpose: one begin and one end packet a slice. A thread's track holds its calls and push/pop
// ranges; start/end ranges, which do not nest, have a track of their own per thread and domain;
// what would still overlap partly goes to a further track beside. Thread rule: one object, one
// thread. Memory: the open slices of each track, and four bytes for each piece of device work
// (which call it came from). Failure rule: errors stay in the OutputFile.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/writers/perfetto_packets.h"
#include "collector/writers/perfetto_stacks.h"
#include "collector/writers/row_walk.h"

namespace stepagent::writers {

// Which device events (numbered from 1, in the order written) each call made.
class CallWork {
 public:
  explicit CallWork(const model::Cycle& cycle);
  template <typename Use>
  void Each(uint32_t call, Use use) const {
    for (uint32_t i = begin_[call]; i < begin_[call + 1]; ++i) use(events_[i]);
  }

 private:
  std::vector<uint32_t> begin_, events_;
};

class PerfettoHost {
 public:
  PerfettoHost(const model::Cycle& cycle, PerfettoPackets& packets);
  void Write(const std::function<void(uint64_t)>& progress);

 private:
  struct Lane {
    uint64_t uuid = 0;
    std::vector<model::TimeNs> open;  // ends, outer first
  };
  struct Row {
    std::string role, name;
    uint64_t number = 0, parent = 0;
    bool is_thread = false;
    uint32_t tid = 0;
    std::vector<Lane> lanes;
  };
  uint32_t AddRow(Row row);
  uint32_t ThreadRow(uint32_t thread);
  uint32_t RangeRow(const model::Range& range);
  uint32_t SyncRow(const model::Sync& sync);
  uint32_t OverheadRow(uint32_t tid);
  Lane& UseLane(uint32_t row, uint32_t lane);
  void Describe(const Row& row, uint32_t lane, uint64_t uuid);
  void BuildWalk();
  void Open(const RowItem& item, uint32_t lane);
  void CloseUntil(Lane& lane, model::TimeNs at);
  void BeginSlice(uint64_t uuid, const char* category, uint64_t name_iid);
  void Number(const char* key, uint64_t value);
  void Flag(const char* key, bool value);
  void StepNumber(int32_t step);
  [[nodiscard]] uint64_t NameIid(model::StringId id);
  void Step(const RowItem& item, uint64_t uuid);
  void Range(const RowItem& item, uint64_t uuid);
  void Call(const RowItem& item, uint64_t uuid);
  void Sync(const RowItem& item, uint64_t uuid);
  void Marks();
  void StepCounters();
  void Counter(const char* name, uint32_t unit, uint64_t (*value)(const model::Step&));

  const model::Cycle& cycle_;
  PerfettoPackets& packets_;
  ProtoBuffer& out_;
  const CallWork work_;
  PerfettoStacks stacks_;
  RowWalk walk_;
  std::vector<Row> rows_;
  std::map<uint32_t, uint32_t> thread_rows_;  // by tid: the kernel reuses them
  std::map<uint32_t, uint32_t> overhead_rows_;
  std::map<std::pair<uint32_t, model::StringId>, uint32_t> range_rows_;
  std::map<std::tuple<int32_t, uint32_t, int64_t>, uint32_t> sync_rows_;
  uint32_t step_row_ = 0;
  std::vector<uint64_t> name_iids_;  // by StringId; 0 not yet
};

}  // namespace stepagent::writers
