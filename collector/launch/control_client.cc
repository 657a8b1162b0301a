#include "collector/launch/control_client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>

#include "collector/launch/frame_socket.h"

namespace stepagent::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kAskedAtOnce = 32;

// A process of a container that is looked at from outside has another number in there: the last one
// of its NSpid line.
bool IsCalledSo(pid_t pid, int64_t inside) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("NSpid:"))
      return line.substr(line.find_last_of(" \t") + 1) == std::to_string(inside);
  return false;
}

bool IsRightPeer(const proto::AgentEntry& agent, FrameSocket* socket) {
  const ucred& peer = socket->peer;
  if (geteuid() != 0 && peer.uid != geteuid() && peer.uid != 0)
    return socket->Fail("the socket belongs to user " + std::to_string(peer.uid));
  if (peer.pid != 0 && peer.pid != agent.pid && !IsCalledSo(peer.pid, agent.pid))
    return socket->Fail("process " + std::to_string(peer.pid) + " answers in its name");
  return true;
}

}  // namespace

Answer Ask(const proto::AgentEntry& agent, const v1::ControlRequest& request,
           std::chrono::milliseconds timeout) {
  Answer answer;
  answer.agent = agent;
  FrameSocket socket(agent.address, Clock::now() + timeout);
  v1::ControlAnswer message;
  std::string payload;
  const bool is_answered =
      socket.Open() && IsRightPeer(agent, &socket) &&
      socket.Send(proto::FrameType::kControlRequest, request.SerializeAsString()) &&
      socket.Receive(proto::FrameType::kControlAnswer, &payload);
  if (is_answered && message.ParseFromString(payload)) {
    answer.message = std::move(message);
  } else {
    answer.error = is_answered ? "its answer is damaged" : socket.error;
    const bool is_asked_to_act = request.verb() != v1::ControlRequest::STATUS;
    if (socket.is_late && is_asked_to_act) {
      answer.error +=
          ": the request is withdrawn; if it was being carried out just then, stepagent status "
          "shows it";
    }
    answer.is_gone = socket.connect_error == ECONNREFUSED || socket.connect_error == ENOENT;
  }
  return answer;
}

std::vector<Answer> AskAll(const std::vector<proto::AgentEntry>& agents,
                           const v1::ControlRequest& request, std::chrono::milliseconds timeout) {
  std::vector<Answer> answers(agents.size());
  for (size_t from = 0; from < agents.size(); from += kAskedAtOnce) {
    std::vector<std::thread> threads;
    for (size_t i = from; i < std::min(agents.size(), from + kAskedAtOnce); ++i)
      threads.emplace_back([&, i] { answers[i] = Ask(agents[i], request, timeout); });
    for (std::thread& thread : threads) thread.join();
  }
  return answers;
}

v1::ControlRequest MakeRequest(v1::ControlRequest::Verb verb) {
  v1::ControlRequest request;
  request.set_protocol(proto::kProtocol);
  request.set_verb(verb);
  return request;
}

const char* PhaseText(v1::Phase phase) {
  switch (phase) {
    case v1::PHASE_IDLE:
      return "idle";
    case v1::PHASE_WAITING:
      return "waiting";
    case v1::PHASE_WARMUP:
      return "warmup";
    case v1::PHASE_ACTIVE:
      return "active";
    case v1::PHASE_FINISHING:
      return "finishing";
    case v1::PHASE_DONE:
      return "done";
    default:
      return "unknown";
  }
}

}  // namespace stepagent::launch
