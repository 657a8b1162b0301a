#pragma once
// The rows of a Chrome file: which (pid, tid) each thread, stream and lane gets, and its name.
//
// Purpose: numbers that viewers keep apart and people recognise: a thread's row is its tid, a
// stream's row its stream number; lanes and synchronisation rows lie at fixed distances, moved on
// only where two would meet. Every number stays below 2^31.
// Thread rule: one object, one thread.
// Failure rule: unknown threads, lanes and devices get a row that says so.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::writers {

struct Track {
  int64_t pid = 0;
  std::string name;                // of lane 0; lanes append "(overlap k)"
  std::vector<int64_t> lane_tids;  // [0] is the row itself
  bool is_drawn = false;           // something is written on it
};

class ChromeTracks {
 public:
  explicit ChromeTracks(const model::Cycle& cycle);

  // Dense row numbers, for RowWalk. Thread and overhead rows share one numbering, device rows
  // another.
  [[nodiscard]] uint32_t ThreadRow(uint32_t thread) const;
  [[nodiscard]] uint32_t OverheadRow(uint32_t tid);
  [[nodiscard]] uint32_t LaneRow(uint32_t lane) const { return lane_rows_[lane]; }
  [[nodiscard]] bool HasLane(uint32_t lane) const { return lane < lane_rows_.size(); }
  // The row of a CUPTI synchronisation record, and its device.
  [[nodiscard]] uint32_t SyncRow(const model::Sync& sync);
  [[nodiscard]] int32_t SyncDevice(const model::Sync& sync) const;

  Track& HostTrack(uint32_t row) { return host_[row]; }
  Track& DeviceTrack(uint32_t row) { return device_[row]; }
  std::vector<Track>& host() { return host_; }
  std::vector<Track>& device() { return device_; }

  // Notes that a lane is used, giving it a tid.
  void UseHost(uint32_t row, uint32_t lane) { Use(host_[row], lane, kHostLaneStride); }
  void UseDevice(uint32_t row, uint32_t lane) { Use(device_[row], lane, kDeviceLaneStride); }

 private:
  static constexpr int64_t kDeviceLaneStride =
      2'000'000;                                         // as other readers of Kineto files expect
  static constexpr int64_t kSyncOffset = 1'000'000;      // Kineto's own row for Stream Sync
  static constexpr int64_t kHostLaneStride = 5'000'000;  // above the kernel's largest thread id
  int64_t Take(int64_t pid, int64_t wanted);
  void Use(Track& track, uint32_t lane, int64_t stride);
  uint32_t AddTrack(std::vector<Track>& tracks, int64_t pid, int64_t tid, std::string name);
  void AddThreads();
  void AddLanes();

  const model::Cycle& cycle_;
  std::set<std::pair<int64_t, int64_t>> taken_;
  std::vector<Track> host_, device_;
  std::vector<uint32_t> thread_rows_, lane_rows_;
  uint32_t unknown_thread_row_ = 0;
  std::map<uint32_t, uint32_t> overhead_rows_;                 // by tid
  std::map<std::pair<int32_t, int64_t>, uint32_t> sync_rows_;  // by device and stream, -1 none
};

}  // namespace stepagent::writers
