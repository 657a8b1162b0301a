// The whole backend on the simulated libraries, one process per personality (CMakeLists.txt).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/cupti/api_table.h"
#include "agent/cupti/cupti_backend.h"
#include "agent/cupti/kinds.h"
#include "tests/unit/agent_cupti/backend_fixture.h"
#include "tests/unit/agent_cupti/recording_sink.h"
#include "tests/unit/agent_cupti/rival.h"

namespace stepagent::cupti {
namespace {

using core::CallClass;

class BackendOnSim : public testing::Test {
 protected:
  void SetUp() override {
    if (!TheFixture().is_usable) GTEST_SKIP() << "no simulated device on the loader's path";
  }
  void TearDown() override {
    Record(false);
    if (!TheFixture().is_usable) return;
    TheFixture().cuda.CtxSynchronize();
    Backend().Disarm();
    Backend().Decode(&sink_);
    Backend().Release();
    (void)TakeCalls();
  }

  static SimDriver& Cuda() { return TheFixture().cuda; }
  static void Record(bool on) {
    core::g_words->bits.store(on ? uint32_t{core::kBitCalls} : 0U, std::memory_order_relaxed);
  }
  static CUresult Launch(CUstream stream = nullptr) {
    return Cuda().LaunchKernel(TheFixture().kernel, 4, 2, 1, 128, 1, 1, 256, stream, nullptr,
                               nullptr);
  }
  static void Copy() {
    char host[64] = {};
    ASSERT_EQ(Cuda().MemcpyHtoD(TheFixture().memory, host, sizeof(host)), CUDA_SUCCESS);
  }
  static void Set() { ASSERT_EQ(Cuda().MemsetD8(TheFixture().memory, 7, 64), CUDA_SUCCESS); }

  static std::vector<core::Record> TakeCalls() {
    std::vector<core::Record> records;
    core::RingRegistry::ForEach([&](core::ThreadRing* ring) {
      for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
        records.insert(records.end(), span.items, span.items + span.count);
        ring->ring.Consume(span.count);
      }
    });
    return records;
  }
  void Arm(bool graph_nodes = false, uint32_t activities = kAll) {
    ArmRequest request;
    request.activities = activities;
    request.graph_nodes = graph_nodes;
    Backend().Arm(request);
    ASSERT_TRUE(Backend().IsArmed()) << Backend().state().reason;
    Record(true);
  }
  // As the phase controller: launches off, device kinds stay until all is in, then the rest.
  void CloseWindow(size_t kernels) {
    Record(false);
    EXPECT_EQ(Backend().CallsInFlight(), 0U);
    Backend().DisableCallbacks();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (sink_.kernels.size() < kernels && std::chrono::steady_clock::now() < deadline) {
      Backend().FlushPlain();
      if (Backend().Decode(&sink_) == 0) std::this_thread::yield();
    }
    Backend().Disarm();
    Backend().Decode(&sink_);
  }
  static size_t CountOf(const std::vector<core::Record>& calls, CallClass call_class) {
    size_t count = 0;
    for (const core::Record& call : calls) count += call.call_class == call_class ? 1 : 0;
    return count;
  }

  RecordingSink sink_;
};

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

TEST_F(BackendOnSim, TheSlotIsTakenAndComesBack) {
  Arm();  // so that the library is loaded and known
  Record(false);
  Rival rival;
  EXPECT_EQ(rival.Subscribe(), 39) << "we hold the slot";
  Backend().Disarm();
  Backend().Release();
  ASSERT_EQ(rival.Subscribe(), 0) << "between our cycles the slot is free";
  ArmRequest request;
  request.activities = kAll;
  Backend().Arm(request);
  EXPECT_FALSE(Backend().IsArmed());
  EXPECT_FALSE(Backend().IsSubscribed());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kUnavailable);
  EXPECT_EQ(Backend().state().reason_code, "slot_taken");
  if (rival.has_names()) {
    EXPECT_NE(Backend().state().holder.find("rival"), std::string::npos)
        << Backend().state().holder;
    EXPECT_NE(Backend().state().reason.find("rival"), std::string::npos);
  }
  rival.Unsubscribe();
  Arm();
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
}

