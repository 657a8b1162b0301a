// Buffers: who asks, who returns them, what is withheld, truncated, dropped.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/cupti_fixture.h"

namespace stepagent::sim_test {
namespace {

constexpr int kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
constexpr uint32_t kForced = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;

bool PerThread() { return Under().per_thread_buffers; }

TEST(Flush, PlainWithholdsUnfinishedWork) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("quick", 1000)));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_CUDA(Launch(Kernel("slow", 50 * kMs)));
    Flush();
    EXPECT_EQ(TheDelivered().completed, 0u) << "one unfinished record holds its buffer back";
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 2u);
  });
}

TEST(Flush, ForcedTruncatesAndNeverDeliversAgain) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("slow", 50 * kMs)));
    Flush(kForced);
    auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels[0].At<uint64_t>(24), 0u);
    FinishAndFlush();
    Flush(kForced);
    EXPECT_EQ(TheDelivered().Count(kKernel), 1u);
  });
}

TEST(Flush, KernelThatNeverEndsComesOnlyWhenForced) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("endless", STEPAGENT_SIM_FOREVER), NewStream()));
    Flush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 0u);
    Flush(kForced);
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(kernels[0].At<uint64_t>(24), 0u);
  });
}

// Waits for the worker without sleeping blindly: the condition or ten seconds.
template <class Condition>
bool Eventually(Condition condition) {
  const int64_t deadline = sim::MonotonicNs() + 10'000'000'000;
  while (!condition()) {
    if (sim::MonotonicNs() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Buffers, FullOnesComeBackByThemselves) {
  Isolated({}, [] {
    TheDelivered().buffer_bytes = 2048;
    Collect({kKernel});
    for (int i = 0; i < 40; ++i) EXPECT_CUDA(Launch(Kernel("k", 1 * kMs)));
    EXPECT_TRUE(Eventually([] {
      const std::lock_guard lock(TheDelivered().mutex);
      return TheDelivered().records.size() >= 30;
    }));
    EXPECT_GE(TheDelivered().complete_threads.size(), 1u);
    EXPECT_EQ(TheDelivered().complete_threads.count(pthread_self()), 0u)
        << "unfinished when full: the worker returns them";
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 40u);
  });
}

TEST(Buffers, OnePerThreadSince13) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_DRIVER});
    CUcontext context = nullptr;
    EXPECT_CUDA(cuCtxGetCurrent(&context));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([=] {
        EXPECT_CUDA(cuCtxSetCurrent(context));
        EXPECT_CUDA(Launch(Kernel("k", 1000)));
      });
      threads.back().join();
    }
    EXPECT_CUDA(cuCtxSynchronize());
    if (PerThread()) {
      EXPECT_GE(TheDelivered().request_threads.size(), 2u);
    } else {
      EXPECT_EQ(TheDelivered().requested, 1u) << "one buffer for all";
    }
    Flush();
    EXPECT_GE(TheDelivered().Count(CUPTI_ACTIVITY_KIND_DRIVER), 8u);
  });
}

TEST(Buffers, DeviceRecordsAreTheWorkersBefore13) {
  SKIP_IF_SANITIZED();
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    EXPECT_TRUE(Eventually([] {
      const std::lock_guard lock(TheDelivered().mutex);
      return TheDelivered().requested > 0;
    }));
    EXPECT_EQ(TheDelivered().request_threads.count(pthread_self()), PerThread() ? 1u : 0u);
    EXPECT_EQ(CountThreads(), 2) << "one worker";
  });
}

TEST(Buffers, PerThreadCanBeSwitched) {
  Isolated({}, [] {
    Collect({});
    const auto attribute = static_cast<CUpti_ActivityAttribute>(9);
    uint8_t value = 9;
    size_t size = sizeof(value);
    EXPECT_CUPTI(TheCupti().cuptiActivityGetAttribute(attribute, &size, &value));
    EXPECT_EQ(value, PerThread() ? 1 : 0);
    value = 1;
    EXPECT_CUPTI(TheCupti().cuptiActivitySetAttribute(attribute, &size, &value));
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(static_cast<CUpti_ActivityKind>(kKernel)));
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().request_threads.count(pthread_self()), 1u);
  });
}

TEST(Buffers, RecordLimitIsHonoured) {
  Isolated({}, [] {
    TheDelivered().record_limit = 2;
    Collect({kKernel});
    for (int i = 0; i < 6; ++i) EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 6u);
    EXPECT_GE(TheDelivered().completed, 3u);
  });
}

