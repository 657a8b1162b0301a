// static_tls: loads libraries with static TLS before its first step, as big programs have.
#include <dlfcn.h>
#include <stdio.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "static_tls STEPS LIBRARY...: dlopens each, as far as the loader has static TLS left, and "
    "prints\n"
    "  how many were loaded; then STEPS steps with NVTX, initialised only then\n";

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  Require(argc > 2, "static_tls STEPS LIBRARY...");
  const uint64_t steps = ParseNumber("STEPS", argv[1], 0, 1000000);
  int loaded = 0;
  for (int i = 2; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) continue;
    int (*touch)(void) = (int (*)(void))dlsym(library, "TouchTls");
    Require(touch != NULL && touch() == 1, argv[i]);
    ++loaded;
  }
  for (uint64_t step = 0; step < steps; ++step) PlainStep("tls");
  printf("static_tls: %d libraries, %llu steps\n", loaded, (unsigned long long)steps);
  return 0;
}