TEST_F(BackendOnSim, ARivalFinalisesBetweenCycles) {
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  ASSERT_EQ(sink_.kernels.size(), 1U);
  ASSERT_TRUE(Backend().IsSubscribed());
  Rival().Finalize();
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(2);
  ASSERT_EQ(sink_.kernels.size(), 2U);
  EXPECT_EQ(core::NameTable::Text(sink_.kernels[1].name), "_Z4gemmPfS_");
}

TEST_F(BackendOnSim, ARivalFinalisesWhileWeCollect) {
  Arm();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Rival().Finalize();
  ASSERT_EQ(Launch(), CUDA_SUCCESS);  // seen by nobody
  Cuda().CtxSynchronize();
  CloseWindow(0);
  EXPECT_TRUE(Backend().IsLost());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kPartial);
  EXPECT_EQ(Backend().state().reason_code, "cupti_finalized");
  for (const KindState& kind : Backend().kinds()) {
    EXPECT_FALSE(kind.enabled) << kind.activity;
    EXPECT_FALSE(kind.error.empty()) << kind.activity;
  }
  // What CUPTI gave back at its end counts; its names are gone with it.
  ASSERT_EQ(sink_.kernels.size(), 1U);
  EXPECT_NE(sink_.kernels[0].flags & core::kDeviceNullName, 0);
  sink_ = RecordingSink();
  Arm();
  EXPECT_FALSE(Backend().IsLost());
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected) << Backend().state().reason;
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  CloseWindow(1);
  ASSERT_EQ(sink_.kernels.size(), 1U);
  EXPECT_EQ(core::NameTable::Text(sink_.kernels[0].name), "_Z4gemmPfS_");
}

// As after a call that was under way when the kinds went off: what it asked for must not come back
// to the next client's callback.
TEST_F(BackendOnSim, NoBufferIsLeftBehindWithTheSlot) {
  Arm();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  Rival rival;
  ASSERT_EQ(rival.SwitchKernels(true), 0);
  ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Backend().counters().buffers_outstanding == 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  ASSERT_EQ(rival.SwitchKernels(false), 0);
  ASSERT_EQ(Backend().counters().buffers_outstanding, 1U);
  Backend().Release();
  EXPECT_EQ(Backend().counters().buffers_outstanding, 0U);
}

// The rival's subscription may have our old handle's value: it is not taken for ours, and kept.
TEST_F(BackendOnSim, ARivalFinalisesAndTakesOurPlace) {
  for (const bool is_armed : {true, false}) {
    Arm();
    Record(false);
    if (!is_armed) {
      Backend().Disarm();
      Backend().Decode(&sink_);
    }
    Rival rival;
    rival.Finalize();
    ASSERT_EQ(rival.Subscribe(), 0);
    Backend().Disarm();
    Backend().Decode(&sink_);
    EXPECT_EQ(Backend().IsLost(), is_armed);
    ArmRequest request;
    request.activities = kAll;
    Backend().Arm(request);
    EXPECT_EQ(Backend().state().reason_code, "slot_taken") << Backend().state().reason;
    EXPECT_EQ(rival.EnableSomething(), 0);
    Backend().Release();
    EXPECT_EQ(rival.EnableSomething(), 0) << "the rival was thrown out";
    rival.Unsubscribe();
  }
  Arm();
  EXPECT_EQ(Backend().state().status, GpuState::Status::kCollected);
}

TEST_F(BackendOnSim, AForkedChildIsToldSo) {
  Arm();
  const pid_t child = fork();
  if (child == 0) {
    Backend().ForgetAll();
    ArmRequest request;
    request.activities = kAll;
    Backend().Arm(request);
    const bool is_right = !Backend().IsArmed() && Backend().state().reason_code == "forked_child";
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Backend().IsArmed());
}

TEST_F(BackendOnSim, AStalledDrainCountsWhatItLoses) {
  Arm();
  // More than the cap holds on any personality: 128 MiB are 0.6 M kernel records.
  constexpr uint64_t kLaunches = 20000;
  for (uint64_t i = 0; i < kLaunches; ++i) ASSERT_EQ(Launch(), CUDA_SUCCESS);
  Cuda().CtxSynchronize();
  Record(false);
  Backend().Disarm();
  Backend().Decode(&sink_);
  const BackendCounters counters = Backend().counters();
  EXPECT_EQ(sink_.kernels.size() + counters.pool_dropped[kActivityKernel] + counters.cupti_dropped,
            kLaunches);
  EXPECT_FALSE(counters.dropped_unknown);
}

}  // namespace
}  // namespace stepagent::cupti
