#include "collector/launch/run_notes.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/address.h"
#include "proto/crc32c.h"
#include "proto/frame.h"
#include "proto/limits.h"

namespace stepagent::launch {
namespace {

constexpr size_t kMaxNotes = 4096;

// The kernel states the sender's user for each datagram.
bool IsFromUs(const msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(const_cast<msghdr*>(&message), c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return sender.uid == geteuid() || sender.uid == 0 || geteuid() == 0;
  }
  return false;
}

bool ParseNote(const std::string& bytes, v1::AgentStatus* status) {
  proto::FrameHeader header;
  if (bytes.size() < proto::kFrameHeaderBytes ||
      !proto::ParseHeader(reinterpret_cast<const unsigned char*>(bytes.data()), &header))
    return false;
  const size_t payload = bytes.size() - proto::kFrameHeaderBytes;
  const char* data = bytes.data() + proto::kFrameHeaderBytes;
  v1::ControlAnswer answer;
  if (header.type != static_cast<uint8_t>(proto::FrameType::kControlAnswer) ||
      header.payload_bytes != payload || header.crc32c != proto::Crc32c(data, payload) ||
      !answer.ParseFromArray(data, static_cast<int>(payload)) || !answer.has_status())
    return false;
  *status = answer.status();
  return true;
}

}  // namespace

RunNotes::RunNotes(const std::string& run) {
  const std::string name =
      "@stepagent/" + std::to_string(geteuid()) + "/run." + run + "." + std::to_string(getpid());
  const auto address = proto::AddressFromText(name);
  if (!address) return;
  fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (fd_ < 0) return;
  setsockopt(fd_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&address->raw), address->length) == 0)
    address_ = name;
}

RunNotes::~RunNotes() {
  if (fd_ >= 0) close(fd_);
}

void RunNotes::Receive() {
  std::string bytes(proto::kMaxControlBytes, '\0');
  for (;;) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd_, &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    v1::AgentStatus status;
    if ((message.msg_flags & MSG_TRUNC) || !IsFromUs(message) || notes_.size() >= kMaxNotes)
      continue;
    if (ParseNote(bytes.substr(0, static_cast<size_t>(n)), &status))
      notes_.push_back(std::move(status));
  }
}

}  // namespace stepagent::launch
