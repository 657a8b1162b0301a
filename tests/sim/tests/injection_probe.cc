// A library for CUDA_INJECTION64_PATH: writes one line per call and answers what it was told.
#include <cstdio>
#include <cstdlib>

extern "C" int InitializeInjection(void) {
  static int calls = 0;
  ++calls;
  if (FILE* log = fopen(getenv("PROBE_LOG"), "a")) {
    fprintf(log, "%d\n", calls);
    fclose(log);
  }
  return atoi(getenv("PROBE_ANSWER"));
}
