// range_plugin: a shared object with NVTX state of its own.
#include "support/victim.h"

__attribute__((visibility("default"))) void PluginStep(void) { PlainStep("plugin"); }
