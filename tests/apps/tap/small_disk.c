// small_disk.so, preloaded: regular files take $SMALL_DISK_BYTES bytes in all, and not one more.
//
// The write that reaches the last byte is cut short, later ones fail with ENOSPC, as on a full
// disk; with $SMALL_DISK_SLOW_US every write to a file takes that much longer. While the file
// $SMALL_DISK_FREED exists there is room. Nothing else of the process is touched.
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static atomic_long left;
static int is_limited;
static struct timespec slow;
static const char* freed;

__attribute__((constructor)) static void Begin(void) {
  const char* bytes = getenv("SMALL_DISK_BYTES");
  const char* slow_us = getenv("SMALL_DISK_SLOW_US");
  is_limited = bytes != NULL;
  if (bytes != NULL) left = atol(bytes);
  if (slow_us != NULL) slow.tv_nsec = atol(slow_us) * 1000;
  freed = getenv("SMALL_DISK_FREED");
}

static int IsFile(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// How many of `bytes` may be written; -1 and ENOSPC when none.
static ssize_t Grant(int descriptor, size_t bytes) {
  if (bytes == 0 || !IsFile(descriptor)) return (ssize_t)bytes;
  if (slow.tv_nsec != 0) nanosleep(&slow, NULL);
  if (!is_limited || (freed != NULL && access(freed, F_OK) == 0)) return (ssize_t)bytes;
  const long before = atomic_fetch_sub(&left, (long)bytes);
  if (before >= (long)bytes) return (ssize_t)bytes;
  if (before > 0) return before;
  errno = ENOSPC;
  return -1;
}

__attribute__((visibility("default"))) ssize_t write(int descriptor, const void* data,
                                                     size_t bytes) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) next = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  const ssize_t granted = Grant(descriptor, bytes);
  return granted < 0 ? granted : next(descriptor, data, (size_t)granted);
}

__attribute__((visibility("default"))) ssize_t pwrite64(int descriptor, const void* data,
                                                        size_t bytes, off_t at) {
  static ssize_t (*next)(int, const void*, size_t, off_t);
  if (next == NULL)
    next = (ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  const ssize_t granted = Grant(descriptor, bytes);
  return granted < 0 ? granted : next(descriptor, data, (size_t)granted, at);
}

__attribute__((visibility("default"))) ssize_t pwrite(int descriptor, const void* data,
                                                      size_t bytes, off_t at) {
  return pwrite64(descriptor, data, bytes, at);
}

__attribute__((visibility("default"))) ssize_t pwritev(int descriptor, const struct iovec* pieces,
                                                       int count, off_t at) {
  ssize_t total = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t done = pwrite64(descriptor, pieces[i].iov_base, pieces[i].iov_len, at + total);
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if ((size_t)done < pieces[i].iov_len) break;
  }
  return total;
}

// Piece by piece: a cut in the middle of one is a cut of the whole.
__attribute__((visibility("default"))) ssize_t writev(int descriptor, const struct iovec* pieces,
                                                      int count) {
  ssize_t total = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t done = write(descriptor, pieces[i].iov_base, pieces[i].iov_len);
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if ((size_t)done < pieces[i].iov_len) break;
  }
  return total;
}
