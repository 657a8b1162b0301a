/* Writes one line per signal received into the file argv[1]; TERM ends it with status 5. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int file;
static volatile sig_atomic_t stop;

static void Note(int number) {
  char line[8];
  const int n = snprintf(line, sizeof line, "%d\n", number);
  if (write(file, line, (size_t)n) < 0) stop = 1;
  if (number == SIGTERM) stop = 1;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = Note;
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const int taken[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGTERM, SIGWINCH, SIGRTMIN + 1};
  for (unsigned i = 0; i < sizeof taken / sizeof *taken; ++i) sigaction(taken[i], &action, NULL);
  if (write(file, "ready\n", 6) < 0) return 3;
  while (!stop) sigsuspend(&before);
  return 5;
}
