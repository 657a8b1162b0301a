#pragma once
// What `stepagent run` is going to do, decided before anything starts.
//
// Purpose: options, environment and defaults joined and checked, as one value that tests can look
// at.
// Thread rule: pure, but for random bytes and the wall clock of a new run id, /proc for a shared
// one.
// Failure rule: a plan with an error line starts nothing; the launcher then exits with `status`.
#include <string>
#include <utility>
#include <vector>

#include "proto/settings.h"

namespace stepagent::launch {

struct RunPlan {
  std::string error;  // one line; "" good
  int status = 0;     // 2 usage, 125 our own failure
  bool wants_help = false;
  proto::Settings settings;  // as the agents will see them
  std::vector<std::string> command;
  std::string run;                // the run's id, its folder's name
  bool is_task = false;           // one of several tasks of a job step, which share the run
  bool is_first_task = true;      // of this host: its launcher alone prints the rows of all
  std::string redact_key;         // to set for the child; empty: it has one already
  bool is_whole = false;          // nothing said what a step is: one cycle, first use to end
  std::vector<std::string> says;  // lines for stderr before the start
  std::vector<std::pair<std::string, std::string>> variables;  // to set for the child

  [[nodiscard]] std::string RunFolder() const { return settings.out + "/" + run; }
};

[[nodiscard]] RunPlan MakeRunPlan(const std::vector<std::string>& args, char* const* environment);
// <UTC yyyymmddThhmmss>_<8 hex>
[[nodiscard]] std::string NewRunId();

}  // namespace stepagent::launch
