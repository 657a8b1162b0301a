// server: a long-lived inference loop. Requests arrive at a steady rate, worker threads serve them,
// each under the NVTX range "request". It knows no schedule and ends on SIGTERM or at a limit.
#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "queue.h"
#include "support/parse.h"
#include "worker.h"

enum { kMaxWorkers = 64 };

static const char kHelp[] =
    "server [options]: serves made-up requests until SIGTERM or SIGINT\n"
    "  --workers N      threads, default 4\n"
    "  --rate N         requests per second, default 200; 0 makes none\n"
    "  --kernels N      kernels per request, default 4\n"
    "  --kernel-us N    least duration of a kernel, default 0: as the device takes\n"
    "  --requests N     end after N requests, default 0: no limit\n"
    "  --seconds S      end after S seconds, default 0: no limit\n"
    "  --idle-first S   after the ready line, serve nothing for S seconds\n"
    "  --burst N        after every N requests rest for --rest seconds\n"
    "  --rest S         see --burst, default 1\n"
    "  --host-only      use no device even if there is one\n";

typedef struct Settings {
  uint32_t workers, kernels;
  uint64_t requests, burst, kernel_us;
  double rate, seconds, idle_first, rest;
  bool host_only;
} Settings;

static volatile sig_atomic_t is_ending;

static void OnEnd(int signal_number) {
  (void)signal_number;
  is_ending = 1;
}

static double Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Sleeps until `deadline` or the end; false at the end. SIGTERM and SIGINT are blocked except in
// here, so none can fall between the check and the sleep.
static bool RestUntil(double deadline, const sigset_t* open_mask) {
  for (double left = deadline - Now(); left > 0 && !is_ending; left = deadline - Now()) {
    const struct timespec time = {.tv_sec = (time_t)left,
                                  .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    ppoll(NULL, 0, &time, open_mask);
  }
  return !is_ending;
}

static Settings ParseSettings(int argc, char** argv) {
  Settings settings = {.workers = 4, .kernels = 4, .rate = 200, .rest = 1};
  const OptionSpec options[] = {
      {"workers", kOptionNumber32, &settings.workers, 1, kMaxWorkers, NULL},
      {"rate", kOptionReal, &settings.rate, 0, 1e6, NULL},
      {"kernels", kOptionNumber32, &settings.kernels, 1, 1000, NULL},
      {"kernel-us", kOptionNumber, &settings.kernel_us, 0, 1e7, NULL},
      {"requests", kOptionNumber, &settings.requests, 0, 1.9e19, NULL},
      {"seconds", kOptionReal, &settings.seconds, 0, 1e6, NULL},
      {"idle-first", kOptionReal, &settings.idle_first, 0, 1e6, NULL},
      {"burst", kOptionNumber, &settings.burst, 0, 1e9, NULL},
      {"rest", kOptionReal, &settings.rest, 0, 1e6, NULL},
      {"host-only", kOptionFlag, &settings.host_only, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  return settings;
}

// Offers requests at the rate until the end; returns their number.
static uint64_t Generate(const Settings* settings, RequestQueue* queue, double start,
                         const sigset_t* open_mask) {
  const double end = settings->seconds > 0 ? start + settings->seconds : start + 1e9;
  if (!RestUntil(start + settings->idle_first, open_mask)) return 0;
  if (settings->rate <= 0) {
    RestUntil(end, open_mask);
    return 0;
  }
  uint64_t offered = 0;
  double next = Now();
  while (!is_ending && Now() < end && (settings->requests == 0 || offered < settings->requests)) {
    if (QueueOffer(queue, offered)) offered++;
    next += 1.0 / settings->rate;
    if (settings->burst > 0 && offered % settings->burst == 0) next = Now() + settings->rest;
    RestUntil(next < end ? next : end, open_mask);
  }
  return offered;
}

// Returns the mask as it was, in which both signals are open.
static sigset_t CatchEnd(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = OnEnd;
  sigset_t ends, open_mask;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, &open_mask);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  return open_mask;
}

int main(int argc, char** argv) {
  static Device device;
  static RequestQueue queue;
  static Worker workers[kMaxWorkers];
  static atomic_uint_fast64_t served;
  const Settings settings = ParseSettings(argc, argv);
  const sigset_t open_mask = CatchEnd();
  char reason[160] = "asked for";
  const bool has_device =
      !settings.host_only && DeviceOpen(&device, 0, settings.kernel_us, reason, sizeof reason);
  QueueInit(&queue);
  for (uint32_t i = 0; i < settings.workers; i++) {
    workers[i] = (Worker){.queue = &queue, .kernels = settings.kernels, .served = &served};
    if (has_device) workers[i].device = &device;
    if (pthread_create(&workers[i].thread, NULL, WorkerMain, &workers[i]) != 0) abort();
  }
  nvtxMarkA("server ready");
  printf("ready: pid %d, %u workers, device: %s\n", (int)getpid(), settings.workers,
         has_device ? device.name : "none, host only");
  fflush(stdout);
  const uint64_t offered = Generate(&settings, &queue, Now(), &open_mask);
  QueueClose(&queue);
  for (uint32_t i = 0; i < settings.workers; i++) pthread_join(workers[i].thread, NULL);
  if (has_device) DeviceClose(&device);
  const uint64_t done = atomic_load(&served);
  printf("served: %" PRIu64 " of %" PRIu64 "\n", done, offered);
  return done == offered ? 0 : 1;
}
