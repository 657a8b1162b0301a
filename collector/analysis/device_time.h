#pragma once
// Device time of a cycle: one pass over all device work in order of begin.
//
// Purpose: busy, idle, compute, copy, collective and their overlaps per device; unions per step,
// kernel, range and stream. Every consumer of device intervals reads this, so that the figures
// agree. Thread rule: immutable after construction. Failure rule: items that the model did not
// place, and suspects (below), are left out and counted.
//
// Suspects: a kernel that still "runs" while kSuspectSuccessors later kernels of its own stream
// begin, outside graphs, has a corrupt duration: streams run in order. One such record would
// otherwise be the largest figure of every table.
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "collector/analysis/intervals.h"
#include "collector/model/cycle.h"

namespace stepagent::analysis {

// 16: programmatic dependent launch overlaps one successor, clock jitter a handful of tiny ones.
inline constexpr uint32_t kSuspectSuccessors = 16;

// The visible name rule for collectives: the function's name, without its return type, begins so.
inline constexpr std::string_view kCollectiveRule = "kernel name begins with nccl, rccl or nvshmem";
[[nodiscard]] bool IsCollectiveName(std::string_view demangled);

enum class WorkClass : uint8_t { kCompute, kCollective, kCopy, kSet, kGraph };

struct WorkItem {  // what all device work has in common, in order of begin
  model::TimeNs begin_ns = 0, end_ns = 0;
  WorkClass cls = WorkClass::kCompute;
  uint32_t index = 0;  // within its vector of the cycle
  uint32_t lane = 0;
  int32_t device = 0;
  int32_t step = model::kNoStep;
  int32_t call = model::kNoIndex;
};

struct DeviceTime {
  int32_t ordinal = 0;
  model::TimeNs span_begin_ns = 0, span_end_ns = 0;
  IntervalUnion busy, compute, copy, collective;
  [[nodiscard]] int64_t SpanNs() const { return span_end_ns - span_begin_ns; }
  [[nodiscard]] int64_t IdleNs() const { return SpanNs() - busy.TotalNs(); }
  [[nodiscard]] int64_t OverlapNs() const { return IntersectionNs(compute, copy); }
  [[nodiscard]] int64_t ExposedCollectiveNs() const {
    return collective.TotalNs() - IntersectionNs(collective, compute);
  }
};

struct SetAside {
  uint32_t kernel = 0;  // index into Cycle::kernels
  uint32_t successors = 0;
};

class DeviceWork {
 public:
  explicit DeviceWork(const model::Cycle& cycle);

  // Visits all work in order of begin.
  void ForEach(const std::function<void(const WorkItem&)>& use) const;

  [[nodiscard]] const std::vector<DeviceTime>& devices() const { return devices_; }
  [[nodiscard]] const std::vector<SetAside>& set_aside() const { return set_aside_; }
  [[nodiscard]] bool IsCollective(uint32_t shape) const {
    return shape < shape_is_collective_.size() && shape_is_collective_[shape];
  }
  // Union over all devices; 0 where nothing ran.
  [[nodiscard]] int64_t BusyNs() const;

 private:
  void FindSuspects();
  void AddToDevices();
  [[nodiscard]] bool Counts(const model::DeviceItem& item) const {
    return item.placed && item.lane < cycle_.lanes.size() && item.end_ns >= item.begin_ns;
  }

  const model::Cycle& cycle_;
  std::vector<bool> shape_is_collective_;
  std::vector<SetAside> set_aside_;
  std::vector<bool> is_suspect_;  // by kernel; empty where there is none
  std::vector<DeviceTime> devices_;
};

}  // namespace stepagent::analysis
