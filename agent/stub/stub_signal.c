/* The toggle signal. The handler writes one word and wakes one waiter: nothing else. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/stub/stub.h"

/* A futex wake, private: the only system call of the handler. */
enum { kFutexWakePrivate = 1 | 128 };

static void on_signal(int number) {
  (void)number;
  const int saved = errno;
  atomic_fetch_add_explicit(&stepagent_stub_state.signals, 1, memory_order_relaxed);
  stepagent_word* wake = atomic_load_explicit(&stepagent_stub_state.wake, memory_order_acquire);
  if (wake != NULL) {
    atomic_fetch_add_explicit(wake, 1, memory_order_release);
    syscall(SYS_futex, wake, kFutexWakePrivate, 0x7fffffff, NULL, NULL, 0);
  }
  errno = saved;
}

static const struct {
  const char* name;
  int number;
} kNames[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
    {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"CONT", SIGCONT},
    {"URG", SIGURG},   {"IO", SIGIO},     {"PWR", SIGPWR},   {"WINCH", SIGWINCH},
    {"XCPU", SIGXCPU}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},
};

static int number_of(const char* text) {
  if (*text < '0' || *text > '9') return -1;
  int value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    value = value * 10 + (*text - '0');
    if (value > 1000) return -1;
  }
  return *text == '\0' ? value : -1;
}

/* As proto/settings.cc's ParseSignal: a number, NAME, SIGNAME, RTMIN+n; 0 for anything else. */
int stepagent_signal_number(const char* text) {
  if (strncmp(text, "SIG", 3) == 0) text += 3;
  int value = number_of(text);
  if (strncmp(text, "RTMIN", 5) == 0) {
    const int offset = text[5] == '\0' ? 0 : text[5] == '+' ? number_of(text + 6) : -1;
    value = offset < 0 ? -1 : SIGRTMIN + offset;
  }
  for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    if (strcmp(text, kNames[i].name) == 0) value = kNames[i].number;
  }
  return value > 0 && value <= SIGRTMAX && value != SIGKILL && value != SIGSTOP ? value : 0;
}

int stepagent_install_signal(int number) {
  struct sigaction current;
  if (number <= 0 || sigaction(number, NULL, &current) != 0) return -1;
  if (current.sa_handler == on_signal) {
    stepagent_stub_state.signal_number = number;
    return 0;
  }
  if (current.sa_handler != SIG_DFL) {
    stepagent_stub_state.signal_taken = 1;
    return -1;
  }
  struct sigaction ours;
  memset(&ours, 0, sizeof ours);
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  if (sigaction(number, &ours, NULL) != 0) return -1;
  stepagent_stub_state.signal_number = number;
  return 0;
}

int stepagent_signal_is_ours(void) {
  struct sigaction current;
  const int number = stepagent_stub_state.signal_number;
  return number > 0 && sigaction(number, NULL, &current) == 0 && current.sa_handler == on_signal;
}

/* In a forked child: the default disposition, until it becomes a session of its own. */
void stepagent_signal_in_child(void) {
  if (!stepagent_signal_is_ours()) return;
  struct sigaction fallback;
  memset(&fallback, 0, sizeof fallback);
  fallback.sa_handler = SIG_DFL;
  sigemptyset(&fallback.sa_mask);
  sigaction(stepagent_stub_state.signal_number, &fallback, NULL);
  stepagent_stub_state.signal_number = 0;
}
