#include "collector/writers/chrome_tracks.h"

#include <limits>

#include "collector/writers/json_text.h"

namespace stepagent::writers {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max();
constexpr int64_t kSpareIds = 1'900'000'000;  // where a number goes whose own place is taken
constexpr int64_t kOverheadPid = -1;          // as Kineto's

}  // namespace

ChromeTracks::ChromeTracks(const model::Cycle& cycle) : cycle_(cycle) {
  AddThreads();
  AddLanes();
}

int64_t ChromeTracks::Take(int64_t pid, int64_t wanted) {
  if (wanted < 0 || wanted > kMaxId) wanted = kSpareIds;
  if (!taken_.emplace(pid, wanted).second) {
    wanted = kSpareIds;
    while (!taken_.emplace(pid, wanted).second) ++wanted;
  }
  return wanted;
}

uint32_t ChromeTracks::AddTrack(std::vector<Track>& tracks, int64_t pid, int64_t tid,
                                std::string name) {
  tracks.push_back({pid, std::move(name), {Take(pid, tid)}, false});
  return static_cast<uint32_t>(tracks.size() - 1);
}

void ChromeTracks::AddThreads() {
  std::map<uint32_t, uint32_t> by_tid;  // the kernel reuses thread ids: one row for each number
  const auto pid = static_cast<int64_t>(cycle_.session.pid);
  for (const model::Thread& thread : cycle_.threads) {
    auto [it, is_new] = by_tid.try_emplace(thread.tid, 0);
    if (is_new) {
      const int64_t tid = thread.tid == 0 ? kSpareIds : thread.tid;
      it->second = AddTrack(host_, pid, tid, "");
      host_.back().name = "thread " + std::to_string(host_.back().lane_tids[0]);
    }
    if (!thread.name.empty()) {
      Track& track = host_[it->second];
      track.name = "thread " + std::to_string(track.lane_tids[0]) + " (" + thread.name + ")";
    }
    thread_rows_.push_back(it->second);
  }
  unknown_thread_row_ = AddTrack(host_, pid, kSpareIds, "unknown thread");
}

void ChromeTracks::AddLanes() {
  std::map<std::pair<int32_t, uint32_t>, uint32_t> by_stream;
  for (const model::Lane& lane : cycle_.lanes) {
    auto [it, is_new] = by_stream.try_emplace({lane.device, lane.stream_index}, 0);
    if (is_new) {
      it->second = AddTrack(device_, lane.device, lane.stream_index,
                            "stream " + std::to_string(lane.stream_index));
    }
    lane_rows_.push_back(it->second);
  }
}

uint32_t ChromeTracks::ThreadRow(uint32_t thread) const {
  return thread < thread_rows_.size() ? thread_rows_[thread] : unknown_thread_row_;
}

uint32_t ChromeTracks::OverheadRow(uint32_t tid) {
  auto [it, is_new] = overhead_rows_.try_emplace(tid, 0);
  if (is_new) {
    const int64_t shown = tid == 0 ? static_cast<int64_t>(cycle_.session.pid) : tid;
    it->second = AddTrack(host_, kOverheadPid, shown, "overhead, thread " + std::to_string(shown));
  }
  return it->second;
}

int32_t ChromeTracks::SyncDevice(const model::Sync& sync) const {
  if (sync.device >= 0) return sync.device;
  for (const model::Lane& lane : cycle_.lanes) {
    if (lane.context == sync.context) return lane.device;
  }
  return cycle_.devices.empty() ? 0 : cycle_.devices.front().ordinal;
}

uint32_t ChromeTracks::SyncRow(const model::Sync& sync) {
  const int32_t device = SyncDevice(sync);
  int64_t stream = -1;
  if (sync.stream) {
    stream = static_cast<int64_t>(*sync.stream & 0x7fffffff);
    for (const model::Lane& lane : cycle_.lanes) {
      if (lane.device == device && lane.stream == *sync.stream) stream = lane.stream_index;
    }
  }
  auto [it, is_new] = sync_rows_.try_emplace({device, stream}, 0);
  if (is_new) {
    // A context's wait belongs to no stream; Kineto writes tid -1, which viewers refuse.
    const int64_t tid = stream < 0 ? kSyncOffset - 1 : stream + kSyncOffset;
    it->second = AddTrack(device_, device, tid,
                          stream < 0 ? std::string("context (sync)")
                                     : "stream " + std::to_string(stream) + " (sync)");
  }
  return it->second;
}

void ChromeTracks::Use(Track& track, uint32_t lane, int64_t stride) {
  track.is_drawn = true;
  while (track.lane_tids.size() <= lane) {
    const auto k = static_cast<int64_t>(track.lane_tids.size());
    track.lane_tids.push_back(Take(track.pid, track.lane_tids[0] + k * stride));
  }
}

}  // namespace stepagent::writers
