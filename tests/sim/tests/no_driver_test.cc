// A process with no driver library at all: what the simulated CUPTI and runtime answer. Linked to
// neither.
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "cupti/personality.h"
#include "tests/isolated.h"

namespace stepagent::sim {
// The test reads the personality table of the simulator itself.
const char* const kPersonalityName = "13.0";
}  // namespace stepagent::sim

namespace stepagent::sim_test {
namespace {

struct PersonalityFile {
  const char* name;
  const char* path;
};
constexpr PersonalityFile kFiles[] = {{"11.8", "/cupti-11.8/libcupti.so.11.8"},
                                      {"12.4", "/cupti-12.4/libcupti.so.12"},
                                      {"12.6", "/cupti-12.6/libcupti.so.12"},
                                      {"13.0", "/cupti-13.0/libcupti.so.13"},
                                      {"future", "/cupti-future/libcupti.so.13"}};

bool HasDriver() { return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr; }

template <class F>
F* Find(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

void CheckCupti(const PersonalityFile& file) {
  void* library = dlopen((std::string(SIM_OUTPUT_FOLDER) + file.path).c_str(), RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const sim::Personality& expected = *sim::FindPersonality(file.name);
  const auto refused = static_cast<CUptiResult>(expected.unusable_code);
  uint32_t version = 0;
  EXPECT_EQ(Find<decltype(cuptiGetVersion)>(library, "cuptiGetVersion")(&version), CUPTI_SUCCESS);
  EXPECT_EQ(version, expected.api_version);
  uint64_t stamp = 0;
  EXPECT_EQ(Find<decltype(cuptiGetTimestamp)>(library, "cuptiGetTimestamp")(&stamp), CUPTI_SUCCESS);
  CUpti_SubscriberHandle handle = nullptr;
  auto callback = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  EXPECT_EQ(Find<decltype(cuptiSubscribe)>(library, "cuptiSubscribe")(&handle, callback, nullptr),
            refused);
  // Measured on every generation: registering is no sign of life.
  auto request = [](uint8_t**, size_t*, size_t*) {};
  auto complete = [](CUcontext, uint32_t, uint8_t*, size_t, size_t) {};
  EXPECT_EQ(Find<decltype(cuptiActivityRegisterCallbacks)>(
                library, "cuptiActivityRegisterCallbacks")(request, complete),
            CUPTI_SUCCESS);
  auto enable = Find<decltype(cuptiActivityEnable)>(library, "cuptiActivityEnable");
  EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), refused);
  const bool is_11 = expected.api_version < 19;
  EXPECT_EQ(enable(CUPTI_ACTIVITY_KIND_EVENT), is_11 ? CUPTI_ERROR_INVALID_KIND : refused);
  EXPECT_EQ(Find<decltype(cuptiFinalize)>(library, "cuptiFinalize")(), CUPTI_SUCCESS);
  alignas(8) uint8_t buffer[64] = {CUPTI_ACTIVITY_KIND_DRIVER};
  CUpti_Activity* record = nullptr;
  EXPECT_EQ(Find<decltype(cuptiActivityGetNextRecord)>(library, "cuptiActivityGetNextRecord")(
                buffer, sizeof(buffer), &record),
            CUPTI_SUCCESS);
}

TEST(NoDriver, CodesOfEveryGeneration) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver library";
  for (const PersonalityFile& file : kFiles) {
    SCOPED_TRACE(file.name);
    Isolated({}, [&] { CheckCupti(file); });
  }
}

TEST(NoDriver, RuntimeSaysInsufficientDriver) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a driver library";
  Isolated({}, [] {
    void* library = dlopen(SIM_OUTPUT_FOLDER "/cuda/libcudart.so.13", RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    int count = -1;
    EXPECT_EQ(Find<cudaError_t(int*)>(library, "cudaGetDeviceCount")(&count),
              cudaErrorInsufficientDriver);
    EXPECT_EQ(count, 0);
  });
}

}  // namespace
}  // namespace stepagent::sim_test
