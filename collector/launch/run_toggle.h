#pragma once
// The toggle signal, sent to the launcher: toggles every process of the run.
//
// Purpose: asks each agent of this run over its control socket. Nobody gets the signal itself:
// between a look at what a process catches and the kill lies an exec (measured: it killed the run's
// own collector while that was starting), and a toggle must never be fatal.
// Thread rule: Request from the main thread; the asking runs on a thread of its own, so that a
// hanging process does not keep the launcher from its child.
// Failure rule: who did not take it is said in one line.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "collector/launch/environment.h"
#include "proto/address.h"

namespace stepagent::launch {

class RunToggle {
 public:
  RunToggle(std::string run, const Environment& environment);
  ~RunToggle() { Join(); }
  // None is lost: one that comes while another is under way follows it. Those within 200 ms are
  // one, as the agents count them.
  void Request();
  void Join();

 private:
  using Clock = std::chrono::steady_clock;
  void Work();
  void ToggleOnce();

  const std::string run_;
  const proto::RuntimeDirs dirs_;
  std::thread thread_;
  Clock::time_point last_request_;  // main thread's
  Clock::time_point last_sent_;     // the working thread's
  // Requests not yet worked off. Whoever raises it from 0 starts the thread; the thread ends when
  // it has lowered it to 0.
  std::atomic<int> pending_{0};
};

}  // namespace stepagent::launch
