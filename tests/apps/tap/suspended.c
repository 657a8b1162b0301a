// suspended.so: preloaded, it makes the machine look as if it slept for a while.
//
// From $SUSPENDED_AFTER_MS after the first look at a clock on, CLOCK_REALTIME and CLOCK_BOOTTIME
// are ahead by $SUSPENDED_MS; CLOCK_MONOTONIC and the processor's counter are not, as after a
// suspend. Thread rule: any. Failure rule: without the two variables the clocks are the system's.
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t Milliseconds(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : strtoll(text, NULL, 10);
}

static int64_t Read(clockid_t id) {
  struct timespec now;
  syscall(SYS_clock_gettime, id, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// How far ahead the clocks that go on in a suspend are.
static int64_t AsleepNs(void) {
  static _Atomic int64_t wakes_at;
  static _Atomic int64_t asleep_ns;
  int64_t at = atomic_load(&wakes_at);
  if (at == 0) {
    int64_t first = Read(CLOCK_MONOTONIC) + Milliseconds("SUSPENDED_AFTER_MS") * 1000000;
    atomic_store(&asleep_ns, Milliseconds("SUSPENDED_MS") * 1000000);
    if (atomic_compare_exchange_strong(&wakes_at, &at, first)) at = first;
  }
  return Read(CLOCK_MONOTONIC) >= at ? atomic_load(&asleep_ns) : 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec* now) {
  if (id != CLOCK_REALTIME && id != CLOCK_BOOTTIME) return (int)syscall(SYS_clock_gettime, id, now);
  const int64_t shown = Read(id) + AsleepNs();
  now->tv_sec = shown / 1000000000;
  now->tv_nsec = shown % 1000000000;
  return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  struct timespec exact;
  const int result = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return result;
}
