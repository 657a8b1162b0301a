// Plays a timeline on as many threads as were recorded.
//
// Every action waits for its turn in the recorded order and for its time. A call that may block
// passes the turn on before it blocks, all others after they returned.
//
// Thread rule: Play is called once, by the thread that stands for the recorded main thread.
// Failure rule: the first failing call stops all threads; Play throws it.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "stage.h"
#include "timeline.h"

namespace stepagent::replay {

struct PlayOptions {
  double speed = 1.0;  // 0: as fast as it goes
  uint64_t loops = 1;
};

using CallCounts = std::array<uint64_t, static_cast<size_t>(CallId::kCount)>;

class Player {
 public:
  Player(const Recording& recording, const std::vector<Action>& timeline, const Stage& stage,
         const PlayOptions& options);

  CallCounts Play();

 private:
  void RunThread(uint32_t thread);
  void RunTurns(uint32_t thread);
  bool AwaitTurn(uint64_t turn);
  void PassTurn(uint64_t turn);
  void SleepUntilDue(uint64_t turn) const;
  void Perform(const Action& action, uint64_t turn, Actor& actor);
  void Fail(std::exception_ptr failure);
  const Action& ActionAt(uint64_t turn) const { return timeline_[turn % timeline_.size()]; }

  const Recording& recording_;
  const std::vector<Action>& timeline_;
  const Stage& stage_;
  const PlayOptions options_;
  const uint64_t turn_count_;
  std::vector<std::vector<uint64_t>> places_;  // per thread: its places in the timeline
  std::vector<nvtxRangeId_t> open_ranges_;     // of start/end annotations
  std::atomic<uint64_t> turn_{0};
  std::atomic<bool> has_failed_{false};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(CallId::kCount)> counts_{};
  int64_t start_ns_ = 0;
  int64_t loop_ns_ = 0;
  std::mutex failure_lock_;
  std::exception_ptr failure_;
};

}  // namespace stepagent::replay
