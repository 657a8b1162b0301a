/* A plain C program with NVTX and a plugin with its own copy of it. Run with NVTX_INJECTION64_PATH;
 * argument: the plugin's path. Exit status: 0, or the line that failed. */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                      \
  do {                                                   \
    if (!(what)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
      return 1;                                          \
    }                                                    \
  } while (0)

typedef uint64_t (*count_fn)(void);

static int ranges(void) {
  CHECK(nvtxRangePushA("outer") == 0);
  CHECK(nvtxRangePushW(L"inner \u20ac") == 1);
  CHECK(nvtxRangePop() == 1);
  CHECK(nvtxRangePop() == 0);
  CHECK(nvtxRangePop() == -1);
  nvtxDomainHandle_t domain = nvtxDomainCreateA("client");
  CHECK(domain != NULL);
  nvtxEventAttributes_t event = {0};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  CHECK(event.message.registered != NULL);
  CHECK(nvtxDomainRangePushEx(domain, &event) == 0);
  CHECK(nvtxDomainRangePop(domain) == 0);
  nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &event);
  CHECK(id != 0);
  nvtxDomainRangeEnd(domain, id);
  nvtxMarkA("mark");
  nvtxNameOsThreadA(1, "name");
  nvtxDomainDestroy(domain);
  return 0;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  CHECK(ranges() == 0);
  void* tool = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
  CHECK(tool != NULL);
  count_fn records = (count_fn)dlsym(tool, "ToolRecords");
  count_fn attached = (count_fn)dlsym(tool, "ToolAttached");
  CHECK(records != NULL && attached != NULL);
  CHECK(records() == 9);
  CHECK(attached() == 1);
  for (int round = 1; round <= 3; ++round) { /* comes and goes; its handlers are ours */
    void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    int (*work)(int) = (int (*)(int))dlsym(plugin, "PluginWork");
    CHECK(work != NULL);
    CHECK(nvtxRangePushA("around") == 0);
    CHECK(work(1) == 0);
    CHECK(attached() == 1 + (uint64_t)round);
    dlclose(plugin);
    CHECK(nvtxRangePop() == 0);
    CHECK(records() == 9 + 4 * (uint64_t)round);
  }
  CHECK(ranges() == 0);
  puts("good");
  return 0;
}