TEST(Drops, DiscardBufferIsCountedAndReadOnce) {
  Isolated({}, [] {
    TheDelivered().buffer_bytes = 64;
    Collect({kKernel});
    for (int i = 0; i < 5; ++i) EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    size_t dropped = 0;
    EXPECT_CUPTI(TheCupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    EXPECT_EQ(dropped, 5u);
    EXPECT_CUPTI(TheCupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    EXPECT_EQ(dropped, 0u);
    EXPECT_EQ(stepagent_sim_counter("cupti.records_dropped"), 5u);
    EXPECT_EQ(TheDelivered().records.size(), 0u);
  });
}

TEST(Drops, RefusedBufferCrashesBelowApi27) {
  SKIP_IF_SANITIZED();
  auto body = [] {
    TheDelivered().refuses = true;
    Collect({CUPTI_ACTIVITY_KIND_DRIVER});
    EXPECT_CUDA(cuCtxSynchronize());
    size_t dropped = 0;
    EXPECT_CUPTI(TheCupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    EXPECT_EQ(dropped, 1u);
  };
  if (Under().null_buffer_crashes) {
    Dies({}, SIGSEGV, "", body);
  } else {
    Isolated({}, body);
  }
}

TEST(Misuse, MisalignedBufferAborts) {
  Dies({}, SIGABRT, "not aligned to 8 bytes", [] {
    TheDelivered().misalignment = 4;
    Collect({CUPTI_ACTIVITY_KIND_DRIVER});
    cuCtxSynchronize();
  });
}

TEST(Misuse, CallingCuptiFromABufferCallbackAborts) {
  Dies({}, SIGABRT, "cuptiActivityGetNumDroppedRecords called from a buffer callback", [] {
    TheDelivered().in_callback = [] {
      size_t dropped = 0;
      TheCupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
    };
    Collect({CUPTI_ACTIVITY_KIND_DRIVER});
    cuCtxSynchronize();
  });
}

TEST(Misuse, FlushInAForkedChildHangs) {
  Isolated({}, [] {
    Collect({kKernel});
    Dies({}, SIGALRM, "", [] {
      alarm(1);
      TheCupti().cuptiActivityFlushAll(0);
    });
  });
}

TEST(Delivery, OutOfOrderByScript) {
  Isolated({{"ORDER", "random"}, {"LATE", "20ms"}}, [] {
    Collect({kKernel});
    for (int i = 0; i < 200; ++i) EXPECT_CUDA(Launch(Kernel("k", 1000)));
    EXPECT_CUDA(cuCtxSynchronize());
    Flush(kForced);
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 200u);
    EXPECT_FALSE(std::is_sorted(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) {
      return a.template At<uint32_t>(92) < b.template At<uint32_t>(92);
    }));
  });
}

TEST(Delivery, LateByScript) {
  Isolated({{"LATE", "300ms"}}, [] {
    Collect({kKernel});
    const int64_t before = sim::MonotonicNs();
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), 0u);
    EXPECT_TRUE(Eventually([] {
      Flush();
      return TheDelivered().Count(kKernel) == 1;
    }));
    EXPECT_GE(sim::MonotonicNs() - before, int64_t(300 * kMs));
  });
}

TEST(Log, OneLineForEachCall) {
  const std::string path = ScratchPath("log");
  Isolated({{"LOG", path}}, [] {
    Collect({kKernel});
    Flush();
    TheCupti().cuptiActivityEnable(static_cast<CUpti_ActivityKind>(63));
  });
  const std::string log = ReadText(path);
  EXPECT_NE(log.find("cuptiActivityRegisterCallbacks 0\n"), std::string::npos) << log;
  EXPECT_NE(log.find("cuptiActivityFlushAll 0\n"), std::string::npos);
  EXPECT_NE(log.find("cuptiActivityEnable 21\n"), std::string::npos);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4);
}

TEST(Log, CountersOfCallsBuffersAndKinds) {
  Isolated({}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 1 * kMs)));
    Flush();
    EXPECT_EQ(stepagent_sim_counter("cupti.buffers_outstanding"), 1u);
    FinishAndFlush();
    EXPECT_EQ(stepagent_sim_counter("cupti.buffers_outstanding"), 0u);
    EXPECT_EQ(stepagent_sim_counter("cupti.calls"), 4u);
    EXPECT_EQ(stepagent_sim_counter("cupti.cuptiActivityEnable"), 1u);
    EXPECT_EQ(stepagent_sim_counter("cupti.buffers_requested"), 1u);
    EXPECT_EQ(stepagent_sim_counter("cupti.buffers_completed"), 1u);
    EXPECT_EQ(stepagent_sim_counter("cupti.records.kind_10"), 1u);
    EXPECT_EQ(stepagent_sim_counter("cupti.callbacks"), 0u);
  });
}

}  // namespace
}  // namespace stepagent::sim_test
