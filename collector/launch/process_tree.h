#pragma once
// The processes below one, as /proc shows them.
//
// Purpose: who of a program's tree has the driver mapped, which CUPTI, and whether it is Python.
// Thread rule: functions without state. Failure rule: a process that ends meanwhile is left out;
// maps that may not be read show nothing mapped.
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::launch {

struct TreeProcess {
  pid_t pid = 0, parent = 0;
  std::string title;
  bool is_zombie = false;
  std::string driver, cupti, stepagent;  // paths of mapped files, "" none
  int64_t told_rank = -1, told_world = -1;  // by its launcher's variables
};

// A process of its own. Nothing of it is known (pid 0): there is none.
[[nodiscard]] TreeProcess LookAtProcess(pid_t pid);
// Every descendant of `root`, parents first; `root` itself is not among them.
[[nodiscard]] std::vector<TreeProcess> ProcessesBelow(pid_t root);

}  // namespace stepagent::launch
