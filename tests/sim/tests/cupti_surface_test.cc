// What needs no device: exports, sizes, codes, texts, the iterator. Also against the vendor's own
// library where there is one of a generation that we know.
#include <dlfcn.h>

#include <random>

#include "tests/cupti_fixture.h"

namespace stepagent::sim_test {
namespace {

bool Has(const char* symbol) { return dlsym(TheCupti().library, symbol) != nullptr; }

// Bytes from one record to the next, as the library's own iterator says; 0: unknown kind.
size_t Stride(const Cupti& cupti, uint32_t kind, CUptiResult* unknown_code) {
  alignas(8) uint32_t buffer[256];
  for (uint32_t& slot : buffer) slot = kind;
  auto* bytes = reinterpret_cast<uint8_t*>(buffer);
  CUpti_Activity* record = nullptr;
  const CUptiResult first = cupti.cuptiActivityGetNextRecord(bytes, sizeof(buffer), &record);
  if (first != CUPTI_SUCCESS) {
    *unknown_code = first;
    return 0;
  }
  EXPECT_EQ(reinterpret_cast<uint8_t*>(record), bytes);
  EXPECT_CUPTI(cupti.cuptiActivityGetNextRecord(bytes, sizeof(buffer), &record));
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes);
}

TEST(Surface, VersionAndSymbols) {
  Isolated({}, [] {
    uint32_t version = 0;
    EXPECT_CUPTI(TheCupti().cuptiGetVersion(&version));
    EXPECT_EQ(version, Under().api_version);
    EXPECT_EQ(Has("cuptiSubscribe_v2"), version >= 130000);
    EXPECT_EQ(Has("cuptiGetErrorMessage"), version >= 20);
    EXPECT_EQ(Has("cuptiActivityEnableDriverApi"), version >= 23);
    EXPECT_EQ(Has("cuptiActivityEnableHWTrace"), version >= 26);
    EXPECT_EQ(Has("cuptiGetGraphExecId"), version >= 21);
    EXPECT_FALSE(Has("stepagent_sim_driver_table"));
  });
}

TEST(Surface, SymbolsCarryTheSonameAsVersion) {
  Isolated({}, [] {
    const std::string path = LibraryPath(PersonalityName());
    const std::string soname = path.substr(path.rfind('/') + 1);
    EXPECT_NE(dlvsym(TheCupti().library, "cuptiSubscribe", soname.c_str()), nullptr);
    EXPECT_EQ(dlvsym(TheCupti().library, "cuptiSubscribe", "libcupti.so.99"), nullptr);
  });
}

TEST(Iterator, SizesAreThoseOfTheGeneration) {
  Isolated({}, [] {
    for (uint32_t kind = 0; kind < 70; ++kind) {
      CUptiResult code = CUPTI_SUCCESS;
      const size_t expected = kind < sim::kMaxKind ? Under().record_bytes[kind] : 0;
      EXPECT_EQ(Stride(TheCupti(), kind, &code), expected) << "kind " << kind;
      if (expected == 0) {
        EXPECT_EQ(static_cast<int>(code), Under().unknown_kind_code);
      }
    }
  });
}

TEST(Iterator, EndsAndRefusals) {
  Isolated({}, [] {
    const Cupti& cupti = TheCupti();
    alignas(8) uint8_t buffer[512] = {CUPTI_ACTIVITY_KIND_KERNEL};
    CUpti_Activity* record = nullptr;
    EXPECT_EQ(cupti.cuptiActivityGetNextRecord(buffer, 0, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
    const size_t size = Under().record_bytes[CUPTI_ACTIVITY_KIND_KERNEL];
    EXPECT_EQ(cupti.cuptiActivityGetNextRecord(buffer, size - 1, &record),
              CUPTI_ERROR_MAX_LIMIT_REACHED);
    EXPECT_CUPTI(cupti.cuptiActivityGetNextRecord(buffer, size, &record));
    EXPECT_EQ(cupti.cuptiActivityGetNextRecord(buffer, size, &record),
              CUPTI_ERROR_MAX_LIMIT_REACHED);
    EXPECT_EQ(cupti.cuptiActivityGetNextRecord(nullptr, 8, &record), CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(cupti.cuptiActivityGetNextRecord(buffer, 8, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

TEST(Iterator, HostileContentsStayInsideTheBuffer) {
  Isolated({}, [] {
    std::mt19937 random(7);
    std::vector<uint64_t> memory(512);
    for (int round = 0; round < 2000; ++round) {
      for (uint64_t& word : memory) word = random() % 61;
      auto* bytes = reinterpret_cast<uint8_t*>(memory.data());
      const size_t valid = random() % (memory.size() * 8);
      CUpti_Activity* record = nullptr;
      while (TheCupti().cuptiActivityGetNextRecord(bytes, valid, &record) == CUPTI_SUCCESS) {
        const auto offset = static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes);
        ASSERT_LE(offset + Under().record_bytes[record->kind], valid);
      }
    }
  });
}

TEST(Codes, WithAnUnusableDriver) {
  Isolated({{"CUINIT", "100"}}, [] {
    const Cupti& cupti = TheCupti();
    const auto refused = static_cast<CUptiResult>(Under().unusable_code);
    const bool is_13 = Under().api_version >= 130000;
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
    CUpti_SubscriberHandle handle = nullptr;
    EXPECT_EQ(
        cupti.cuptiSubscribe(
            &handle, [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}, nullptr),
        refused);
    EXPECT_EQ(cupti.cuptiGetLastError(), is_13 ? CUPTI_SUCCESS : refused);
    EXPECT_EQ(cupti.cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_DRIVER_API),
              CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_EQ(
        cupti.cuptiActivityRegisterCallbacks([](uint8_t**, size_t*, size_t*) {},
                                             [](CUcontext, uint32_t, uint8_t*, size_t, size_t) {}),
        refused);
    EXPECT_EQ(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), refused);
    EXPECT_EQ(cupti.cuptiActivityFlushAll(1), refused);
    EXPECT_EQ(cupti.cuptiActivityFlushPeriod(100), refused);
    size_t dropped = 9;
    EXPECT_EQ(cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped),
              is_13 ? CUPTI_SUCCESS : refused);
    EXPECT_CUPTI(cupti.cuptiFinalize());
    uint64_t stamp = 0;
    EXPECT_CUPTI(cupti.cuptiGetTimestamp(&stamp));
    EXPECT_NE(stamp, 0u);
  });
}

TEST(Codes, LibraryNewerThanTheDriver) {
  Isolated({{"CUPTI_NEEDS_DRIVER", "13010"}}, [] {
    UseDevice();
    EXPECT_EQ(
        static_cast<int>(TheCupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)),
        Under().unusable_code);
  });
}

TEST(Codes, KindsOfTheGeneration) {
  Isolated({}, [] {
    UseDevice();
    const Cupti& cupti = TheCupti();
    EXPECT_EQ(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_EVENT), CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(cupti.cuptiActivityEnable(static_cast<CUpti_ActivityKind>(63)),
              CUPTI_ERROR_INVALID_KIND);
    EXPECT_EQ(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CUDA_EVENT),
              Under().api_version < 19 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS);
    EXPECT_CUPTI(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    EXPECT_EQ(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_KERNEL), CUPTI_ERROR_NOT_COMPATIBLE);
  });
}

TEST(Codes, EveryFunctionByScript) {
  Isolated({{"FAULTS", "cuptiSubscribe=35;cuptiActivityEnable=999@2x1;cuptiActivityFlushAll=8"}},
           [] {
             UseDevice();
             const Cupti& cupti = TheCupti();
             CUpti_SubscriberHandle handle = nullptr;
             EXPECT_EQ(cupti.cuptiSubscribe(&handle, nullptr, nullptr),
                       CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
             EXPECT_CUPTI(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
             EXPECT_EQ(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), CUPTI_ERROR_UNKNOWN);
             EXPECT_CUPTI(cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET));
             EXPECT_EQ(cupti.cuptiActivityFlushAll(0), CUPTI_ERROR_OUT_OF_MEMORY);
           });
}

TEST(Texts, ResultsAndCallbackNames) {
  Isolated({}, [] {
    const Cupti& cupti = TheCupti();
    const char* text = nullptr;
    EXPECT_CUPTI(cupti.cuptiGetResultString(CUPTI_ERROR_INVALID_KIND, &text));
    EXPECT_STREQ(text, "CUPTI_ERROR_INVALID_KIND");
    EXPECT_EQ(cupti.cuptiGetResultString(static_cast<CUptiResult>(500), &text),
              CUPTI_ERROR_INVALID_PARAMETER);
    EXPECT_CUPTI(cupti.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, 307, &text));
    EXPECT_STREQ(text, "cuLaunchKernel");
    EXPECT_CUPTI(cupti.cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, 211, &text));
    EXPECT_STREQ(text, "cudaLaunchKernel_v7000");
    EXPECT_EQ(cupti.cuptiGetCallbackName(CUPTI_CB_DOMAIN_RESOURCE, 1, &text),
              CUPTI_ERROR_INVALID_PARAMETER);
    // cuCtxSynchronize_v2 came with 13.0.
    EXPECT_EQ(cupti.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, 800, &text) == CUPTI_SUCCESS,
              Under().api_version >= 130000);
  });
}

// The vendor's library, where one lies beside the headers, must agree with the simulator.
TEST(RealLibrary, AgreesWithThePersonality) {
  const char* given = getenv("STEPAGENT_TEST_REAL_CUPTI");
  const std::string path = given != nullptr ? given : SIM_REAL_CUPTI;
  if (path.empty()) GTEST_SKIP() << "no vendor library beside the headers";
  Isolated({}, [&] {
    const Cupti real = LoadCupti(path);
    uint32_t version = 0;
    EXPECT_CUPTI(real.cuptiGetVersion(&version));
    if (version != Under().api_version) return;
    const Cupti& simulated = TheCupti();
    for (uint32_t kind = 0; kind < 70; ++kind) {
      CUptiResult code = CUPTI_SUCCESS;
      CUptiResult real_code = CUPTI_SUCCESS;
      EXPECT_EQ(Stride(simulated, kind, &code), Stride(real, kind, &real_code)) << kind;
      EXPECT_EQ(code, real_code) << kind;
    }
    const char* text = nullptr;
    const char* real_text = nullptr;
    for (int code = 0; code < 1000; ++code) {
      const auto result = static_cast<CUptiResult>(code);
      EXPECT_EQ(simulated.cuptiGetResultString(result, &text),
                real.cuptiGetResultString(result, &real_text));
      EXPECT_STREQ(text, real_text);
    }
    for (const auto domain : {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API}) {
      for (uint32_t cbid = 0; cbid < 1024; ++cbid) {
        text = real_text = "";
        EXPECT_EQ(simulated.cuptiGetCallbackName(domain, cbid, &text),
                  real.cuptiGetCallbackName(domain, cbid, &real_text))
            << domain << " " << cbid;
        EXPECT_STREQ(text, real_text);
      }
    }
  });
}

}  // namespace
}  // namespace stepagent::sim_test
