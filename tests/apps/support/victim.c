#include "victim.h"

#include <errno.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void Require(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

double MonotonicSeconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool WaitChild(pid_t child, double seconds, int* status) {
  // The number is the same on every architecture; older headers lack the name.
  enum { kPidfdOpen = 434 };
  const int descriptor = (int)syscall(kPidfdOpen, child, 0);
  Require(descriptor >= 0, "pidfd_open");
  struct pollfd ended = {.fd = descriptor, .events = POLLIN};
  const double deadline = MonotonicSeconds() + seconds;
  int ready = 0;
  do {
    const double left = deadline - MonotonicSeconds();
    ready = poll(&ended, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
  } while (ready < 0 && errno == EINTR);
  close(descriptor);
  if (ready <= 0) return false;
  Require(waitpid(child, status, 0) == child, "waitpid");
  return true;
}

void HelpOption(int argc, char** argv, const char* help) {
  if (argc < 2 || strcmp(argv[1], "--help") != 0) return;
  fputs(help, stdout);
  exit(0);
}

void PlainStep(const char* child) {
  nvtxRangePushA("train_step");
  nvtxRangePushA(child);
  nvtxRangePop();
  nvtxRangePop();
}
