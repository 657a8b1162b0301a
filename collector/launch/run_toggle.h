#pragma once
// The toggle signal, sent to the launcher: toggles every process of the run.
//
// Purpose: asks each agent of this run over its control socket; processes that cannot be asked but
// catch the signal get the signal itself. Never anything fatal: a process that does not catch it
// gets none.
// Thread rule: Request from the main thread; the asking runs on a thread of its own, so that a
// hanging process does not keep the launcher from its child.
// Failure rule: who did not take it is said in one line.
#include <atomic>
#include <string>
#include <thread>

#include "collector/launch/environment.h"
#include "proto/address.h"

namespace stepagent::launch {

class RunToggle {
 public:
  RunToggle(std::string run, const Environment& environment, int signal_number);
  ~RunToggle() { Join(); }
  // Merged with one that is under way, as the agents merge toggles within 200 ms.
  void Request();
  void Join();

 private:
  void Work();

  const std::string run_;
  const proto::RuntimeDirs dirs_;
  const int signal_number_;
  std::thread thread_;
  std::atomic<bool> is_busy_{false};  // Request stores true before the thread; its end stores false
};

// Processes of this user with STEPAGENT_RUN=<run> in their environment that catch the signal.
[[nodiscard]] std::vector<pid_t> CatchersOf(const std::string& run, int signal_number);

}  // namespace stepagent::launch
