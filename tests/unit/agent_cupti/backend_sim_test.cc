// The whole backend on the simulated libraries, one process per personality (CMakeLists.txt).
#include "tests/unit/agent_cupti/backend_sim_fixture.h"

namespace stepagent::cupti {
namespace {

TEST_F(BackendOnSim, AWindowHoldsWhatWasLaunchedInIt) {
  ASSERT_EQ(Launch(), CUDA_SUCCESS);  // before
  Arm();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Launch(), CUDA_SUCCESS);
    Copy();
    Set();
  }
  ASSERT_EQ(Cuda().CtxSynchronize(), CUDA_SUCCESS);
  CloseWindow(20);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);  // after
  Cuda().CtxSynchronize();

  const auto calls = TakeCalls();
  EXPECT_EQ(CountOf(calls, CallClass::kLaunch), 20U);
  EXPECT_EQ(CountOf(calls, CallClass::kMemcpy), 20U);
  EXPECT_EQ(CountOf(calls, CallClass::kMemset), 20U);
  EXPECT_EQ(CountOf(calls, CallClass::kSync), 1U);
  EXPECT_EQ(calls.size(), 61U);
  ASSERT_EQ(sink_.kernels.size(), 20U);
  EXPECT_EQ(sink_.memcpys.size(), 20U);
  EXPECT_EQ(sink_.memsets.size(), 20U);
  EXPECT_GE(sink_.syncs.size(), 1U);
  EXPECT_TRUE(sink_.invalid.empty());
  std::set<uint32_t> correlations;
  for (const core::Record& call : calls) correlations.insert(call.correlation);
  EXPECT_EQ(correlations.size(), 61U);
  for (const core::KernelActivity& kernel : sink_.kernels) {
    EXPECT_TRUE(correlations.count(kernel.correlation)) << kernel.correlation;
    EXPECT_EQ(core::NameTable::Text(kernel.name), "_Z4gemmPfS_");
    EXPECT_EQ(kernel.grid[0], 4U);
    EXPECT_EQ(kernel.block[0], 128U);
    EXPECT_EQ(kernel.flags, 0);
    EXPECT_EQ(kernel.end_ns - kernel.start_ns, 50000U);
  }
  EXPECT_EQ(sink_.memcpys.at(0).bytes, 64U);
  EXPECT_EQ(sink_.memsets.at(0).value & 0xFF, 7U);
  EXPECT_GE(sink_.devices.size(), 1U);
  EXPECT_GE(sink_.contexts.size(), 1U);
}

TEST_F(BackendOnSim, StateNamesTheLibraryAndWhy) {
  Arm();
  const GpuState state = Backend().state();
  EXPECT_EQ(state.status, GpuState::Status::kCollected) << state.reason;
  const std::string folder = std::string("cupti-") + getenv("STEPAGENT_TEST_PERSONALITY");
  EXPECT_NE(state.cupti_path.find(folder + "/libcupti.so"), std::string::npos) << state.cupti_path;
  EXPECT_FALSE(state.cupti_choice.empty());
  EXPECT_NE(state.cupti_version, 0U);
  EXPECT_NE(state.driver_version, 0U);
  EXPECT_EQ(state.graph_level, "graph");
  EXPECT_EQ(state.newer_cupti, std::string(getenv("STEPAGENT_TEST_PERSONALITY")) == "future");
  for (const KindState& kind : Backend().kinds()) EXPECT_TRUE(kind.enabled) << kind.activity;
  EXPECT_EQ(Backend().kinds().size(), 7U);
}

TEST_F(BackendOnSim, KernelAndMemcpyOnly) {
  Arm(false, ActivityMask(kActivityKernel));
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Copy();
  CloseWindow(1);
  EXPECT_EQ(sink_.kernels.size(), 1U);
  EXPECT_TRUE(sink_.memcpys.empty());
  EXPECT_TRUE(TakeCalls().empty());
  ASSERT_EQ(Backend().kinds().size(), 1U);
}

TEST_F(BackendOnSim, NothingAskedForTouchesNothing) {
  const uint64_t before = Cuda().Counter("cupti.calls");
  Backend().Arm(ArmRequest());
  EXPECT_FALSE(Backend().IsArmed());
  EXPECT_EQ(Backend().state().reason_code, "not_asked");
  EXPECT_FALSE(Backend().IsSubscribed());
  EXPECT_EQ(Cuda().Counter("cupti.calls"), before);
}

