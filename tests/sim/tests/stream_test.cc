// Streams, events and the device clock.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/driver_fixture.h"

namespace stepagent::sim_test {
namespace {

using sim::MonotonicNs;

// How long the device is busy from now on, by waiting for it.
int64_t DrainNs() {
  const int64_t before = MonotonicNs();
  EXPECT_CUDA(cuCtxSynchronize());
  return MonotonicNs() - before;
}

TEST(Stream, KernelsOfOneStreamFollowOneAnother) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    for (int i = 0; i < 3; ++i) EXPECT_CUDA(Launch(Kernel("k", 10 * kMs), stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(stepagent_sim_pending_ops(), 3u);
    const int64_t before = MonotonicNs();
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_GE(MonotonicNs() - before, int64_t(25 * kMs));
    EXPECT_CUDA(cuStreamQuery(stream));
    EXPECT_EQ(stepagent_sim_pending_ops(), 0u);
  });
}

TEST(Stream, StreamsRunBesideOneAnother) {
  Isolated({}, [] {
    UseDevice();
    CUevent begin = nullptr;
    CUevent ends[4];
    EXPECT_CUDA(cuEventCreate(&begin, 0));
    EXPECT_CUDA(cuEventRecord(begin, NewStream()));
    for (CUevent& end : ends) {
      CUstream stream = NewStream();
      EXPECT_CUDA(Launch(Kernel("k", 20 * kMs), stream));
      EXPECT_CUDA(cuEventCreate(&end, 0));
      EXPECT_CUDA(cuEventRecord(end, stream));
    }
    EXPECT_CUDA(cuCtxSynchronize());
    for (CUevent end : ends) {
      float milliseconds = 0;
      EXPECT_CUDA(cuEventElapsedTime(&milliseconds, begin, end));
      EXPECT_GE(milliseconds, 20.0f);
      EXPECT_LT(milliseconds, 40.0f) << "streams must not queue behind one another";
    }
  });
}

TEST(Stream, LegacyStreamWaitsForBlockingOnesAndTheyForIt) {
  Isolated({}, [] {
    UseDevice();
    CUstream blocking = NewStream(CU_STREAM_DEFAULT);
    CUstream free_one = NewStream(CU_STREAM_NON_BLOCKING);
    EXPECT_CUDA(Launch(Kernel("k", 20 * kMs), blocking));
    EXPECT_CUDA(Launch(Kernel("k", 20 * kMs), nullptr));
    EXPECT_CUDA(Launch(Kernel("k", 20 * kMs), blocking));
    EXPECT_CUDA(Launch(Kernel("k", 5 * kMs), free_one));
    const int64_t before = MonotonicNs();
    EXPECT_CUDA(cuStreamSynchronize(free_one));
    EXPECT_EQ(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuStreamSynchronize(blocking));
    EXPECT_GE(MonotonicNs() - before, int64_t(55 * kMs));
  });
}

TEST(Stream, PerThreadStreamIsItsOwn) {
  Isolated({}, [] {
    CUcontext context = UseDevice();
    EXPECT_CUDA(Launch(Kernel("k", STEPAGENT_SIM_FOREVER), CU_STREAM_PER_THREAD));
    std::thread([=] {
      EXPECT_CUDA(cuCtxSetCurrent(context));
      EXPECT_CUDA(cuStreamQuery(CU_STREAM_PER_THREAD));
      EXPECT_CUDA(Launch(Kernel("k", 1000), CU_STREAM_PER_THREAD));
      EXPECT_CUDA(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }).join();
    EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  });
}

TEST(Stream, WaitsForAnEventOfAnother) {
  Isolated({}, [] {
    UseDevice();
    CUstream first = NewStream();
    CUstream second = NewStream();
    CUevent event = nullptr;
    EXPECT_CUDA(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    EXPECT_CUDA(Launch(Kernel("k", 30 * kMs), first));
    EXPECT_CUDA(cuEventRecord(event, first));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuStreamWaitEvent(second, event, 0));
    EXPECT_CUDA(Launch(Kernel("k", 1000), second));
    EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    EXPECT_CUDA(cuStreamSynchronize(second));
    EXPECT_CUDA(cuEventQuery(event));
    EXPECT_CUDA(cuStreamQuery(first));
  });
}

TEST(Stream, LagDelaysTheDevice) {
  Isolated({{"LAG", "40ms"}}, [] {
    UseDevice();
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    EXPECT_GE(DrainNs(), int64_t(39 * kMs));
  });
}

TEST(Stream, FullQueueMakesLaunchesWait) {
  Isolated({{"QUEUE_DEPTH", "4"}}, [] {
    UseDevice();
    const int64_t before = MonotonicNs();
    for (int i = 0; i < 8; ++i) EXPECT_CUDA(Launch(Kernel("k", 10 * kMs)));
    EXPECT_GE(MonotonicNs() - before, int64_t(39 * kMs));
    EXPECT_LE(stepagent_sim_pending_ops(), 5u);
  });
}

TEST(Stream, KernelThatNeverEndsByScript) {
  Isolated({{"HANG_KERNEL", "stuck*@2"}}, [] {
    UseDevice();
    CUstream stream = NewStream();
    EXPECT_CUDA(Launch(Kernel("stuck_kernel", 1000), stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_CUDA(Launch(Kernel("stuck_kernel", 1000), stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    CUstream other = NewStream();
    EXPECT_CUDA(Launch(Kernel("fine", 1000), other));
    EXPECT_CUDA(cuStreamSynchronize(other));
  });
}

TEST(Stream, DurationOfTheNextOperationCanBeSet) {
  Isolated({}, [] {
    UseDevice();
    stepagent_sim_next_duration_ns(30 * kMs);
    EXPECT_CUDA(cuMemsetD8Async(NewMemory(16), 1, 16, nullptr));
    EXPECT_GE(DrainNs(), int64_t(29 * kMs));
    EXPECT_CUDA(cuMemsetD8Async(NewMemory(16), 1, 16, nullptr));
    EXPECT_LT(DrainNs(), int64_t(25 * kMs)) << "it counts once";
  });
}

TEST(Stream, TickRoundsDurationsUp) {
  Isolated({{"TICK", "1000"}}, [] {
    UseDevice();
    CUevent begin = nullptr;
    CUevent end = nullptr;
    EXPECT_CUDA(cuEventCreate(&begin, 0));
    EXPECT_CUDA(cuEventCreate(&end, 0));
    CUstream stream = NewStream();
    EXPECT_CUDA(Launch(Kernel("first", 20 * kMs), stream));
    EXPECT_CUDA(cuEventRecord(begin, stream));
    EXPECT_CUDA(Launch(Kernel("k", 1001), stream));
    EXPECT_CUDA(cuEventRecord(end, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    float milliseconds = 0;
    EXPECT_CUDA(cuEventElapsedTime(&milliseconds, begin, end));
    EXPECT_FLOAT_EQ(milliseconds, 0.002f);
  });
}

TEST(Stream, HostFunctionsRunWhenTheStreamGetsThere) {
  Isolated({}, [] {
    UseDevice();
    static std::atomic<int64_t> ran_at{0};
    CUstream stream = NewStream();
    const int64_t before = MonotonicNs();
    EXPECT_CUDA(Launch(Kernel("k", 20 * kMs), stream));
    EXPECT_CUDA(cuLaunchHostFunc(
        stream, [](void*) { ran_at = MonotonicNs(); }, nullptr));
    while (ran_at == 0) std::this_thread::yield();
    EXPECT_GE(ran_at - before, int64_t(20 * kMs));
  });
}

TEST(Stream, HandlesAreChecked) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    EXPECT_CUDA(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(Launch(nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuLaunchKernel(Kernel("k", 1), 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
              CUDA_ERROR_INVALID_VALUE);
    CUcontext none = nullptr;
    EXPECT_CUDA(cuCtxSetCurrent(none));
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(Context, StackAndPrimaries) {
  Isolated({{"DEVICES", "2"}}, [] {
    CUcontext first = UseDevice(0);
    CUcontext second = nullptr;
#if CUDA_VERSION >= 13000
    EXPECT_CUDA(cuCtxCreate(&second, nullptr, 0, 1));
#else
    EXPECT_CUDA(cuCtxCreate(&second, 0, 1));
#endif
    CUdevice device = -1;
    EXPECT_CUDA(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 1);
    CUcontext popped = nullptr;
    EXPECT_CUDA(cuCtxPopCurrent(&popped));
    EXPECT_EQ(popped, second);
    CUcontext current = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, first);
    EXPECT_CUDA(cuCtxDestroy(second));
    EXPECT_EQ(cuCtxPushCurrent(second), CUDA_ERROR_INVALID_CONTEXT);
    unsigned flags = 0;
    int is_active = 0;
    EXPECT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_EQ(is_active, 1);
    EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
    EXPECT_CUDA(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_EQ(is_active, 0);
  });
}

TEST(Cost, LaunchWithNobodyListeningIsCheap) {
  SKIP_IF_SANITIZED();
  Isolated({}, [] {
    UseDevice();
    CUfunction kernel = Kernel("k", 1);
    int64_t best = INT64_MAX;
    for (int batch = 0; batch < 50; ++batch) {
      const int64_t before = MonotonicNs();
      for (int i = 0; i < 500; ++i) Launch(kernel);
      best = std::min(best, (MonotonicNs() - before) / 500);
      cuCtxSynchronize();
    }
    RecordProperty("launch_ns", static_cast<int>(best));
    EXPECT_LT(best, 1000);
  });
}

}  // namespace
}  // namespace stepagent::sim_test
