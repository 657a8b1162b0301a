// early_range: NVTX before main, in a constructor, and after it, in a destructor.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

#include "support/victim.h"

static const char kHelp[] =
    "early_range: one step in a constructor, five in main, one in a destructor\n";

__attribute__((constructor)) static void Before(void) { PlainStep("constructor"); }
__attribute__((destructor)) static void After(void) { PlainStep("destructor"); }

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  for (int step = 0; step < 5; step++) PlainStep("main");
  puts("early_range: 7 steps");
  return 0;
}
