#include "agent/drain/io/control_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/core/phase_words.h"
#include "proto/address.h"

namespace stepagent::drain::io {
namespace {

constexpr uint64_t kPeerNs = 2'000'000'000;     // to send its request, to take its answer
constexpr uint64_t kAnswerNs = 10'000'000'000;  // for the thread `stepagent`, which may be arming

int Listen(const proto::SocketAddress& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  // The name holds our pid and a random session: a file that is there is nobody's.
  if (!address.IsAbstract()) unlink(address.raw.sun_path);
  if (bind(fd, raw, address.length) != 0 || listen(fd, 64) != 0) {
    close(fd);
    return -1;
  }
  if (!address.IsAbstract()) chmod(address.raw.sun_path, 0600);
  return fd;
}

bool IsAllowed(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

}  // namespace

ControlServer::~ControlServer() {
  for (const Client& client : clients_) close(client.fd);
  if (listener_ >= 0) close(listener_);
  if (!path_.empty()) unlink(path_.c_str());
}

bool ControlServer::Open() {
  for (const bool in_folder : {true, false}) {
    if (in_folder &&
        (state_->control_folder.empty() || !proto::EnsureSocketFolder(state_->control_folder))) {
      continue;
    }
    const proto::SocketAddress address = proto::AgentAddress(
        in_folder ? state_->control_folder : std::string(), geteuid(), getpid(), state_->session);
    listener_ = Listen(address);
    if (listener_ < 0) continue;
    if (!address.IsAbstract()) path_ = address.raw.sun_path;
    return true;
  }
  return false;
}

void ControlServer::AddPolls(std::vector<pollfd>* polls) const {
  // At the limit the listener is left alone: a descriptor of -1 is skipped.
  polls->push_back({clients_.size() < kMaxClients ? listener_ : -1, POLLIN, 0});
  for (const Client& client : clients_) {
    const short events = client.stage == Stage::kReading   ? POLLIN
                         : client.stage == Stage::kWriting ? POLLOUT
                                                           : 0;  // a hang-up still shows
    polls->push_back({client.fd, events, 0});
  }
}

void ControlServer::OnPolled(const pollfd* polls, size_t count, uint64_t now_ns) {
  for (size_t i = 1; i < count && i <= clients_.size(); ++i) {
    if (polls[i].revents != 0) OnClient(&clients_[i - 1], polls[i].revents, now_ns);
  }
  RemoveOver();
  if (count > 0 && (polls[0].revents & POLLIN) != 0) Accept(now_ns);
}

void ControlServer::Accept(uint64_t now_ns) {
  while (clients_.size() < kMaxClients) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (!IsAllowed(fd)) {
      close(fd);
      continue;
    }
    clients_.push_back(
        {.fd = fd, .id = next_id_++, .deadline_ns = now_ns + kPeerNs, .writer = FrameWriter()});
  }
}

void ControlServer::OnClient(Client* client, short events, uint64_t now_ns) {
  switch (client->stage) {
    case Stage::kReading:
      // Whoever has hung up has told its user that there was no answer.
      if ((events & (POLLHUP | POLLERR)) != 0) {
        client->stage = Stage::kOver;
        return;
      }
      return TakeRequest(client, now_ns);
    case Stage::kWaiting:
      if ((events & (POLLHUP | POLLERR)) != 0) Withdraw(client);
      return;
    case Stage::kWriting:
      if (client->writer.Write(client->fd) != StreamResult::kBlocked) client->stage = Stage::kOver;
      return;
    case Stage::kOver:
      return;
  }
}

// A request that was not taken up yet: nobody waits for it any more.
void ControlServer::Withdraw(Client* client) {
  client->stage = Stage::kOver;
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->requests,
                [client](const PendingRequest& request) { return request.id == client->id; });
}

void ControlServer::TakeRequest(Client* client, uint64_t now_ns) {
  const StreamResult result = client->reader.Next(client->fd);
  if (result == StreamResult::kBlocked) return;
  client->stage = Stage::kOver;
  if (result != StreamResult::kDone ||
      client->reader.header().type != static_cast<uint8_t>(proto::FrameType::kControlRequest)) {
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->requests.size() >= kMaxRequests) return;
    state_->requests.push_back({.id = client->id, .payload = client->reader.payload()});
  }
  client->stage = Stage::kWaiting;
  client->deadline_ns = now_ns + kAnswerNs;
  core::BumpAndWake(&core::g_words->wake);
}

void ControlServer::TakeAnswers(uint64_t now_ns) {
  std::vector<std::pair<uint64_t, std::string>> answers;
  {
    const std::lock_guard lock(state_->mutex);
    answers.swap(state_->answers);
  }
  for (auto& [id, bytes] : answers) {
    const auto client = std::find_if(clients_.begin(), clients_.end(), [id = id](const Client& c) {
      return c.id == id && c.stage == Stage::kWaiting;
    });
    if (client == clients_.end()) continue;  // it has hung up meanwhile
    client->writer.Begin(static_cast<uint8_t>(proto::FrameType::kControlAnswer), 0,
                         std::move(bytes));
    client->stage = Stage::kWriting;
    client->deadline_ns = now_ns + kPeerNs;
    OnClient(&*client, 0, now_ns);
  }
}

void ControlServer::Advance(uint64_t now_ns) {
  TakeAnswers(now_ns);
  for (Client& client : clients_) {
    if (now_ns >= client.deadline_ns) Withdraw(&client);
  }
  RemoveOver();
}

void ControlServer::RemoveOver() {
  std::erase_if(clients_, [](const Client& client) {
    if (client.stage != Stage::kOver) return false;
    close(client.fd);
    return true;
  });
}

uint64_t ControlServer::next_ns() const {
  uint64_t next = 0;
  for (const Client& client : clients_) {
    if (next == 0 || client.deadline_ns < next) next = client.deadline_ns;
  }
  return next;
}

}  // namespace stepagent::drain::io
