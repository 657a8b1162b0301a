#include "tests/bench/support/nvtx_untouched.h"

#include <nvtx3/nvToolsExt.h>

void StepagentUntouchedPair(const char* name) {
  nvtxRangePushA(name);
  nvtxRangePop();
}
