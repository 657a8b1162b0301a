// Initialisation, the injection hook, forks, faults, counters.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/counters.h"
#include "tests/driver_fixture.h"

namespace stepagent::sim_test {
namespace {

TEST(Init, CallsBeforeItAreRefused) {
  Isolated({}, [] {
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    int version = 0;
    EXPECT_CUDA(cuDriverGetVersion(&version));
    EXPECT_EQ(version, 13000);
    const char* text = nullptr;
    EXPECT_CUDA(cuGetErrorName(CUDA_ERROR_NO_DEVICE, &text));
    EXPECT_STREQ(text, "CUDA_ERROR_NO_DEVICE");
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 1);
  });
}

TEST(Init, ResultIsScripted) {
  for (const char* code : {"34", "100", "803", "999"}) {
    Isolated({{"CUINIT", code}}, [=] {
      EXPECT_EQ(static_cast<int>(cuInit(0)), atoi(code));
      int count = 0;
      EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    });
  }
}

TEST(Init, NoDeviceAndManyDevices) {
  Isolated({{"DEVICES", "0"}}, [] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); });
  Isolated({{"DEVICES", "3"}, {"DEVICE_NAME", "Test GPU"}}, [] {
    EXPECT_CUDA(cuInit(0));
    int count = 0;
    EXPECT_CUDA(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 3);
    char name[64];
    EXPECT_CUDA(cuDeviceGetName(name, sizeof(name), 2));
    EXPECT_STREQ(name, "Test GPU");
    CUuuid first{};
    CUuuid second{};
    EXPECT_CUDA(cuDeviceGetUuid(&first, 0));
    EXPECT_CUDA(cuDeviceGetUuid(&second, 1));
    EXPECT_NE(memcmp(&first, &second, sizeof(first)), 0);
    CUdevice device = 0;
    EXPECT_EQ(cuDeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(Init, ExportTableTurnsStrangersAway) {
  Isolated({}, [] {
    const void* table = &table;
    const CUuuid id{};
    EXPECT_EQ(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(table, nullptr);
  });
}

// Sets the hook's variables and answers the path of the probe's log.
std::string UseProbe(const char* answer, const char* library = SIM_INJECTION_PROBE) {
  const std::string log = ScratchPath("probe");
  setenv("CUDA_INJECTION64_PATH", library, 1);
  setenv("PROBE_LOG", log.c_str(), 1);
  setenv("PROBE_ANSWER", answer, 1);
  return log;
}

TEST(Injection, RunsOnceInTheFirstInit) {
  Isolated({}, [] {
    const std::string log = UseProbe("1");
    int version = 0;
    EXPECT_CUDA(cuDriverGetVersion(&version));
    void* address = nullptr;
    CUdriverProcAddressQueryResult status;
    EXPECT_CUDA(cuGetProcAddress("cuInit", &address, 12000, 0, &status));
    EXPECT_EQ(ReadText(log), "") << "only cuInit may run it";
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuInit(0));
    EXPECT_EQ(ReadText(log), "1\n");
  });
}

TEST(Injection, RunsBeforeDevicesAreLookedFor) {
  Isolated({{"CUINIT", "100"}}, [] {
    const std::string log = UseProbe("1");
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
    EXPECT_EQ(ReadText(log), "1\n");
  });
}

TEST(Injection, IsLoadedAnewWhileItAnswersZero) {
  Isolated({}, [] {
    const std::string log = UseProbe("0");
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuInit(0));
    setenv("PROBE_ANSWER", "1", 1);
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuInit(0));
    // Its own count starts again each time: it was unloaded in between.
    EXPECT_EQ(ReadText(log), "1\n1\n1\n");
  });
}

TEST(Injection, BadPathIsIgnored) {
  Isolated({}, [] {
    UseProbe("1", "/nonexistent/library.so");
    EXPECT_CUDA(cuInit(0));
  });
}

TEST(Fork, CudaInTheChildAborts) {
  Isolated({}, [] {
    UseDevice();
    const Outcome outcome = RunChild({}, [] { cuCtxSynchronize(); });
    EXPECT_TRUE(WIFSIGNALED(outcome.status));
    EXPECT_NE(outcome.errors.find("cuCtxSynchronize called in a forked child"), std::string::npos);
  });
}

TEST(Fork, CudaInTheChildAnswersAnErrorIfToldSo) {
  Isolated({{"FORK", "error"}}, [] {
    UseDevice();
    Isolated({}, [] {
      EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
      EXPECT_EQ(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
    });
  });
}

TEST(Fork, ChildOfAnUntouchedParentMayInitialise) {
  Isolated({}, [] { Isolated({}, [] { UseDevice(); }); });
}

TEST(Faults, FromTheNthCallOnAndForACount) {
  Isolated({{"FAULTS", "cuMemAlloc_v2=2@3x2;cuStream*=999"}}, [] {
    UseDevice();
    CUdeviceptr memory = 0;
    EXPECT_CUDA(cuMemAlloc(&memory, 64));
    EXPECT_CUDA(cuMemAlloc(&memory, 64));
    EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&memory, 64), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuMemAlloc(&memory, 64));
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_UNKNOWN);
  });
}

