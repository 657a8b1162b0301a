#pragma once
// A short trial of a program on the real path: library, agent, collector, files.
//
// Purpose: start a command with the agent in it, record windows of `window_ns` (the first of
// looks_twice is shorter) until one holds device work or the time is over, look at its processes
// meanwhile, end it, and read what was written. The files go into a folder of the doctor's own,
// which is removed. Thread rule: one thread. The caller becomes the reaper of everything the
// command leaves behind. Failure rule: `error` says why there was no trial; everything else is what
// was seen.
#include <cstdint>
#include <string>
#include <vector>

#include "collector/cli/doctor_check.h"
#include "collector/launch/process_tree.h"
#include "collector/launch/signal_gate.h"
#include "collector/launch/step_choice.h"
#include "nlohmann/json.hpp"

namespace stepagent::cli {

struct TrialPlan {
  std::vector<std::string> command;
  uint64_t window_ns = 2'000'000'000;
  uint64_t limit_ns = 60'000'000'000;  // for a first window with device work
  bool looks_twice = false;   // with CUPTI left free in between, for a client that comes later
  bool keeps_output = false;  // its stdout is taken (64 KiB at most), else it goes to stderr
};

struct TrialProcess {
  launch::TreeProcess seen;
  int looks = 0;  // one alone may have met it before its libraries were mapped
  bool has_agent = false, has_cuda = false;
  int64_t rank = -1;
};

struct Trial {
  std::string error;
  int interrupted_by = 0;  // the signal; 0: none
  bool has_ended = false;  // before the trial was over
  int wait_status = 0;     // when it has
  std::string output;
  std::vector<TrialProcess> processes;
  std::vector<nlohmann::json> manifests;  // of every cycle, all processes
  std::vector<launch::SeenRange> ranges;  // of all processes, the likeliest step first
  double seconds = 0;
  bool looked_twice = false;
};

[[nodiscard]] Trial RunTrial(const Ground& ground, const TrialPlan& plan,
                             const launch::SignalGate& gate);

}  // namespace stepagent::cli
