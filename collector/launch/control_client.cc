#include "collector/launch/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "proto/crc32c.h"
#include "proto/frame.h"
#include "proto/limits.h"

namespace stepagent::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kAskedAtOnce = 32;

class Connection {
 public:
  Connection(const proto::AgentEntry& agent, Clock::time_point deadline)
      : agent_(agent), deadline_(deadline) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool Open();
  [[nodiscard]] bool Send(const std::string& bytes);
  [[nodiscard]] bool Receive(void* to, size_t bytes);
  [[nodiscard]] bool Fail(std::string why) {
    error = std::move(why);
    return false;
  }
  std::string error;
  bool is_gone = false;

 private:
  [[nodiscard]] bool CheckPeer();
  [[nodiscard]] bool WaitFor(short events);

  const proto::AgentEntry& agent_;
  const Clock::time_point deadline_;
  int fd_ = -1;
};

bool Connection::WaitFor(short events) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) return Fail("no answer in time");
    pollfd watched{fd_, events, 0};
    const int ready = poll(&watched, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Fail(std::string("poll: ") + std::strerror(errno));
  }
}

bool Connection::Open() {
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Fail(std::string("socket: ") + std::strerror(errno));
  const auto* raw = reinterpret_cast<const sockaddr*>(&agent_.address.raw);
  while (connect(fd_, raw, agent_.address.length) != 0) {
    // EAGAIN: its queue of connections is full; a Unix socket gives no event for that.
    if ((errno == EAGAIN || errno == EINTR) && Clock::now() < deadline_) {
      poll(nullptr, 0, 5);
      continue;
    }
    is_gone = errno == ECONNREFUSED || errno == ENOENT;
    return Fail(agent_.address.Text() + ": " + std::strerror(errno));
  }
  return CheckPeer();
}

// A process of a container that is looked at from outside has another number in there: the last one of
// its NSpid line.
bool IsCalledSo(pid_t pid, int64_t inside) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("NSpid:"))
      return line.substr(line.find_last_of(" \t") + 1) == std::to_string(inside);
  return false;
}

bool Connection::CheckPeer() {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd_, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return Fail(std::string("peer credentials: ") + std::strerror(errno));
  if (geteuid() != 0 && peer.uid != geteuid() && peer.uid != 0)
    return Fail("the socket belongs to user " + std::to_string(peer.uid));
  if (peer.pid != 0 && peer.pid != agent_.pid && !IsCalledSo(peer.pid, agent_.pid))
    return Fail("process " + std::to_string(peer.pid) + " answers in its name");
  return true;
}

bool Connection::Send(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n < 0 && errno == EAGAIN) {
      if (!WaitFor(POLLOUT)) return false;
    } else if (n < 0 && errno != EINTR) {
      return Fail(std::string("send: ") + std::strerror(errno));
    }
  }
  return true;
}

bool Connection::Receive(void* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = recv(fd_, static_cast<char*>(to) + done, bytes - done, 0);
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (n == 0)
      return Fail("it closed the connection without an answer");
    else if (errno == EAGAIN) {
      if (!WaitFor(POLLIN)) return false;
    } else if (errno != EINTR) {
      return Fail(std::string("receive: ") + std::strerror(errno));
    }
  }
  return true;
}

std::string RequestFrame(const v1::ControlRequest& request) {
  const std::string payload = request.SerializeAsString();
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(proto::FrameType::kControlRequest);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  std::string frame(proto::kFrameHeaderBytes, '\0');
  proto::WriteHeader(header, reinterpret_cast<unsigned char*>(frame.data()));
  return frame + payload;
}

bool ReceiveAnswer(Connection* connection, v1::ControlAnswer* message) {
  unsigned char raw[proto::kFrameHeaderBytes];
  proto::FrameHeader header;
  for (;;) {
    if (!connection->Receive(raw, sizeof raw)) return false;
    if (!proto::ParseHeader(raw, &header) || header.payload_bytes > proto::kMaxControlBytes)
      return connection->Fail("its answer is no frame of ours");
    std::string payload(header.payload_bytes, '\0');
    if (!connection->Receive(payload.data(), payload.size())) return false;
    if (header.type != static_cast<uint8_t>(proto::FrameType::kControlAnswer)) continue;
    if (proto::Crc32c(payload.data(), payload.size()) != header.crc32c ||
        !message->ParseFromString(payload))
      return connection->Fail("its answer is damaged");
    return true;
  }
}

}  // namespace

Answer Ask(const proto::AgentEntry& agent, const v1::ControlRequest& request,
           std::chrono::milliseconds timeout) {
  Answer answer;
  answer.agent = agent;
  Connection connection(agent, Clock::now() + timeout);
  v1::ControlAnswer message;
  if (connection.Open() && connection.Send(RequestFrame(request)) &&
      ReceiveAnswer(&connection, &message)) {
    answer.message = std::move(message);
  } else {
    answer.error = connection.error;
    answer.is_gone = connection.is_gone;
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
