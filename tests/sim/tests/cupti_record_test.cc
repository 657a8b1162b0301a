// What the records say: kinds, fields, identities.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "tests/cupti_fixture.h"

namespace stepagent::sim_test {
namespace {

constexpr int kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

TEST(Records, KernelFields) {
  Isolated({}, [] {
    Collect({kKernel});
    CUstream stream = NewStream();
    EXPECT_CUDA(
        cuLaunchKernel(Kernel("k1", 12345), 3, 4, 5, 32, 2, 1, 100, stream, nullptr, nullptr));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    const Record& kernel = kernels[0];
    EXPECT_EQ(kernel.bytes.size(), Under().record_bytes[kKernel]);
    EXPECT_EQ(kernel.At<uint64_t>(24) - kernel.At<uint64_t>(16), 12345u);
    EXPECT_EQ(kernel.At<uint32_t>(40), 0u);
    EXPECT_EQ(kernel.At<uint32_t>(52), 3u);
    EXPECT_EQ(kernel.At<uint32_t>(60), 5u);
    EXPECT_EQ(kernel.At<uint32_t>(64), 32u);
    EXPECT_EQ(kernel.At<uint32_t>(80), 100u);
    EXPECT_STREQ(kernel.At<const char*>(104), "k1");
    uint32_t stream_id = 0;
    CUcontext context = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&context));
    EXPECT_CUPTI(TheCupti().cuptiGetStreamIdEx(context, stream, 0, &stream_id));
    EXPECT_EQ(kernel.At<uint32_t>(48), stream_id);
    EXPECT_NE(kernel.At<uint32_t>(92), 0u);
    uint64_t now = 0;
    EXPECT_CUPTI(TheCupti().cuptiGetTimestamp(&now));
    EXPECT_LT(kernel.At<uint64_t>(24), now + 1000);
    EXPECT_GT(kernel.At<uint64_t>(16), now - 10000000000);
  });
}

TEST(Records, ActivityWorksWithoutASubscription) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 1u);
  });
}

TEST(Records, OnlyEnabledKindsCome) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_MEMSET});
    auto work = [] {
      EXPECT_CUDA(Launch(Kernel("k", 1000)));
      EXPECT_CUDA(cuMemsetD8(NewMemory(8), 1, 8));
    };
    work();
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 0u);
    EXPECT_EQ(TheDelivered().Count(CUPTI_ACTIVITY_KIND_MEMSET), 1u);
    EXPECT_CUPTI(TheCupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET));
    work();
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().records.size(), 1u);
  });
}

TEST(Records, CopiesHaveKindsOfMemory) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_MEMCPY});
    const CUdeviceptr memory = NewMemory(1024);
    char pageable[1024];
    void* pinned = nullptr;
    EXPECT_CUDA(cuMemAllocHost(&pinned, 1024));
    EXPECT_CUDA(cuMemcpyHtoD(memory, pageable, 1024));
    EXPECT_CUDA(cuMemcpyHtoDAsync(memory, pinned, 512, nullptr));
    EXPECT_CUDA(cuMemcpyDtoH(pageable, memory, 256));
    EXPECT_CUDA(cuMemcpyDtoD(memory, memory + 512, 128));
    FinishAndFlush();
    const auto copies = TheDelivered().Of(CUPTI_ACTIVITY_KIND_MEMCPY);
    ASSERT_EQ(copies.size(), 4u);
    struct Expected {
      int copy, source, target, flags;
      uint64_t bytes;
    };
    const Expected expected[] = {{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1, 3, 0, 1024},
                                 {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 2, 3, 1, 512},
                                 {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 3, 1, 0, 256},
                                 {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, 3, 3, 1, 128}};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(copies[i].At<uint8_t>(4), expected[i].copy) << i;
      EXPECT_EQ(copies[i].At<uint8_t>(5), Under().record_bytes[60] ? 0x6B : expected[i].source);
      EXPECT_EQ(copies[i].At<uint8_t>(6), expected[i].target) << i;
      EXPECT_EQ(copies[i].At<uint8_t>(7), expected[i].flags) << i;
      EXPECT_EQ(copies[i].At<uint64_t>(8), expected[i].bytes) << i;
    }
  });
}

TEST(Records, SetsAndPeerCopies) {
  Isolated({{"DEVICES", "2"}}, [] {
    Collect({CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET});
    CUcontext first = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&first));
    const CUdeviceptr source = NewMemory(64);
    EXPECT_CUDA(cuMemsetD32(source, 0xABCD, 16));
    CUcontext second = UseDevice(1);
    const CUdeviceptr target = NewMemory(64);
    EXPECT_CUDA(cuMemcpyPeerAsync(target, second, source, first, 64, nullptr));
    EXPECT_CUDA(cuCtxSynchronize());
    unsigned value = 0;
    EXPECT_CUDA(cuMemcpyDtoH(&value, target, 4));
    EXPECT_EQ(value, 0xABCDu);
    FinishAndFlush();
    const auto sets = TheDelivered().Of(CUPTI_ACTIVITY_KIND_MEMSET);
    ASSERT_EQ(sets.size(), 1u);
    EXPECT_EQ(sets[0].At<uint32_t>(4), 0xABCDu);
    EXPECT_EQ(sets[0].At<uint64_t>(8), 64u);
    EXPECT_EQ(sets[0].At<uint16_t>(50), 3u);
    const auto peers = TheDelivered().Of(CUPTI_ACTIVITY_KIND_MEMCPY2);
    ASSERT_EQ(peers.size(), 1u);
    EXPECT_EQ(peers[0].At<uint8_t>(4), CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
    EXPECT_EQ(peers[0].At<uint32_t>(44), 0u);
    EXPECT_EQ(peers[0].At<uint32_t>(52), 1u);
    EXPECT_NE(peers[0].At<uint32_t>(60), 0u);
    EXPECT_EQ(TheDelivered().Count(CUPTI_ACTIVITY_KIND_MEMCPY), 1u);
  });
}

