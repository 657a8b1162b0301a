/* The idle promise's program: NVTX pairs, kernel launches and allocations, and what they cost.
 *
 *   idle_loop [--recorded] NVTX LAUNCHES ALLOCATIONS [STEPS [REFUSED]]
 *
 * With STEPS it first runs that many ranges `train_step` with a launch each, prints "ready" and
 * waits for a line on standard input, so that whoever runs it can see the cycle written first. Then
 * it makes the calls and prints one JSON object: CPU time per call, what other threads of the
 * process did meanwhile (how often they woke), how much its memory grew, and how many callbacks and
 * calls of CUPTI the simulated library counted. REFUSED launches have a grid of nothing: a call that
 * the driver answers at once, so that what its callbacks cost is not lost in the device's noise.
 * --recorded: the calls are being recorded, so the other threads are never at rest and are not waited
 * for. One thread; needs the simulated device. */
#include <dirent.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stepagent_sim.h"
#include "support/cuda_driver.h"

typedef struct Others {
  int threads;            /* of the agent, by their names; CUPTI keeps one of its own */
  unsigned long switches; /* voluntary ones of all but the caller: sleeps that ended */
} Others;

static double CpuNs(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static long ResidentKib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = -1;
  if (file != NULL) fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void AddThread(const char* tid, Others* others) {
  char path[64], line[128];
  unsigned long count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/status", tid);
  FILE* file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "Name:\tstepagent", 15) == 0) ++others->threads;
    if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1) break;
  }
  if (file != NULL) fclose(file);
  others->switches += count;
}

static Others LookAtOthers(void) {
  Others others = {0, 0};
  DIR* tasks = opendir("/proc/self/task");
  for (struct dirent* entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid()) continue;
    AddThread(entry->d_name, &others);
  }
  if (tasks != NULL) closedir(tasks);
  return others;
}

/* Until nobody else has woken for a tenth of a second, thirty seconds at most. */
static Others AwaitQuiet(void) {
  const struct timespec pause = {0, 100 * 1000 * 1000};
  Others before = LookAtOthers();
  for (int i = 0; i < 300; ++i) {
    nanosleep(&pause, NULL);
    const Others now = LookAtOthers();
    if (now.switches == before.switches && now.threads == before.threads) break;
    before = now;
  }
  return before;
}

static void Launch(const Driver* driver, CUfunction kernel) {
  CU(driver, cuLaunchKernel, (kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static void RunSteps(const Driver* driver, CUfunction kernel, long steps) {
  for (long step = 0; step < steps; ++step) {
    nvtxRangePushA("train_step");
    Launch(driver, kernel);
    CU(driver, cuCtxSynchronize, ());
    nvtxRangePop();
  }
  printf("ready\n");
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == NULL) exit(1);
}

/* A microsecond or so between two calls, as a program has it that computes what it launches: each
 * multiplication waits for the last, so it takes the same number of cycles every time. */
static void WorkABit(void) {
  static volatile unsigned long sink = 3;
  unsigned long value = sink;
  for (int i = 0; i < 1000; ++i) value = value * value + 1;
  sink = value;
}

int main(int argc, char** argv) {
  const int is_recorded = argc > 1 && strcmp(argv[1], "--recorded") == 0;
  argc -= is_recorded;
  argv += is_recorded;
  const long pairs = argc > 1 ? atol(argv[1]) : 1000000;
  const long launches = argc > 2 ? atol(argv[2]) : 100000;
  const long allocations = argc > 3 ? atol(argv[3]) : 100000;
  const long steps = argc > 4 ? atol(argv[4]) : 0;
  const long refused = argc > 5 ? atol(argv[5]) : 0;
  Driver driver;
  char reason[256];
  if (!DriverOpen(&driver, 0, reason, sizeof reason)) {
    fprintf(stderr, "idle_loop: %s\n", reason);
    return 77;
  }
  const stepagent_sim_register_kernel_fn Register =
      (stepagent_sim_register_kernel_fn)DriverSymbol(&driver, "stepagent_sim_register_kernel");
  const stepagent_sim_counter_fn Counter =
      (stepagent_sim_counter_fn)DriverSymbol(&driver, "stepagent_sim_counter");
  if (Register == NULL || Counter == NULL) {
    fprintf(stderr, "idle_loop: the simulated device only\n");
    return 77;
  }
  CUcontext context;
  CU(&driver, cuDevicePrimaryCtxRetain, (&context, 0));
  CU(&driver, cuCtxSetCurrent, (context));
  CUfunction kernel = (CUfunction)Register("kernel", 1);
  nvtxRangePushA("first");
  nvtxRangePop();
  if (steps > 0) RunSteps(&driver, kernel, steps);
  Launch(&driver, kernel);

  const Others before = is_recorded ? LookAtOthers() : AwaitQuiet();
  const unsigned long long callbacks = Counter("cupti.callbacks"), calls = Counter("cupti.calls");
  const long resident = ResidentKib();
  const double t0 = CpuNs();
  for (long i = 0; i < pairs; ++i) {
    nvtxRangePushA("forward");
    nvtxRangePop();
  }
  const double t1 = CpuNs();
  for (long i = 0; i < launches; ++i) {
    Launch(&driver, kernel);
    if (i % 512 == 511) CU(&driver, cuCtxSynchronize, ());
  }
  const double t2 = CpuNs();
  for (long i = 0; i < allocations; ++i) {
    CUdeviceptr memory;
    CU(&driver, cuMemAlloc, (&memory, 4096));
    CU(&driver, cuMemFree, (memory));
  }
  const double t3 = CpuNs();
  for (long i = 0; i < refused; ++i) {
    WorkABit();
    const CUresult result = driver.cuLaunchKernel(kernel, 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    if (result == CUDA_SUCCESS) return 1;
  }
  const double t4 = CpuNs();
  const Others after = LookAtOthers();
  printf(
      "{\"nvtx_ns\": %.3f, \"launch_ns\": %.2f, \"alloc_ns\": %.2f, \"refused_ns\": %.2f, \"threads\": %d, "
      "\"wakes\": %lu, \"rss_kib\": %ld, \"rss_growth_kib\": %ld, \"callbacks\": %llu, "
      "\"cupti_calls\": %llu}\n",
      (t1 - t0) / (double)(pairs > 0 ? pairs : 1),
      (t2 - t1) / (double)(launches > 0 ? launches : 1),
      (t3 - t2) / (double)(allocations > 0 ? allocations : 1),
      (t4 - t3) / (double)(refused > 0 ? refused : 1), after.threads,
      after.switches - before.switches, ResidentKib(), ResidentKib() - resident,
      (unsigned long long)Counter("cupti.callbacks") - callbacks,
      (unsigned long long)Counter("cupti.calls") - calls);
  return 0;
}
