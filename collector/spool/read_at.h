#pragma once
// pread until all is there or the file ends.
//
// Purpose: one loop for interrupted and short reads. Thread rule: pure but for the file.
// Failure rule: an error reads as the file's end.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <unistd.h>

namespace stepagent::spool {

inline size_t ReadAt(int fd, uint64_t at, char* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, to + done, bytes - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace stepagent::spool