TEST(Records, WaitsOfAllKinds) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
    CUstream stream = NewStream();
    CUevent event = nullptr;
    EXPECT_CUDA(cuEventCreate(&event, 0));
    EXPECT_CUDA(Launch(Kernel("k", 10 * kMs), stream));
    EXPECT_CUDA(cuEventRecord(event, stream));
    EXPECT_CUDA(cuStreamWaitEvent(nullptr, event, 0));
    EXPECT_CUDA(cuEventSynchronize(event));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    FinishAndFlush();
    const auto waits = TheDelivered().Of(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    ASSERT_EQ(waits.size(), 4u);
    EXPECT_EQ(waits[0].At<uint32_t>(4), CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT);
    EXPECT_EQ(waits[1].At<uint32_t>(4), CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE);
    EXPECT_EQ(waits[2].At<uint32_t>(4), CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE);
    EXPECT_EQ(waits[3].At<uint32_t>(4), CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
    EXPECT_GE(waits[1].At<uint64_t>(16) - waits[1].At<uint64_t>(8), 8 * kMs);
    EXPECT_EQ(waits[3].At<uint32_t>(32), 0xFFFFFFFFu);
  });
}

TEST(Records, ApiCallsOfBothDomains) {
  Isolated({}, [] {
    Collect({});
    EXPECT_CUPTI(TheCupti().cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER));
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(static_cast<CUpti_ActivityKind>(kKernel)));
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    EXPECT_EQ(Launch(nullptr), CUDA_ERROR_INVALID_HANDLE);
    FinishAndFlush();
    auto calls = TheDelivered().Of(CUPTI_ACTIVITY_KIND_DRIVER);
    ASSERT_GE(calls.size(), 3u);
    EXPECT_EQ(calls[0].At<uint32_t>(4), uint32_t{CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel});
    EXPECT_EQ(calls[0].At<uint32_t>(24), static_cast<uint32_t>(getpid()));
    EXPECT_EQ(calls[0].At<uint32_t>(28), static_cast<uint32_t>(syscall(SYS_gettid)));
    EXPECT_EQ(calls[0].At<uint32_t>(36), 0u);
    EXPECT_EQ(calls[1].At<uint32_t>(36), uint32_t{CUDA_ERROR_INVALID_HANDLE});
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels[0].At<uint32_t>(92), calls[0].At<uint32_t>(32));
    EXPECT_LE(calls[0].At<uint64_t>(8), kernels[0].At<uint64_t>(16)) << "launch before kernel";
  });
}

TEST(Records, ApiCallsCanBeFilteredSince125) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_DRIVER});
    auto filter = TheCupti().cuptiActivityEnableDriverApi;
    ASSERT_EQ(filter != nullptr, Under().api_version >= 23);
    if (filter == nullptr) return;
    EXPECT_CUPTI(filter(CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, 0));
    CUcontext context = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&context));
    FinishAndFlush();
    for (const Record& call : TheDelivered().Of(CUPTI_ACTIVITY_KIND_DRIVER)) {
      EXPECT_NE(call.At<uint32_t>(4), uint32_t{CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent});
    }
  });
}

TEST(Records, ContextsDevicesAndStreams) {
  Isolated({{"DEVICES", "2"}, {"DEVICE_NAME", "Known GPU"}}, [] {
    UseDevice();
    NewStream();
    Collect({});
    for (const auto kind :
         {CUPTI_ACTIVITY_KIND_DEVICE, CUPTI_ACTIVITY_KIND_CONTEXT, CUPTI_ACTIVITY_KIND_STREAM}) {
      EXPECT_CUPTI(TheCupti().cuptiActivityEnableAndDump(kind));
    }
    CUstream late = NewStream(CU_STREAM_NON_BLOCKING);
    EXPECT_NE(late, nullptr);
    Flush();
    const auto devices = TheDelivered().Of(CUPTI_ACTIVITY_KIND_DEVICE);
    EXPECT_GE(devices.size(), 2u);
    EXPECT_STREQ(devices[0].At<const char*>(136), "Known GPU");
    EXPECT_EQ(devices[1].At<uint32_t>(112), 1u);
    EXPECT_EQ(TheDelivered().Count(CUPTI_ACTIVITY_KIND_CONTEXT), 1u);
    const auto streams = TheDelivered().Of(CUPTI_ACTIVITY_KIND_STREAM);
    ASSERT_EQ(streams.size(), 2u) << "the dumped one and the new one";
    EXPECT_EQ(streams[1].At<uint32_t>(16),
              uint32_t{CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING});
  });
}

