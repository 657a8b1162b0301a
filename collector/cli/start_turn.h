#pragma once
// One `start` at a time chooses a step and arms.
//
// Purpose: two `stepagent start` at once would each get some of the ranks, with two begin steps.
// The second waits until the first has sent its requests, and is then told that the ranks are busy.
// Thread rule: one thread. Failure rule: where there is nothing to take turns by, or the other
// holds on for too long, the start goes on: common_step.h still sees when ranks were taken
// meanwhile.
#include <chrono>

#include "proto/address.h"

namespace stepagent::cli {

class StartTurn {
 public:
  StartTurn(const proto::RuntimeDirs& dirs, std::chrono::steady_clock::time_point deadline);
  ~StartTurn();
  StartTurn(const StartTurn&) = delete;
  StartTurn& operator=(const StartTurn&) = delete;

 private:
  int fd_ = -1;  // a lock on the folder of control sockets, or an abstract name
};

}  // namespace stepagent::cli
