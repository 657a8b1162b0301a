/* A plugin with its own copy of the NVTX client. */
#include <nvtx3/nvToolsExt.h>

/* Pushes and pops at the depth it is told; 0 when NVTX agreed. */
__attribute__((visibility("default"))) int PluginWork(int depth) {
  return nvtxRangePushA("plugin") == depth && nvtxRangePop() == depth ? 0 : 1;
}
