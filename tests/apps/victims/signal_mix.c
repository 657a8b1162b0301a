// signal_mix: an application with signal habits of its own.
#include <errno.h>
#include <nvtx3/nvToolsExt.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "signal_mix MODE [SIGNAL]: SIGNAL (12, SIGUSR2) as the application uses it, between steps\n"
    "  before    own handler before the first step\n"
    "  after     own handler after five steps\n"
    "  ignore    SIG_IGN\n"
    "  reset     own handler, then SIG_DFL again; sends nothing\n"
    "  signalfd  blocked and read from a descriptor\n"
    "  sigwait   blocked and taken by a thread\n"
    "  blocked   blocked everywhere, left pending\n"
    "  storm     10000 to the process while threads run steps, own handler\n"
    "  eintr     a timer signal interrupts sleep, read and poll; prints what they returned\n";

enum { kSends = 10, kStormSends = 10000, kStormThreads = 4 };
static const char* const kModes[] = {"before",  "after",   "ignore", "reset", "signalfd",
                                     "sigwait", "blocked", "storm",  "eintr", NULL};
static atomic_int handled;
static atomic_bool is_over;

static void Count(int signal_number) {
  (void)signal_number;
  atomic_fetch_add(&handled, 1);
}

static void Steps(int count) {
  for (int i = 0; i < count; i++) PlainStep("work");
}

static void Dispose(int signal_number, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  Require(sigaction(signal_number, &action, NULL) == 0, "sigaction");
}

static void SendAndStep(int signal_number) {
  for (int i = 0; i < kSends; i++) {
    raise(signal_number);
    Steps(1);
  }
}

static const char* DispositionName(int signal_number) {
  struct sigaction action;
  Require(sigaction(signal_number, NULL, &action) == 0, "sigaction");
  if (action.sa_handler == SIG_DFL) return "default";
  if (action.sa_handler == SIG_IGN) return "ignored";
  return action.sa_handler == Count ? "own handler" : "foreign handler";
}

static void Block(int signal_number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int RunSignalfd(int signal_number) {
  Block(signal_number);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  const int descriptor = signalfd(-1, &set, SFD_CLOEXEC);
  Require(descriptor >= 0, "signalfd");
  int received = 0;
  for (int i = 0; i < kSends; i++) {
    kill(getpid(), signal_number);
    Steps(1);
    struct signalfd_siginfo info;
    received += read(descriptor, &info, sizeof info) == sizeof info;
  }
  close(descriptor);
  return received;
}

static void* WaitThread(void* argument) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, *(int*)argument);
  for (int i = 0; i < kSends; i++) {
    int got = 0;
    if (sigwait(&set, &got) == 0) Count(got);
  }
  return NULL;
}

static int RunSigwait(int signal_number) {
  Block(signal_number);
  pthread_t thread;
  Require(pthread_create(&thread, NULL, WaitThread, &signal_number) == 0, "pthread_create");
  for (int i = 0; i < kSends; i++) {
    kill(getpid(), signal_number);
    // The next one is sent when this one was taken, since equal pending signals are one. A step at
    // least, however quick the other thread is.
    do {
      Steps(1);
    } while (atomic_load(&handled) <= i);
  }
  pthread_join(thread, NULL);
  return atomic_load(&handled);
}

static void* StepLoop(void* unused) {
  (void)unused;
  while (!atomic_load(&is_over)) {
    Steps(1);
    free(malloc(100));
  }
  return NULL;
}

static void RunStorm(int signal_number) {
  Dispose(signal_number, Count);
  pthread_t threads[kStormThreads];
  for (int i = 0; i < kStormThreads; i++) {
    Require(pthread_create(&threads[i], NULL, StepLoop, NULL) == 0, "pthread_create");
  }
  for (int i = 0; i < kStormSends; i++) {
    if (i % 2 == 0) {
      kill(getpid(), signal_number);
    } else {
      pthread_kill(threads[i / 2 % kStormThreads], signal_number);
    }
  }
  atomic_store(&is_over, true);
  for (int i = 0; i < kStormThreads; i++) pthread_join(threads[i], NULL);
  printf("storm: %d sent, %s, alive\n", kStormSends,
         atomic_load(&handled) > 0 ? "own handler ran" : "own handler NEVER RAN");
}

// Without SA_RESTART each call returns early with EINTR.
static void RunEintr(void) {
  Dispose(SIGALRM, Count);
  int ends[2];
  Require(pipe(ends) == 0, "pipe");
  const struct itimerval soon = {.it_value = {.tv_usec = 30000}};
  const struct timespec long_time = {.tv_sec = 5};
  char byte;
  Steps(5);
  setitimer(ITIMER_REAL, &soon, NULL);
  const int slept = nanosleep(&long_time, NULL);
  printf("nanosleep: %d %s\n", slept, slept == 0 ? "whole" : strerror(errno));
  setitimer(ITIMER_REAL, &soon, NULL);
  const ssize_t got = read(ends[0], &byte, 1);
  printf("read: %zd %s\n", got, got >= 0 ? "" : strerror(errno));
  setitimer(ITIMER_REAL, &soon, NULL);
  struct pollfd poll_end = {.fd = ends[0], .events = POLLIN};
  const int ready = poll(&poll_end, 1, 5000);
  printf("poll: %d %s\n", ready, ready >= 0 ? "" : strerror(errno));
  printf("alarms: %d\n", atomic_load(&handled));
}

static void RunHandlers(int mode, int signal_number) {
  if (mode == 1) Steps(5);
  Dispose(signal_number, mode == 2 ? SIG_IGN : Count);
  Steps(5);
  if (mode == 3) {
    Dispose(signal_number, SIG_DFL);
    Steps(5);
  } else {
    SendAndStep(signal_number);
  }
  printf("%s: %d handled, disposition: %s\n", kModes[mode], atomic_load(&handled),
         DispositionName(signal_number));
}

static void RunBlocked(int signal_number) {
  Block(signal_number);
  SendAndStep(signal_number);
  sigset_t pending;
  sigpending(&pending);
  printf("blocked: %s\n", sigismember(&pending, signal_number) ? "pending" : "GONE");
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  if (argc < 2) return fputs(kHelp, stderr), 2;
  const int mode = ParseChoice("MODE", argv[1], kModes);
  const int signal_number = argc > 2 ? (int)ParseNumber("SIGNAL", argv[2], 1, 64) : SIGUSR2;
  switch (mode) {
    case 4:
      printf("signalfd: %d received\n", RunSignalfd(signal_number));
      break;
    case 5:
      printf("sigwait: %d received\n", RunSigwait(signal_number));
      break;
    case 6:
      RunBlocked(signal_number);
      break;
    case 7:
      RunStorm(signal_number);
      break;
    case 8:
      RunEintr();
      break;
    default:
      RunHandlers(mode, signal_number);
  }
  return 0;
}
