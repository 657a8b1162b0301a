#include "agent/drain/io/private_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace stepagent::drain::io {
namespace {

#ifndef SYS_close_range
constexpr long SYS_close_range = 436;  // the same number on every architecture
#endif
constexpr unsigned kCloseRangeUnshare = 2;  // CLOSE_RANGE_UNSHARE of linux/close_range.h

// Before Linux 5.9. The table is a copy by now, so that closing is ours alone.
bool UnshareAndClose() {
  if (unshare(CLONE_FILES) != 0) return false;
  DIR* listing = opendir("/proc/thread-self/fd");
  if (listing == nullptr) {
    // No /proc: descriptors are handed out from the bottom, and few programs have more.
    for (int fd = 0; fd < 65536; ++fd) close(fd);
    return true;
  }
  const int own = dirfd(listing);
  while (const dirent* entry = readdir(listing)) {
    char* end;
    const long fd = strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && fd != own) close(static_cast<int>(fd));
  }
  closedir(listing);
  return true;
}

}  // namespace

bool EnterPrivateFiles() {
  if (syscall(SYS_close_range, 0U, ~0U, kCloseRangeUnshare) != 0 && !UnshareAndClose()) {
    return false;
  }
  while (true) {
    const int fd = open("/", O_PATH | O_CLOEXEC);
    if (fd < 0) break;  // no root to open: numbers stay free, as they would without us
    if (fd > 2) {
      close(fd);
      break;
    }
  }
  return true;
}

}  // namespace stepagent::drain::io
