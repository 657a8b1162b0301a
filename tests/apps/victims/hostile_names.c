// hostile_names: ranges, threads, domains and categories whose names break careless writers.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "hostile_names [STEPS] [SIZE]: each of STEPS (5) steps holds a range, a domain range and a "
    "mark\n"
    "  for every hostile name, among them two of SIZE (65536) bytes that differ in the last one\n";

static const char* const kNames[] = {
    "quote\" inside",
    "back\\slash",
    "new\nline and tab\t",
    "control \x01\x02\x1f\x7f",
    "invalid \xff\xfe utf-8",
    "lone surrogate \xed\xa0\x80",
    "cut off \xe2\x82",
    "separator \xe2\x80\xa8 U+2028",
    "</script><script>alert(1)</script>",
    "%s%n%d",
    "{\"json\": [1, 2]}",
    "name@domain",
    "a,b;c=d",
    "",
    " leading and trailing ",
    "\xf0\x9f\x98\x80 outside the base plane",
};

static void Emit(nvtxDomainHandle_t domain, const char* name) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxRangePushA(name);
  nvtxMarkA(name);
  nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
  nvtxRangePop();
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  const uint64_t steps = argc > 1 ? ParseNumber("STEPS", argv[1], 0, 1000000) : 5;
  const uint64_t size = argc > 2 ? ParseNumber("SIZE", argv[2], 2, 1u << 28) : 65536;
  char* long_name = malloc(size + 1);
  Require(long_name != NULL, "malloc");
  memset(long_name, 'n', size);
  long_name[size] = '\0';
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("domain \"with\" \\ quotes\n");
  nvtxNameOsThreadA((uint32_t)gettid(), "thread \"one\"\n");
  nvtxNameCategoryA(1, "category \xff");
  for (uint64_t step = 0; step < steps; step++) {
    nvtxRangePushA("train_step");
    for (size_t i = 0; i < sizeof kNames / sizeof *kNames; i++) Emit(domain, kNames[i]);
    // No message at all, which is not the same as an empty one.
    nvtxEventAttributes_t nameless = {.version = NVTX_VERSION,
                                      .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    nvtxRangePushEx(&nameless);
    nvtxRangePop();
    nvtxRangePushA(NULL);
    nvtxRangePop();
    for (char last = 'y'; last <= 'z'; last++) {
      long_name[size - 1] = last;
      Emit(domain, long_name);
    }
    nvtxRangePop();
  }
  nvtxDomainDestroy(domain);
  free(long_name);
  printf("hostile_names: %llu steps\n", (unsigned long long)steps);
  return 0;
}
