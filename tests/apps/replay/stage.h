// What recorded calls need to be issued again: streams, memory of each kind, kernels, events.
//
// Thread rule: built by one thread; Issue is called by many, each with its own Actor.
// Failure rule: a failing call throws std::runtime_error with its name.
#pragma once

#include <unordered_map>
#include <vector>

#include "recording.h"
#include "runtime.h"

namespace stepagent::replay {

// A replaying thread's own state: calls without a recorded stream go to the last one it used.
struct Actor {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
};

class Stage {
 public:
  Stage(const Runtime& runtime, const Recording& recording);

  // To be called on the actor's own thread, once.
  Actor MakeActor() const;
  void Issue(const Call& call, Actor& actor) const;

 private:
  void MakeStreams();
  void MakeMemory();
  void MakeKernels();
  void MakeGraphs();
  cudaGraphExec_t CaptureGraph(uint32_t work, cudaStream_t stream) const;
  int DeviceOf(int64_t recorded) const;
  cudaStream_t MakeStream(int64_t recorded) const;

  void IssueGraph(const Call& call, cudaStream_t stream) const;
  void IssueLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const;
  int IssueDriverLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const;
  int IssueRuntimeLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const;
  void IssueTransfer(const Call& call, const DeviceWork& work, cudaStream_t stream) const;
  void IssueOther(const Call& call, Actor& actor) const;

  const Runtime& runtime_;
  const Recording& recording_;
  int device_count_ = 0;
  std::vector<cudaStream_t> streams_;                     // of recording_.streams
  std::unordered_map<uint32_t, cudaGraphExec_t> graphs_;  // by the first work of the launch
  std::vector<void*> kernels_;  // of recording_.names; null where no kernel has that name
  std::array<void*, static_cast<size_t>(Memory::kCount)> sources_{}, targets_{};
};

}  // namespace stepagent::replay
