// many_threads: very many short threads, then many alive at once, each with a range.
#include <limits.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "many_threads [options]: every thread runs one step (train_step with a child range)\n"
    "  --short N       threads one after another, eight at a time, default 2000\n"
    "  --alive N       threads alive at once, default 256\n"
    "  --stack BYTES   stack of each thread, default 65536\n"
    "  --blocked       threads block all signals\n"
    "  --cancel        the alive ones are cancelled within an open range instead of ending\n";

typedef struct Threads {
  pthread_attr_t attributes;
  pthread_barrier_t alive;
  sigset_t all;
  bool blocks, cancels;
} Threads;

static void BlockAll(const Threads* threads) {
  if (threads->blocks) pthread_sigmask(SIG_BLOCK, &threads->all, NULL);
}

static void* ShortThread(void* argument) {
  BlockAll(argument);
  PlainStep("short");
  return NULL;
}

static void* AliveThread(void* argument) {
  Threads* threads = argument;
  BlockAll(threads);
  nvtxRangePushA("train_step");
  pthread_barrier_wait(&threads->alive);
  if (threads->cancels) {
    for (;;) pause();
  }
  nvtxRangePop();
  pthread_barrier_wait(&threads->alive);
  return NULL;
}

static void RunShort(Threads* threads, uint64_t count) {
  enum { kAtOnce = 8 };
  pthread_t handles[kAtOnce];
  for (uint64_t done = 0; done < count; done += kAtOnce) {
    const uint64_t now = count - done < kAtOnce ? count - done : kAtOnce;
    for (uint64_t i = 0; i < now; i++) {
      Require(pthread_create(&handles[i], &threads->attributes, ShortThread, threads) == 0,
              "pthread_create");
    }
    for (uint64_t i = 0; i < now; i++) pthread_join(handles[i], NULL);
  }
}

static void RunAlive(Threads* threads, uint64_t count) {
  pthread_t* handles = calloc(count + 1, sizeof *handles);
  Require(handles != NULL, "calloc");
  pthread_barrier_init(&threads->alive, NULL, (unsigned)count + 1);
  for (uint64_t i = 0; i < count; i++) {
    Require(pthread_create(&handles[i], &threads->attributes, AliveThread, threads) == 0,
            "pthread_create");
  }
  pthread_barrier_wait(&threads->alive);
  for (uint64_t i = 0; i < count && threads->cancels; i++) pthread_cancel(handles[i]);
  if (!threads->cancels) pthread_barrier_wait(&threads->alive);
  for (uint64_t i = 0; i < count; i++) pthread_join(handles[i], NULL);
  pthread_barrier_destroy(&threads->alive);
  free(handles);
}

int main(int argc, char** argv) {
  static Threads threads;
  uint64_t short_count = 2000, alive_count = 256, stack = 65536;
  const OptionSpec options[] = {
      {"short", kOptionNumber, &short_count, 0, 1e8, NULL},
      {"alive", kOptionNumber, &alive_count, 0, 30000, NULL},
      {"stack", kOptionNumber, &stack, 16384, 1 << 30, NULL},
      {"blocked", kOptionFlag, &threads.blocks, 0, 0, NULL},
      {"cancel", kOptionFlag, &threads.cancels, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  sigfillset(&threads.all);
  pthread_attr_init(&threads.attributes);
  Require(pthread_attr_setstacksize(&threads.attributes, stack) == 0, "pthread_attr_setstacksize");
  RunShort(&threads, short_count);
  RunAlive(&threads, alive_count);
  printf("many_threads: %llu short, %llu alive%s\n", (unsigned long long)short_count,
         (unsigned long long)alive_count, threads.cancels ? ", cancelled" : "");
  return 0;
}
