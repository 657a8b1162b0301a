// env_fds: what a process can see of itself, and what its children can see of themselves.
#include <dirent.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "env_fds [options]: prints environment, descriptors, signals and children of itself, of a "
    "forked\n"
    "  child, and of programs started by fork+exec, posix_spawn and system\n"
    "  --steps N       steps (train_step) before looking, default 20\n"
    "  --step-us N     length of a step, default 1000\n"
    "  --only PART     env, fds, signals or threads; default all but threads\n"
    "  --self          no children\n";

extern char** environ;
static const char* only = NULL;

static bool Shows(const char* part) {
  return only == NULL ? strcmp(part, "threads") != 0 : strcmp(only, part) == 0;
}

static int CompareText(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

static void ShowEnvironment(const char* who) {
  size_t count = 0;
  while (environ[count] != NULL) count++;
  char** sorted = calloc(count + 1, sizeof *sorted);
  Require(sorted != NULL, "calloc");
  memcpy(sorted, environ, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, CompareText);
  for (size_t i = 0; i < count; i++) printf("%s env %s\n", who, sorted[i]);
  free(sorted);
}

static const char* DescriptorType(mode_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISCHR(mode)) return "character device";
  if (S_ISFIFO(mode)) return "pipe";
  if (S_ISSOCK(mode)) return "socket";
  return S_ISDIR(mode) ? "folder" : "other";
}

// Not through /proc alone: a descriptor table of its own is not listed there.
static void ShowDescriptors(const char* who) {
  const long limit = sysconf(_SC_OPEN_MAX);
  for (int descriptor = 0; descriptor < (limit < 4096 ? limit : 4096); descriptor++) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) continue;
    printf("%s fd %d %s\n", who, descriptor, DescriptorType(status.st_mode));
  }
}

static void ShowSignals(const char* who) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  for (int number = 1; number <= SIGRTMAX; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) != 0) continue;
    const bool is_default = action.sa_handler == SIG_DFL;
    const bool is_blocked = sigismember(&mask, number) == 1;
    if (is_default && !is_blocked) continue;
    printf("%s signal %d%s%s\n", who, number, is_blocked ? " blocked" : "",
           is_default                     ? ""
           : action.sa_handler == SIG_IGN ? " ignored"
                                          : " handled");
  }
}

static void ShowThreads(const char* who) {
  DIR* folder = opendir("/proc/self/task");
  if (folder == NULL) return;
  int count = 0;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  printf("%s threads %d\n", who, count);
}

static void Show(const char* who) {
  if (Shows("env")) ShowEnvironment(who);
  if (Shows("fds")) ShowDescriptors(who);
  if (Shows("signals")) ShowSignals(who);
  if (Shows("threads")) ShowThreads(who);
  // A process that is given more children than it made notices here.
  const bool has_children = waitpid(-1, NULL, WNOHANG) >= 0;
  printf("%s children %s\n", who, has_children ? "yes" : "none");
  fflush(stdout);
}

static void Report(pid_t child, const char* how) {
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "waitpid");
  printf("%s status %d\n", how, status);
}

static void ForkChild(void) {
  fflush(stdout);
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    Show("forked");
    _exit(0);
  }
  Report(child, "fork");
}

static void ExecChild(const char* program, bool spawns) {
  char* const arguments[] = {
      (char*)program, "--self", "--steps", "0", only == NULL ? NULL : "--only", (char*)only, NULL};
  pid_t child = 0;
  if (spawns) {
    Require(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0, "posix_spawn");
  } else {
    child = fork();
    Require(child >= 0, "fork");
    if (child == 0) {
      execv(program, arguments);
      _exit(127);
    }
  }
  Report(child, spawns ? "posix_spawn" : "exec");
}

static void SystemChild(const char* program) {
  char command[4400];
  snprintf(command, sizeof command, "'%s' --self --steps 0 %s %s", program,
           only == NULL ? "" : "--only", only == NULL ? "" : only);
  printf("system status %d\n", system(command));
}

int main(int argc, char** argv) {
  static const char* const kParts[] = {"env", "fds", "signals", "threads", NULL};
  uint64_t steps = 20, step_us = 1000;
  int part = -1;
  bool is_self = false;
  const OptionSpec options[] = {
      {"steps", kOptionNumber, &steps, 0, 1e8, NULL},
      {"step-us", kOptionNumber, &step_us, 0, 1e6, NULL},
      {"only", kOptionChoice, &part, 0, 0, kParts},
      {"self", kOptionFlag, &is_self, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  if (part >= 0) only = kParts[part];
  for (uint64_t step = 0; step < steps; step++) {
    PlainStep("work");
    if (step_us > 0) usleep((useconds_t)step_us);
  }
  Show("self");
  if (is_self) return 0;
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  Require(length > 0, "readlink");
  program[length] = '\0';
  ForkChild();
  ExecChild(program, false);
  ExecChild(program, true);
  SystemChild(program);
  return 0;
}