TEST(Records, ExternalCorrelations) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, kKernel, CUPTI_ACTIVITY_KIND_DRIVER});
    const auto kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;
    EXPECT_CUPTI(TheCupti().cuptiActivityPushExternalCorrelationId(kind, 1));
    EXPECT_CUPTI(TheCupti().cuptiActivityPushExternalCorrelationId(kind, 555));
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    uint64_t last = 0;
    EXPECT_CUPTI(TheCupti().cuptiActivityPopExternalCorrelationId(kind, &last));
    EXPECT_EQ(last, 555u);
    EXPECT_CUPTI(TheCupti().cuptiActivityPopExternalCorrelationId(kind, &last));
    EXPECT_EQ(TheCupti().cuptiActivityPopExternalCorrelationId(kind, &last),
              CUPTI_ERROR_QUEUE_EMPTY);
    FinishAndFlush();
    const auto externals = TheDelivered().Of(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    ASSERT_EQ(externals.size(), 1u);
    EXPECT_EQ(externals[0].At<uint64_t>(8), 555u);
    EXPECT_EQ(externals[0].At<uint32_t>(16), TheDelivered().Of(kKernel)[0].At<uint32_t>(92));
  });
}

TEST(Records, MemoryAndEvents) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_MEMORY2});
    const bool has_events = Under().api_version >= 19;
    if (has_events) {
      EXPECT_CUPTI(TheCupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CUDA_EVENT));
    }
    CUdeviceptr memory = NewMemory(4096);
    EXPECT_CUDA(cuMemFree(memory));
    CUevent event = nullptr;
    EXPECT_CUDA(cuEventCreate(&event, 0));
    EXPECT_CUDA(cuEventRecord(event, nullptr));
    FinishAndFlush();
    const auto operations = TheDelivered().Of(CUPTI_ACTIVITY_KIND_MEMORY2);
    ASSERT_EQ(operations.size(), 2u);
    EXPECT_EQ(operations[0].At<uint32_t>(4),
              uint32_t{CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION});
    EXPECT_EQ(operations[1].At<uint32_t>(4),
              uint32_t{CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE});
    EXPECT_EQ(operations[0].At<uint64_t>(16), memory);
    EXPECT_EQ(operations[0].At<uint64_t>(24), 4096u);
    EXPECT_EQ(TheDelivered().Count(CUPTI_ACTIVITY_KIND_CUDA_EVENT), has_events ? 1u : 0u);
  });
}

TEST(Records, OverheadOfBuffersAndFlushes) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_OVERHEAD, kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    Flush();
    const auto overheads = TheDelivered().Of(CUPTI_ACTIVITY_KIND_OVERHEAD);
    const auto has = [&](uint32_t kind) {
      return std::any_of(overheads.begin(), overheads.end(), [&](const Record& overhead) {
        return overhead.At<uint32_t>(4) == kind &&
               overhead.At<uint64_t>(32) >= overhead.At<uint64_t>(24);
      });
    };
    EXPECT_TRUE(has(7u << 16)) << "buffer request";
    EXPECT_TRUE(has(1u << 16)) << "flush";
  });
}

TEST(Records, SerialisedKernelsWhenAskedFor) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_KERNEL});
    for (int i = 0; i < 3; ++i) EXPECT_CUDA(Launch(Kernel("k", 1 * kMs), NewStream()));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(CUPTI_ACTIVITY_KIND_KERNEL);
    ASSERT_EQ(kernels.size(), 3u);
    for (size_t i = 1; i < 3; ++i) {
      EXPECT_GE(kernels[i].At<uint64_t>(16), kernels[i - 1].At<uint64_t>(24));
    }
  });
}

TEST(Records, CorrelationIdWrapsPastZero) {
  Isolated({{"CORRELATION_START", "0xFFFFFFFE"}}, [] {
    Collect({kKernel});
    for (int i = 0; i < 4; ++i) EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    std::set<uint32_t> ids;
    for (const Record& kernel : TheDelivered().Of(kKernel)) ids.insert(kernel.At<uint32_t>(92));
    EXPECT_EQ(ids.size(), 4u);
    EXPECT_EQ(ids.count(0), 0u);
    EXPECT_EQ(ids.count(0xFFFFFFFFu) + ids.count(1), 2u);
  });
}

TEST(Future, FieldsBeyondTheKnownAreNotZero) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    const size_t known = sim::FindPersonality("13.0")->record_bytes[kKernel];
    const size_t size = kernels[0].bytes.size();
    EXPECT_EQ(size > known, PersonalityName() == "future");
    if (size <= known) return;
    EXPECT_EQ(kernels[0].bytes[size - 1], 0xA5);
    EXPECT_EQ(kernels[0].At<uint8_t>(4), 0x77) << "an enum value nobody knows";
  });
}

}  // namespace
}  // namespace stepagent::sim_test