TEST(Settings, MisspeltOnesAbort) {
  Dies({{"FAULTS", "nonsense"}}, SIGABRT, "lacks =code", [] { cuInit(0); });
  Dies({{"DEVICES", "many"}}, SIGABRT, "is not a number", [] { cuInit(0); });
}

TEST(Settings, FileServesWhereTheEnvironmentIsSilent) {
  const std::string path = ScratchPath("config");
  FILE* file = fopen(path.c_str(), "w");
  fputs("# test\nDEVICES=2\nDEVICE_NAME=From file\n", file);
  fclose(file);
  Isolated({{"CONFIG", path}, {"DEVICES", "4"}}, [] {
    EXPECT_CUDA(cuInit(0));
    int count = 0;
    EXPECT_CUDA(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 4);
    char name[64];
    EXPECT_CUDA(cuDeviceGetName(name, sizeof(name), 0));
    EXPECT_STREQ(name, "From file");
  });
}

void DoSomeWork() {
  UseDevice();
  CUfunction kernel = Kernel("work", 1000);
  for (int i = 0; i < 5; ++i) EXPECT_CUDA(Launch(kernel));
  EXPECT_CUDA(cuMemsetD8(NewMemory(64), 0, 64));
  EXPECT_CUDA(cuCtxSynchronize());
}

TEST(Counters, AreReadAndWrittenOnDemand) {
  Isolated({}, [] {
    DoSomeWork();
    EXPECT_EQ(stepagent_sim_counter("cuda.launches"), 5u);
    EXPECT_EQ(stepagent_sim_counter("cuda.sets"), 1u);
    EXPECT_EQ(stepagent_sim_counter("cuda.syncs"), 1u);
    EXPECT_EQ(stepagent_sim_counter("no.such.counter"), 0u);
    const std::string path = ScratchPath("stats");
    EXPECT_EQ(stepagent_sim_write_stats(path.c_str()), 0);
    EXPECT_NE(ReadText(path).find("cuda.launches 5\n"), std::string::npos);
  });
}

TEST(Counters, SurviveAKill) {
  const std::string path = ScratchPath("killed");
  const Outcome outcome = RunChild({{"STATS", path}}, [] {
    DoSomeWork();
    raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(outcome.status));
  const std::string counters = ReadText(path + ".counters");
  ASSERT_EQ(counters.size(), sizeof(sim::CounterTable));
  const auto* table = reinterpret_cast<const sim::CounterTable*>(counters.data());
  uint64_t launches = 0;
  for (const auto& slot : table->slots) {
    if (strcmp(slot.name, "cuda.launches") == 0) launches = slot.value.load();
  }
  EXPECT_EQ(launches, 5u);
}

TEST(Counters, AreWrittenAtExitWithThePidInTheName) {
  const std::string path = ScratchPath("exit-%p");
  pid_t child = fork();
  if (child == 0) {
    setenv("STEPAGENT_SIM_STATS", path.c_str(), 1);
    DoSomeWork();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const std::string written = ReadText(ScratchPath("exit-" + std::to_string(child)));
  EXPECT_NE(written.find("cuda.launches 5\n"), std::string::npos) << written;
}

TEST(Threads, NoneIsStartedByOrdinaryUse) {
  SKIP_IF_SANITIZED();
  Isolated({}, [] {
    DoSomeWork();
    EXPECT_EQ(CountThreads(), 1);
  });
}

TEST(ProcAddress, HonoursVersionAndFlags) {
  Isolated({}, [] {
    void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    auto get = [](const char* name, int version, cuuint64_t flags, int* status) {
      void* address = nullptr;
      CUdriverProcAddressQueryResult result{};
      const CUresult code = cuGetProcAddress(name, &address, version, flags, &result);
      *status = static_cast<int>(result);
      EXPECT_EQ(code == CUDA_SUCCESS, address != nullptr);
      return address;
    };
    int status = -1;
    EXPECT_EQ(get("cuMemAlloc", 3020, 0, &status), dlsym(self, "cuMemAlloc_v2"));
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    EXPECT_EQ(get("cuMemAlloc", 2000, 0, &status), dlsym(self, "cuMemAlloc"));
    EXPECT_EQ(get("cuCtxCreate", 13000, 0, &status), dlsym(self, "cuCtxCreate_v4"));
    EXPECT_EQ(get("cuCtxCreate", 12000, 0, &status), dlsym(self, "cuCtxCreate_v3"));
    EXPECT_EQ(get("cuLaunchKernel", 12000, 2, &status), dlsym(self, "cuLaunchKernel_ptsz"));
    EXPECT_EQ(get("cuMemcpyHtoD", 12000, 2, &status), dlsym(self, "cuMemcpyHtoD_v2_ptds"));
    EXPECT_EQ(get("cuInit", 12000, 2, &status), dlsym(self, "cuInit"));
    EXPECT_NE(get("cuCtxSynchronize", 13000, 0, &status), dlsym(self, "cuCtxSynchronize"));
    EXPECT_EQ(get("cuMemAllocAsync", 11000, 0, &status), nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(get("cuNoSuchFunction", 13000, 0, &status), nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  });
}

}  // namespace
}  // namespace stepagent::sim_test
