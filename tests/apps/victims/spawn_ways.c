// spawn_ways: makes a child in one of many ways; the child runs steps of its own.
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "spawn_ways WAY [STEPS]: STEPS (5) steps here, then a child with as many, made by\n"
    "  fork fork_exec vfork posix_spawn system popen double_fork daemon three_forks cuda_fork\n"
    "  Children of fork and daemon do not exec. `child` is what exec'd children run. cuda_fork: the\n"
    "  parent has CUDA up, and the child, which must not call it, only steps.\n";

extern char** environ;
static const char* const kWays[] = {"fork",        "fork_exec", "vfork",       "posix_spawn",
                                    "system",      "popen",     "double_fork", "daemon",
                                    "three_forks", "child",     "cuda_fork",   NULL};
static char program[4096];
static char step_text[32];
static uint64_t steps = 5;

static void RunSteps(const char* who) {
  for (uint64_t step = 0; step < steps; step++) {
    PlainStep(who);
    usleep(1000);
  }
  printf("%s: %llu steps\n", who, (unsigned long long)steps);
  fflush(stdout);
}

static void Await(pid_t child, const char* way) {
  int status = 0;
  Require(waitpid(child, &status, 0) == child, "waitpid");
  printf("%s: status %d\n", way, status);
}

static void ForkChildren(int count) {
  for (int i = 0; i < count; i++) {
    fflush(stdout);
    const pid_t child = fork();
    Require(child >= 0, "fork");
    if (child == 0) {
      RunSteps("forked child");
      _exit(0);
    }
    Await(child, "fork");
  }
}

// vfork shares the parent's memory until exec: the canary tells who else wrote there.
static void VforkChild(void) {
  volatile unsigned canary = 0x5afe5afe;
  const pid_t child = vfork();
  Require(child >= 0, "vfork");
  if (child == 0) {
    execl(program, program, "child", step_text, (char*)NULL);
    _exit(127);
  }
  Await(child, "vfork");
  printf("canary: %s\n", canary == 0x5afe5afe ? "alive" : "OVERWRITTEN");
}

static void ExecChild(int is_spawn) {
  char* const arguments[] = {program, "child", step_text, NULL};
  pid_t child = 0;
  if (is_spawn) {
    Require(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0, "posix_spawn");
  } else {
    child = fork();
    Require(child >= 0, "fork");
    if (child == 0) {
      execv(program, arguments);
      _exit(127);
    }
  }
  Await(child, is_spawn ? "posix_spawn" : "fork_exec");
}

static void ShellChild(int is_popen) {
  char command[4200];
  snprintf(command, sizeof command, "'%s' child %s", program, step_text);
  if (!is_popen) {
    printf("system: status %d\n", system(command));
    return;
  }
  FILE* output = popen(command, "r");
  Require(output != NULL, "popen");
  char line[256];
  while (fgets(line, sizeof line, output) != NULL) fputs(line, stdout);
  printf("popen: status %d\n", pclose(output));
}

// The grandchild is nobody's child; its end is seen through a pipe.
static void Grandchild(int is_daemon) {
  int ends[2];
  Require(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  Require(child >= 0, "fork");
  if (child == 0) {
    close(ends[0]);
    if (is_daemon) {
      Require(daemon(1, 1) == 0, "daemon");
    } else if (fork() != 0) {
      _exit(0);
    }
    RunSteps("grandchild");
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  close(ends[1]);
  Await(child, is_daemon ? "daemon" : "double_fork");
  char byte = 0;
  printf("grandchild: %s\n", read(ends[0], &byte, 1) == 1 ? "done" : "LOST");
}

static void InitCuda(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  Require(driver != NULL, "dlopen libcuda.so.1");
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  Require(init != NULL && init(0) == 0, "cuInit");
}

static void MakeChild(int way) {
  switch (way) {
    case 0:
      ForkChildren(1);
      break;
    case 1:
      ExecChild(0);
      break;
    case 2:
      VforkChild();
      break;
    case 3:
      ExecChild(1);
      break;
    case 4:
      ShellChild(0);
      break;
    case 5:
      ShellChild(1);
      break;
    case 6:
      Grandchild(0);
      break;
    case 7:
      Grandchild(1);
      break;
    case 10:
      InitCuda();
      RunSteps("parent with CUDA");
      ForkChildren(1);
      break;
    default:
      ForkChildren(3);
  }
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  if (argc < 2) return fputs(kHelp, stderr), 2;
  const int way = ParseChoice("WAY", argv[1], kWays);
  if (argc > 2) steps = ParseNumber("STEPS", argv[2], 0, 1000000);
  snprintf(step_text, sizeof step_text, "%llu", (unsigned long long)steps);
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  Require(length > 0, "readlink");
  if (way == 9) return RunSteps("child"), 0;
  RunSteps("parent");
  MakeChild(way);
  RunSteps("parent again");
  return 0;
}
