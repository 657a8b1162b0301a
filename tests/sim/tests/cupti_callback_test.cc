// Subscription and callbacks.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>

#include "tests/cupti_fixture.h"

namespace stepagent::sim_test {
namespace {

constexpr CUpti_CallbackId kLaunch = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;

void Enable(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
            bool on = true) {
  EXPECT_CUPTI(TheCupti().cuptiEnableCallback(on ? 1 : 0, handle, domain, cbid));
}

void Nothing(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

TEST(Subscriber, ThereIsOne) {
  Isolated({}, [] {
    UseDevice();
    CUpti_SubscriberHandle first = Subscribe();
    CUpti_SubscriberHandle second = nullptr;
    EXPECT_EQ(TheCupti().cuptiSubscribe(&second, Nothing, nullptr),
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    EXPECT_CUPTI(TheCupti().cuptiUnsubscribe(first));
    EXPECT_CUPTI(TheCupti().cuptiSubscribe(&second, Nothing, nullptr));
    EXPECT_EQ(TheCupti().cuptiUnsubscribe(nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  });
}

TEST(Subscriber, IsOneAcrossCopiesOfTheLibrary) {
  Isolated({}, [] {
    UseDevice();
    Subscribe();
    const Cupti other = LoadCupti(LibraryPath(PersonalityName() == "12.4" ? "12.6" : "12.4"));
    CUpti_SubscriberHandle handle = nullptr;
    EXPECT_EQ(other.cuptiSubscribe(&handle, Nothing, nullptr),
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    // Their activity states are their own.
    EXPECT_CUPTI(other.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
  });
}

#if CUPTI_API_VERSION >= 130000
TEST(Subscriber, NameOfTheHolderIsTold) {
  Isolated({}, [] {
    UseDevice();
    auto subscribe = reinterpret_cast<decltype(&cuptiSubscribe_v2)>(
        dlsym(TheCupti().library, "cuptiSubscribe_v2"));
    if (subscribe == nullptr) {
      EXPECT_LT(Under().api_version, 130000u);
      return;
    }
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "rival";
    CUpti_SubscriberHandle handle = nullptr;
    EXPECT_CUPTI(subscribe(&handle, Nothing, nullptr, &params));
    char holder[64] = "";
    params.subscriberName = "second";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof(holder);
    EXPECT_EQ(subscribe(&handle, Nothing, nullptr, &params),
              CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    EXPECT_STREQ(holder, "CUPTI for rival");
    params.structSize = 8;
    EXPECT_EQ(subscribe(&handle, Nothing, nullptr, &params), CUPTI_ERROR_INVALID_PARAMETER);
  });
}
#endif

TEST(Subscriber, TakesTheTimeItIsTold) {
  Isolated({{"SUBSCRIBE", "30ms"}, {"FIRST_ENABLE", "40ms"}}, [] {
    UseDevice();
    int64_t before = sim::MonotonicNs();
    Subscribe();
    EXPECT_GE(sim::MonotonicNs() - before, int64_t(30 * kMs));
    before = sim::MonotonicNs();
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
    EXPECT_GE(sim::MonotonicNs() - before, int64_t(40 * kMs));
    before = sim::MonotonicNs();
    EXPECT_CUPTI(TheCupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET));
    EXPECT_LT(sim::MonotonicNs() - before, int64_t(30 * kMs));
  });
}

TEST(Callback, EnterAndExitOfALaunch) {
  Isolated({{"CORRELATION_START", "77"}}, [] {
    CUcontext context = UseDevice();
    CUpti_SubscriberHandle handle = Subscribe();
    Enable(handle, CUPTI_CB_DOMAIN_DRIVER_API, kLaunch);
    EXPECT_CUDA(Launch(Kernel("named", 1000)));
    ASSERT_EQ(TheSeen().size(), 2u);
    const Seen& enter = TheSeen()[0];
    const Seen& exit = TheSeen()[1];
    EXPECT_EQ(enter.site, CUPTI_API_ENTER);
    EXPECT_EQ(exit.site, CUPTI_API_EXIT);
    EXPECT_EQ(enter.function, "cuLaunchKernel");
    EXPECT_EQ(enter.symbol, "named");
    EXPECT_EQ(enter.correlation_id, 77u);
    EXPECT_EQ(exit.correlation_id, 77u);
    EXPECT_EQ(exit.correlation_data, 4242u) << "set on enter, seen on exit";
    EXPECT_EQ(enter.grid_x, 2u);
    EXPECT_EQ(enter.return_value, -1);
    EXPECT_EQ(exit.return_value, 0);
    uint32_t id = 0;
    EXPECT_CUPTI(TheCupti().cuptiGetContextId(context, &id));
    EXPECT_EQ(enter.context_uid, id);
  });
}

TEST(Callback, FailedCallsShowTheirResult) {
  Isolated({{"FAULTS", "cuLaunchKernel=700@1x1"}}, [] {
    UseDevice();
    Enable(Subscribe(), CUPTI_CB_DOMAIN_DRIVER_API, kLaunch);
    EXPECT_EQ(static_cast<int>(Launch(Kernel("k", 1))), 700);
    ASSERT_EQ(TheSeen().size(), 2u);
    EXPECT_EQ(TheSeen()[1].return_value, 700);
  });
}

TEST(Callback, OnlyEnabledOnesComeAndNoneAfterwards) {
  Isolated({}, [] {
    UseDevice();
    CUpti_SubscriberHandle handle = Subscribe();
    CUfunction kernel = Kernel("k", 1);
    EXPECT_CUDA(Launch(kernel));
    EXPECT_TRUE(TheSeen().empty());
    Enable(handle, CUPTI_CB_DOMAIN_DRIVER_API, kLaunch);
    EXPECT_CUDA(cuMemsetD8(NewMemory(8), 0, 8));
    EXPECT_TRUE(TheSeen().empty());
    Enable(handle, CUPTI_CB_DOMAIN_DRIVER_API, kLaunch, false);
    EXPECT_CUDA(Launch(kernel));
    EXPECT_TRUE(TheSeen().empty());
    EXPECT_CUPTI(TheCupti().cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_DRIVER_API));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_EQ(TheSeen().size(), 2u);
    EXPECT_CUPTI(TheCupti().cuptiUnsubscribe(handle));
    EXPECT_CUDA(cuCtxSynchronize());
    EXPECT_EQ(TheSeen().size(), 2u);
    EXPECT_EQ(stepagent_sim_counter("cupti.callbacks"), 2u);
  });
}

TEST(Callback, RuntimeCallsNestDriverCallsUnderOneId) {
  Isolated({}, [] {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
    CUpti_SubscriberHandle handle = Subscribe();
    EXPECT_CUPTI(TheCupti().cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_DRIVER_API));
    EXPECT_CUPTI(TheCupti().cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API));
    void* kernel = stepagent_sim_register_kernel("k", 1000);
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(2), dim3(32), nullptr, 0, nullptr), cudaSuccess);
    ASSERT_EQ(TheSeen().size(), 4u);
    const auto& seen = TheSeen();
    EXPECT_EQ(seen[0].domain, uint32_t{CUPTI_CB_DOMAIN_RUNTIME_API});
    EXPECT_EQ(seen[0].cbid, uint32_t{CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000});
    EXPECT_EQ(seen[0].symbol, "k");
    EXPECT_EQ(seen[1].domain, uint32_t{CUPTI_CB_DOMAIN_DRIVER_API});
    EXPECT_EQ(seen[1].cbid, kLaunch);
    EXPECT_EQ(seen[2].site, CUPTI_API_EXIT);
    EXPECT_EQ(seen[3].domain, uint32_t{CUPTI_CB_DOMAIN_RUNTIME_API});
    for (const Seen& one : seen) EXPECT_EQ(one.correlation_id, seen[0].correlation_id);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_NE(seen[4].correlation_id, seen[0].correlation_id);
  });
}

TEST(Callback, RuntimeErrorsAreTheRuntimesOwn) {
  Isolated({{"CUINIT", "100"}}, [] {
    int count = -1;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST(Callback, ResourcesAndSynchronisations) {
  Isolated({}, [] {
    UseDevice();
    CUpti_SubscriberHandle handle = Subscribe();
    EXPECT_CUPTI(TheCupti().cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_RESOURCE));
    EXPECT_CUPTI(TheCupti().cuptiEnableDomain(1, handle, CUPTI_CB_DOMAIN_SYNCHRONIZE));
    CUstream stream = NewStream();
    EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(Launch(Kernel("k", 1000), stream));
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = nullptr;
    EXPECT_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_CUDA(cuStreamDestroy(stream));
    auto count = [](uint32_t domain, uint32_t cbid) {
      return std::count_if(TheSeen().begin(), TheSeen().end(), [&](const Seen& seen) {
        return seen.domain == domain && seen.cbid == cbid;
      });
    };
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_CREATED), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPH_CREATED), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED), 1);
    EXPECT_EQ(count(CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED), 1);
  });
}

TEST(Misuse, SecondTimestampCallbackAborts) {
  Dies({}, SIGABRT, "second timestamp callback", [] {
    UseDevice();
    auto now = []() -> uint64_t { return 1; };
    EXPECT_CUPTI(TheCupti().cuptiActivityRegisterTimestampCallback(now));
    TheCupti().cuptiActivityRegisterTimestampCallback(now);
  });
}

TEST(Finalize, ForgetsTheSubscriptionAndRuinsNames) {
  Isolated({}, [] {
    Collect({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
    Subscribe();
    EXPECT_CUDA(Launch(Kernel("precious", 1000)));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    ASSERT_EQ(kernels.size(), 1u);
    const char* name = kernels[0].At<const char*>(104);
    EXPECT_STREQ(name, "precious");
    EXPECT_CUPTI(TheCupti().cuptiFinalize());
    EXPECT_STREQ(name, "########");
    CUpti_SubscriberHandle handle = nullptr;
    EXPECT_CUPTI(TheCupti().cuptiSubscribe(&handle, Nothing, nullptr));
  });
}

TEST(Finalize, WithGraphsAliveCrashesOldGenerations) {
  auto body = [] {
    Collect({});
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuGraphCreate(&graph, 0));
    EXPECT_CUPTI(TheCupti().cuptiFinalize());
  };
  if (Under().finalize_crashes_with_graphs) {
    Dies({}, SIGABRT, "cuptiFinalize with 1 graphs alive", body);
  } else {
    Isolated({}, body);
  }
}

}  // namespace
}  // namespace stepagent::sim_test
