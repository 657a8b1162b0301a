/* LTTng-UST's share of the path row: THREADS threads make RECORDS launches each, then the program
 * ends. run_bench.py makes the session around it and takes the time until everything is on disk. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/support/lttng_burst.h"

static uint32_t records;

static void* Produce(void* number) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)number % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  StepagentLttngBurst(0, records);
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 1;
  records = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1000000;
  pthread_t made[64];
  struct timespec begin;
  if (threads < 1 || threads > 64) return 2;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < threads; ++i) {
    if (pthread_create(&made[i], NULL, Produce, (void*)(size_t)i) != 0) return 1;
  }
  for (int i = 0; i < threads; ++i) pthread_join(made[i], NULL);
  printf("%lld\n", (long long)begin.tv_sec * 1000000000LL + begin.tv_nsec);
  return 0;
}
