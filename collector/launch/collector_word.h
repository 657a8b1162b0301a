#pragma once
// Tells a run's collector how the launcher's child ended, and hears where the run's folder is.
//
// Purpose: only a parent learns how a process ended, and only a collector that was named knows the
// folder it writes into.
// Thread rule: one thread, at the end of the run.
// Failure rule: what could not be told or heard is in the value; nothing waits longer than the
// timeout.
#include <sys/types.h>

#include <chrono>
#include <string>

#include "proto/address.h"
#include "session.pb.h"

namespace stepagent::launch {

struct CollectorWord {
  enum class State {
    kNobody,   // nobody listens: `error` says why
    kOthers,   // another user's, which takes nothing of ours: `uid`
    kSilent,   // one that did not answer: `error`
    kAnswered  // `run_folder`: "" when it has no session of this run
  };
  State state = State::kNobody;
  std::string error, run_folder;
  uid_t uid = 0;
};

// `wait_status` as waitpid gives it.
[[nodiscard]] v1::TargetEnded MakeTargetEnded(const std::string& run, pid_t pid, int wait_status);
[[nodiscard]] CollectorWord TellCollector(const proto::SocketAddress& address,
                                          const v1::TargetEnded& ended,
                                          std::chrono::milliseconds timeout);
// Of a collector that is named, or of the run's own: where it listens now.
[[nodiscard]] CollectorWord TellCollector(const std::string& collector,
                                          const proto::RuntimeDirs& dirs,
                                          const v1::TargetEnded& ended);

}  // namespace stepagent::launch
