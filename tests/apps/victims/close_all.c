// close_all: closes every descriptor, puts its own file under every number, and checks its bytes.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "close_all [ROUNDS] [STEP_US] [--std]: in each of ROUNDS (20) rounds closes descriptors from 3 "
    "on,\n"
    "  puts a file of its own under numbers 3 to 255, runs ten steps of STEP_US (2000) and writes "
    "to\n"
    "  it; at the end the file must hold its own bytes only. --std takes 0, 1 and 2 as well: then "
    "the\n"
    "  exit status alone tells (0 good, 4 foreign bytes).\n";

enum { kLastDescriptor = 255, kStepsPerRound = 10, kForeignBytes = 4 };

static void TakeAllDescriptors(int first, int own) {
  for (int descriptor = first; descriptor <= kLastDescriptor; descriptor++) {
    if (descriptor == own) continue;
    close(descriptor);
    Require(dup2(own, descriptor) == descriptor, "dup2");
  }
}

// True when the file holds "round 0\n" … in order and nothing else.
static bool HoldsOwnBytesOnly(int own, unsigned rounds) {
  Require(lseek(own, 0, SEEK_SET) == 0, "lseek");
  FILE* file = fdopen(dup(own), "r");
  Require(file != NULL, "fdopen");
  char line[64], expected[64];
  bool is_own = true;
  for (unsigned round = 0; round < rounds && is_own; round++) {
    snprintf(expected, sizeof expected, "round %u\n", round);
    is_own = fgets(line, sizeof line, file) != NULL && strcmp(line, expected) == 0;
  }
  is_own = is_own && fgetc(file) == EOF;
  fclose(file);
  return is_own;
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  const bool takes_std = argc > 1 && strcmp(argv[argc - 1], "--std") == 0;
  const int numbers = argc - (takes_std ? 1 : 0);
  const unsigned rounds = numbers > 1 ? (unsigned)ParseNumber("ROUNDS", argv[1], 1, 100000) : 20;
  const unsigned step_us =
      numbers > 2 ? (unsigned)ParseNumber("STEP_US", argv[2], 0, 1000000) : 2000;
  char path[] = "/tmp/close_all.XXXXXX";
  const char* folder = getenv("TMPDIR");
  char chosen[4096];
  snprintf(chosen, sizeof chosen, "%s/close_all.XXXXXX", folder == NULL ? "/tmp" : folder);
  const int own = mkstemp(folder == NULL ? path : chosen);
  Require(own >= 0, "mkstemp");
  unlink(folder == NULL ? path : chosen);
  for (unsigned round = 0; round < rounds; round++) {
    TakeAllDescriptors(takes_std ? 0 : 3, own);
    for (unsigned step = 0; step < kStepsPerRound; step++) {
      PlainStep("forward");
      if (step_us > 0) usleep(step_us);
    }
    char line[64];
    const int length = snprintf(line, sizeof line, "round %u\n", round);
    // Through another number than the last time: all of them are the same file.
    const int descriptor = 3 + (int)(round % (kLastDescriptor - 3));
    Require(write(descriptor, line, (size_t)length) == length, "write");
  }
  const bool is_own = HoldsOwnBytesOnly(own, rounds);
  if (!takes_std)
    printf("close_all: %u rounds, %s\n", rounds, is_own ? "own bytes only" : "FOREIGN BYTES");
  return is_own ? 0 : kForeignBytes;
}
