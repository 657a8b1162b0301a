#include "collector/ingest/listen.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collector/spool/folders.h"

namespace stepagent::ingest {
namespace {

constexpr int kBacklog = 512;
constexpr int kLockTries = 10;

bool SomebodyListens(const proto::SocketAddress& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  // EAGAIN: a full backlog, so somebody is there.
  const bool is_served = connect(fd, raw, address.length) == 0 || errno == EAGAIN;
  close(fd);
  return is_served;
}

}  // namespace

Listener::~Listener() { Close(); }

int Listener::TakeSocket() {
  const int fd = socket_;
  socket_ = -1;
  return fd;
}

void Listener::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  // Both while the lock is still held: a new collector sees either everything or nothing.
  if (is_bound_ && !path_.empty()) unlink(path_.c_str());
  if (lock_fd_ >= 0) {
    unlink(lock_path_.c_str());
    close(lock_fd_);
  }
  lock_fd_ = -1;
  is_bound_ = false;
}

Listener::Result Listener::Lock() {
  lock_path_ = path_ + ".lock";
  for (int i = 0; i < kLockTries; ++i) {
    const int fd =
        open(lock_path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0) {
      error_ = spool::ErrnoText(lock_path_, "cannot open", errno);
      return Result::kFailed;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return Result::kAlreadyServed;
    }
    struct stat ours {
    }, there{};
    const bool is_current = fstat(fd, &ours) == 0 && lstat(lock_path_.c_str(), &there) == 0 &&
                            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
    if (is_current) {
      lock_fd_ = fd;
      return Result::kListening;
    }
    close(fd);  // its owner removed it between our open and our lock
  }
  error_ = lock_path_ + ": keeps changing";
  return Result::kFailed;
}

Listener::Result Listener::Open(const proto::SocketAddress& address) {
  if (!address.IsAbstract()) {
    path_ = address.Text();
    const size_t slash = path_.rfind('/');
    if (slash != std::string::npos && slash > 0) {
      const std::string folder = path_.substr(0, slash);
      if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
        error_ = spool::ErrnoText(folder, "cannot create folder", errno);
        return Result::kFailed;
      }
    }
    const Result locked = Lock();
    if (locked != Result::kListening) return locked;
  }
  return Bind(address);
}

Listener::Result Listener::Bind(const proto::SocketAddress& address) {
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.raw);
  const mode_t old_mask = umask(S_IRWXG | S_IRWXO);
  int bound = bind(socket_, raw, address.length);
  if (bound != 0 && errno == EADDRINUSE) {
    if (SomebodyListens(address) || path_.empty()) {
      umask(old_mask);
      return Result::kAlreadyServed;
    }
    struct stat st {};
    const bool is_socket = lstat(path_.c_str(), &st) == 0 && S_ISSOCK(st.st_mode);
    if (is_socket && unlink(path_.c_str()) == 0) bound = bind(socket_, raw, address.length);
  }
  const int error = errno;
  umask(old_mask);
  if (bound != 0 || listen(socket_, kBacklog) != 0) {
    error_ = spool::ErrnoText(address.Text(), "cannot listen", bound != 0 ? error : errno);
    return Result::kFailed;
  }
  is_bound_ = true;
  return Result::kListening;
}

}  // namespace stepagent::ingest