void BuildGraph(SimDriver& cuda, CUstream stream, int nodes, CUfunction kernel, CUgraphExec* exec) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuda.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  for (int i = 0; i < nodes; ++i) {
    ASSERT_EQ(cuda.LaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr),
              CUDA_SUCCESS);
  }
  ASSERT_EQ(cuda.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuda.GraphInstantiate(exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuda.GraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(BackendOnSim, GraphsAtBothLevels) {
  CUstream stream = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(Cuda().StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  Arm(false);
  BuildGraph(Cuda(), stream, 5, TheFixture().kernel, &exec);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Cuda().GraphLaunch(exec, stream), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(0);
  auto calls = TakeCalls();
  EXPECT_EQ(CountOf(calls, CallClass::kLaunch), 5U);
  EXPECT_EQ(CountOf(calls, CallClass::kGraphLaunch), 3U);
  for (const core::Record& call : calls) {
    EXPECT_EQ(call.category,
              call.call_class == CallClass::kLaunch ? uint32_t{core::kCallCaptured} : 0U);
  }
  EXPECT_EQ(sink_.graphs.size(), 3U);
  EXPECT_TRUE(sink_.kernels.empty());

  sink_ = RecordingSink();
  Arm(true);
  EXPECT_EQ(Backend().state().graph_level, "node");
  ASSERT_EQ(Cuda().GraphLaunch(exec, stream), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(5);
  calls = TakeCalls();
  ASSERT_EQ(CountOf(calls, CallClass::kGraphLaunch), 1U);
  ASSERT_EQ(sink_.kernels.size(), 5U);
  EXPECT_TRUE(sink_.graphs.empty());
  for (const core::KernelActivity& kernel : sink_.kernels) {
    EXPECT_NE(kernel.graph_node_id, 0U);
    for (const core::Record& call : calls) {
      if (call.call_class == CallClass::kGraphLaunch) {
        EXPECT_EQ(kernel.correlation, call.correlation);
      }
    }
  }
  Cuda().GraphExecDestroy(exec);
}

TEST_F(BackendOnSim, FailedCallsAreMarked) {
  Arm();
  EXPECT_NE(Cuda().LaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_SUCCESS);
  CloseWindow(0);
  const auto calls = TakeCalls();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].category, core::kCallFailed);
  EXPECT_NE(calls[0].return_value, 0);
}

TEST_F(BackendOnSim, ManyShortWindowsOneSubscription) {
  for (int i = 0; i < 100; ++i) {
    Arm();
    ASSERT_EQ(Launch(), CUDA_SUCCESS);
    Record(false);
    Backend().Disarm();
    Backend().Decode(&sink_);
    EXPECT_TRUE(Backend().IsSubscribed());
  }
  EXPECT_EQ(sink_.kernels.size(), 100U);  // the forced flush cuts unfinished ones, none is lost
  EXPECT_EQ(CountOf(TakeCalls(), CallClass::kLaunch), 100U);
  EXPECT_EQ(Backend().counters().buffers_outstanding, 0U);
  EXPECT_EQ(Backend().counters().foreign_buffers, 0U);
  Backend().Release();
  EXPECT_FALSE(Backend().IsSubscribed());
  EXPECT_EQ(Backend().counters().buffer_bytes, 0U);
}

TEST_F(BackendOnSim, AdjoiningWindowsKeepTheSubscription) {
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Arm();  // the next cycle's warmup follows at once
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(2);
  EXPECT_EQ(sink_.kernels.size(), 2U);
}

TEST_F(BackendOnSim, ArmedAgainWhatAnotherClientTookIsAskedForAgain) {
  Arm();
  Record(true);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  ApiTable rival;
  void* library = dlopen(Backend().state().cupti_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  ASSERT_EQ(rival.Fill(library), "");
  Backend().FlushPlain();
  Backend().Decode(&sink_);
  ASSERT_EQ(sink_.kernels.size(), 1U);
  ASSERT_EQ(rival.ActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), CUPTI_SUCCESS);
  ASSERT_EQ(rival.ActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY), CUPTI_SUCCESS);
  Arm();  // the older window's tail is still open: nothing was disarmed
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Copy();
  CloseWindow(2);
  EXPECT_EQ(sink_.kernels.size(), 2U);
  EXPECT_EQ(sink_.memcpys.size(), 1U);
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
  dlclose(library);
}

TEST_F(BackendOnSim, ThreadsLaunchWhileCallbacksComeAndGo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Cuda().CtxSetCurrent(TheFixture().context);
      while (!stop.load(std::memory_order_relaxed)) {
        (void)Launch();
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    Arm();
    Record(false);
    Backend().Disarm();
    Backend().Decode(&sink_);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  Cuda().CtxSynchronize();
  for (const core::Record& call : TakeCalls()) {
    EXPECT_LE(call.begin_ticks, call.end_ticks);
    EXPECT_EQ(call.category, 0U);
  }
  // Later pairs are right.
  sink_ = RecordingSink();
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(1);
  EXPECT_EQ(CountOf(TakeCalls(), CallClass::kLaunch), 1U);
}

}  // namespace
}  // namespace stepagent::cupti
