// sandboxed: runs a command, or steps of its own, under limits and refused system calls.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "sandboxed [options] [-- COMMAND...]: limits itself, then runs COMMAND, or STEPS steps of its "
    "own\n"
    "  --deny LIST    system calls that fail with EPERM, of socket clone memfd openat, comma "
    "separated\n"
    "  --nofile N     RLIMIT_NOFILE\n"
    "  --as BYTES     RLIMIT_AS\n"
    "  --nproc N      RLIMIT_NPROC\n"
    "  --fsize BYTES  RLIMIT_FSIZE\n"
    "  --after N      without COMMAND: the limits come after N steps, default 0\n"
    "  --steps N      default 20\n";

typedef struct Refusal {
  const char* name;
  int numbers[3];  // system calls, ended by -1
} Refusal;

static const Refusal kRefusals[] = {
    {"socket", {SYS_socket, -1, -1}},
#ifdef SYS_clone3
    {"clone", {SYS_clone, SYS_clone3, -1}},
#else
    {"clone", {SYS_clone, -1, -1}},
#endif
    {"memfd", {SYS_memfd_create, -1, -1}},
    {"openat", {SYS_openat, -1, -1}},
};
enum { kRefusalCount = sizeof kRefusals / sizeof *kRefusals };

typedef struct Limits {
  const char* deny;
  uint64_t nofile, address_space, nproc, fsize;  // 0: as it is
} Limits;

static void Limit(int resource, uint64_t value) {
  if (value == 0) return;
  const struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
  Require(setrlimit(resource, &limit) == 0, "setrlimit");
}

static void Deny(const int* numbers, int error) {
  for (int i = 0; i < 3 && numbers[i] >= 0; i++) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof program / sizeof *program, .filter = program};
    Require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    Require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0,
            "seccomp");
  }
}

static void DenyAll(const char* list) {
  char* names = strdup(list);
  Require(names != NULL, "strdup");
  char* rest = names;
  for (char* name; (name = strsep(&rest, ",")) != NULL;) {
    int found = 0;
    for (int i = 0; i < kRefusalCount; i++) {
      if (strcmp(kRefusals[i].name, name) != 0) continue;
      Deny(kRefusals[i].numbers, EPERM);
      found = 1;
    }
    if (!found) fprintf(stderr, "--deny %s: unknown\n", name), exit(2);
  }
  free(names);
}

static void Apply(const Limits* limits) {
  Limit(RLIMIT_NOFILE, limits->nofile);
  Limit(RLIMIT_AS, limits->address_space);
  Limit(RLIMIT_NPROC, limits->nproc);
  Limit(RLIMIT_FSIZE, limits->fsize);
  if (limits->deny != NULL) DenyAll(limits->deny);
}

int main(int argc, char** argv) {
  Limits limits = {0};
  uint64_t after = 0, steps = 20;
  const OptionSpec options[] = {
      {"deny", kOptionText, &limits.deny, 0, 0, NULL},
      {"nofile", kOptionNumber, &limits.nofile, 3, 1 << 30, NULL},
      {"as", kOptionNumber, &limits.address_space, 1 << 20, 1.9e19, NULL},
      {"nproc", kOptionNumber, &limits.nproc, 1, 1 << 30, NULL},
      {"fsize", kOptionNumber, &limits.fsize, 1, 1.9e19, NULL},
      {"after", kOptionNumber, &after, 0, 1 << 30, NULL},
      {"steps", kOptionNumber, &steps, 0, 1 << 30, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  const int command = ParseOptions(argc, argv, options, kHelp);
  if (command < argc) {
    Apply(&limits);
    execvp(argv[command], argv + command);
    Require(false, argv[command]);
  }
  for (uint64_t step = 0; step < steps; step++) {
    if (step == after) Apply(&limits);
    PlainStep("work");
    usleep(1000);
  }
  printf("sandboxed: %llu steps\n", (unsigned long long)steps);
  return 0;
}
