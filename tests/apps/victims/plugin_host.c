// plugin_host: loads and unloads a plugin that uses NVTX.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "plugin_host [ROUNDS]: ROUNDS (10) times loads librange_plugin.so from its own folder, lets "
    "it\n"
    "  run a step, unloads it, and runs a step itself\n";

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  const uint64_t rounds = argc > 1 ? ParseNumber("ROUNDS", argv[1], 0, 1000000) : 10;
  char path[4200];
  const ssize_t length = readlink("/proc/self/exe", path, 4095);
  Require(length > 0, "readlink");
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, "librange_plugin.so");
  for (uint64_t round = 0; round < rounds; round++) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    Require(plugin != NULL, path);
    void (*step)(void) = (void (*)(void))dlsym(plugin, "PluginStep");
    Require(step != NULL, "PluginStep");
    step();
    Require(dlclose(plugin) == 0, "dlclose");
    PlainStep("host");
  }
  printf("plugin_host: %llu rounds\n", (unsigned long long)rounds);
  return 0;
}
