#include "collector/launch/collector_word.h"

#include <sys/wait.h>
#include <unistd.h>

#include "collector/launch/frame_socket.h"
#include "proto/frame.h"

namespace stepagent::launch {
namespace {

// Its io thread only ever waits; this is for one that is stopped or swapped out.
constexpr std::chrono::milliseconds kTimeout{2000};

}  // namespace

v1::TargetEnded MakeTargetEnded(const std::string& run, pid_t pid, int wait_status) {
  v1::TargetEnded ended;
  ended.set_protocol(proto::kProtocol);
  ended.set_run(run);
  ended.set_pid(static_cast<uint32_t>(pid));
  if (WIFSIGNALED(wait_status)) ended.set_signal(static_cast<uint32_t>(WTERMSIG(wait_status)));
  if (WIFEXITED(wait_status))
    ended.set_exit_status(static_cast<uint32_t>(WEXITSTATUS(wait_status)));
  return ended;
}

CollectorWord TellCollector(const proto::SocketAddress& address, const v1::TargetEnded& ended,
                            std::chrono::milliseconds timeout) {
  CollectorWord word;
  FrameSocket socket(address, FrameSocket::Clock::now() + timeout);
  const bool is_open = socket.Open();
  word.uid = socket.peer.uid;
  // It takes its own user's sessions and root's.
  if (is_open && geteuid() != 0 && word.uid != geteuid()) {
    word.state = CollectorWord::State::kOthers;
    return word;
  }
  std::string payload;
  v1::Welcome welcome;
  const bool is_heard =
      is_open && socket.Send(proto::FrameType::kTargetEnded, ended.SerializeAsString()) &&
      socket.Receive(proto::FrameType::kWelcome, &payload) && welcome.ParseFromString(payload);
  word.error = socket.error;
  if (!is_open) return word;
  word.state = is_heard ? CollectorWord::State::kAnswered : CollectorWord::State::kSilent;
  word.run_folder = welcome.run_dir();
  return word;
}

CollectorWord TellCollector(const std::string& collector, const proto::RuntimeDirs& dirs,
                            const v1::TargetEnded& ended) {
  if (collector != "auto") {
    const auto address = proto::AddressFromText(collector);
    return address ? TellCollector(*address, ended, kTimeout) : CollectorWord();
  }
  const auto own = proto::CollectorAddress(proto::SocketFolder(dirs), geteuid(), ended.run());
  CollectorWord word = TellCollector(own, ended, kTimeout);
  // An agent whose folder could not be used fell back to the abstract name.
  if (word.state != CollectorWord::State::kNobody || own.IsAbstract()) return word;
  return TellCollector(proto::CollectorAddress("", geteuid(), ended.run()), ended, kTimeout);
}

}  // namespace stepagent::launch
