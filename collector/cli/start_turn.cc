#include "collector/cli/start_turn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

namespace stepagent::cli {
namespace {

constexpr int kRoundMs = 20;

// Whether the other is done; the descriptor keeps the turn until it is closed.
bool TakeFolder(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

bool TakeName(int fd, const proto::SocketAddress& address) {
  return bind(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length) == 0;
}

}  // namespace

StartTurn::StartTurn(const proto::RuntimeDirs& dirs,
                     std::chrono::steady_clock::time_point deadline) {
  const std::string folder = proto::SocketFolder(dirs);
  if (!folder.empty()) fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool has_folder = fd_ >= 0;
  const auto address = proto::AddressFromText("@stepagent-start-" + std::to_string(geteuid()));
  if (!has_folder) fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0 || !address) return;
  while (!(has_folder ? TakeFolder(fd_) : TakeName(fd_, *address)) &&
         std::chrono::steady_clock::now() < deadline) {
    poll(nullptr, 0, kRoundMs);
  }
}

StartTurn::~StartTurn() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace stepagent::cli
