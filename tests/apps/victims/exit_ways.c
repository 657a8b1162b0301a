// exit_ways: runs some steps and leaves by one of many doors.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "exit_ways WAY [STEPS] [STEP_US] [--in-step]: STEPS (10) steps of STEP_US (1000), then\n"
    "  return exit _exit quick_exit abort segv term kill exec\n"
    "  thread_exit     exit() on another thread\n"
    "  main_ends       pthread_exit() in main, the last thread ends\n"
    "  busy_thread     exit() while another thread pushes ranges\n"
    "  atexit_nvtx     ranges from atexit handlers and a destructor\n"
    "  key_nvtx        a range from a thread key's destructor\n"
    "  --in-step: leaves with a step open\n"
    "  Status 5 where the way can carry one.\n";

enum { kStatus = 5 };
static const char* const kWays[] = {
    "return", "exit",        "_exit",     "quick_exit",  "abort",       "segv",     "term", "kill",
    "exec",   "thread_exit", "main_ends", "busy_thread", "atexit_nvtx", "key_nvtx", NULL};
typedef enum Way {
  kReturn,
  kExit,
  kUnderscoreExit,
  kQuickExit,
  kAbort,
  kSegv,
  kTerm,
  kKill,
  kExec,
  kThreadExit,
  kMainEnds,
  kBusyThread,
  kAtexitNvtx,
  kKeyNvtx
} Way;

static bool destructor_pushes;
static pthread_key_t key;

static void* ExitThread(void* unused) {
  (void)unused;
  exit(kStatus);
}

static void* LastThread(void* unused) {
  (void)unused;
  PlainStep("last thread");
  puts("last thread ends");
  fflush(stdout);
  return NULL;
}

static void* BusyThread(void* never) {
  while (never == NULL) PlainStep("busy");
  return NULL;
}

static void PushAtExit(void) { PlainStep("at exit"); }

__attribute__((destructor)) static void PushInDestructor(void) {
  if (destructor_pushes) PlainStep("destructor");
}

static void PushInKey(void* unused) {
  (void)unused;
  PlainStep("key");
}

static void* KeyThread(void* unused) {
  (void)unused;
  pthread_setspecific(key, &key);
  PlainStep("key thread");
  return NULL;
}

static pthread_t Start(void* (*body)(void*)) {
  pthread_t thread;
  Require(pthread_create(&thread, NULL, body, NULL) == 0, "pthread_create");
  return thread;
}

static void LeaveByThread(Way way) {
  switch (way) {
    case kThreadExit:
      Start(ExitThread);
      for (;;) pause();
    case kMainEnds:
      Start(LastThread);
      pthread_exit(NULL);
    case kBusyThread:
      Start(BusyThread);
      exit(kStatus);
    default:
      Require(pthread_key_create(&key, PushInKey) == 0, "pthread_key_create");
      pthread_join(Start(KeyThread), NULL);
      exit(kStatus);
  }
}

static int Leave(Way way, char** argv) {
  switch (way) {
    case kReturn:
      return kStatus;
    case kExit:
      exit(kStatus);
    case kUnderscoreExit:
      _exit(kStatus);
    case kQuickExit:
      quick_exit(kStatus);
    case kAbort:
      abort();
    case kSegv:
      raise(SIGSEGV);
      break;
    case kTerm:
      raise(SIGTERM);
      break;
    case kKill:
      raise(SIGKILL);
      break;
    case kExec:
      execl("/proc/self/exe", argv[0], "return", "3", "0", (char*)NULL);
      Require(false, "execl");
      break;
    case kAtexitNvtx:
      atexit(PushAtExit);
      destructor_pushes = true;
      exit(kStatus);
    default:
      LeaveByThread(way);
  }
  return 1;
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  if (argc < 2) return fputs(kHelp, stderr), 2;
  const bool in_step = strcmp(argv[argc - 1], "--in-step") == 0;
  const int numbers = argc - (in_step ? 1 : 0);
  const Way way = (Way)ParseChoice("WAY", argv[1], kWays);
  const uint64_t steps = numbers > 2 ? ParseNumber("STEPS", argv[2], 0, 100000000) : 10;
  const uint64_t step_us = numbers > 3 ? ParseNumber("STEP_US", argv[3], 0, 1000000) : 1000;
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    if (step_us > 0) usleep((useconds_t)step_us);
    nvtxRangePop();
  }
  if (in_step) nvtxRangePushA("train_step");
  printf("%llu steps, leaving by %s\n", (unsigned long long)steps, kWays[way]);
  fflush(stdout);
  return Leave(way, argv);
}
