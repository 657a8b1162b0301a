// Odd records by script, clocks, graphs at both levels.
#include <algorithm>

#include "tests/cupti_fixture.h"

namespace stepagent::sim_test {
namespace {

constexpr int kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
constexpr int kGraph = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;

// Launches three kernels of 1000 ns and delivers them.
std::vector<Record> ThreeKernels() {
  Collect({kKernel});
  for (int i = 0; i < 3; ++i) EXPECT_CUDA(Launch(Kernel("plain", 1000)));
  FinishAndFlush();
  return TheDelivered().Of(kKernel);
}

uint64_t Start(const Record& record) { return record.At<uint64_t>(16); }
uint64_t End(const Record& record) { return record.At<uint64_t>(24); }

TEST(Odd, Times) {
  Isolated({{"ODD", "zero@1;reversed@2;future@3"}}, [] {
    const auto kernels = ThreeKernels();
    ASSERT_EQ(kernels.size(), 3u);
    EXPECT_EQ(Start(kernels[0]), 0u);
    EXPECT_EQ(End(kernels[0]), 0u);
    EXPECT_EQ(Start(kernels[1]) - End(kernels[1]), 1000u);
    EXPECT_GT(End(kernels[2]) - Start(kernels[2]), 86400ull * 1000000000);
  });
  Isolated({{"ODD", "zero_start@1;zero_end/2"}}, [] {
    const auto kernels = ThreeKernels();
    EXPECT_EQ(Start(kernels[0]), 0u);
    EXPECT_NE(End(kernels[0]), 0u);
    EXPECT_EQ(End(kernels[1]), 0u);
    EXPECT_NE(End(kernels[2]), 0u);
  });
}

TEST(Odd, Names) {
  Isolated({{"ODD", "null_name@1;long_name@2;bad_utf8@3"}}, [] {
    const auto kernels = ThreeKernels();
    EXPECT_EQ(kernels[0].At<const char*>(104), nullptr);
    EXPECT_EQ(strlen(kernels[1].At<const char*>(104)), 100000u);
    EXPECT_NE(strchr(kernels[2].At<const char*>(104), '\xff'), nullptr);
  });
  Isolated({{"ODD", "empty_name@1"}},
           [] { EXPECT_STREQ(ThreeKernels()[0].At<const char*>(104), ""); });
}

TEST(Odd, DevicesDropsExtrasAndDuplicates) {
  Isolated({{"ODD", "no_device@1;drop@2;extra@3;duplicate@3"}}, [] {
    const auto kernels = ThreeKernels();
    ASSERT_EQ(kernels.size(), 3u) << "one dropped, one twice";
    EXPECT_EQ(kernels[0].At<int32_t>(40), -1);
    EXPECT_EQ(kernels[1].bytes, kernels[2].bytes);
    size_t dropped = 0;
    EXPECT_CUPTI(TheCupti().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
    EXPECT_EQ(dropped, 1u);
    EXPECT_EQ(TheDelivered().Count(
                  PersonalityName() == "future" ? 60 : uint32_t{CUPTI_ACTIVITY_KIND_ENVIRONMENT}),
              1u);
  });
  Dies({{"ODD", "strange@1"}}, SIGABRT, "is not what@n", [] { ThreeKernels(); });
}

TEST(Clock, OffsetAndDriftOfTheDevice) {
  Isolated({{"CLOCK_OFFSET", "5s"}}, [] {
    const auto kernels = ThreeKernels();
    uint64_t now = 0;
    EXPECT_CUPTI(TheCupti().cuptiGetTimestamp(&now));
    const auto ahead = static_cast<int64_t>(Start(kernels[0]) - now);
    EXPECT_GT(ahead, 4'000'000'000);
    EXPECT_LT(ahead, 5'000'000'000);
  });
  // A tenth faster: 100 ms of host time are 110 ms of device stamps.
  Isolated({{"CLOCK_DRIFT_PPM", "100000"}}, [] {
    Collect({kKernel});
    EXPECT_CUDA(Launch(Kernel("k", 100 * kMs)));
    EXPECT_CUDA(Launch(Kernel("k", 1000)));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(kKernel);
    EXPECT_EQ(End(kernels[0]) - Start(kernels[0]), 100 * kMs) << "durations are kept";
    EXPECT_NEAR(static_cast<double>(Start(kernels[1]) - Start(kernels[0])), 110e6, 1e5);
  });
}

TEST(Clock, OtherBase) {
  Isolated({{"CLOCK_BASE", "monotonic"}}, [] {
    const auto kernels = ThreeKernels();
    const auto now = static_cast<uint64_t>(sim::MonotonicNs());
    EXPECT_LE(Start(kernels[0]), now);
    EXPECT_GT(Start(kernels[0]) + 10'000'000'000, now);
  });
}

TEST(Clock, WallStepByScript) {
  Isolated({{"WALL_STEP", "2s"}, {"WALL_STEP_AFTER", "50ms"}}, [] {
    uint64_t before = 0;
    uint64_t after = 0;
    EXPECT_CUPTI(TheCupti().cuptiGetTimestamp(&before));
    sim::SleepUntil(sim::MonotonicNs() + int64_t(60 * kMs));
    EXPECT_CUPTI(TheCupti().cuptiGetTimestamp(&after));
    EXPECT_GT(after - before, 2'000'000'000u);
  });
}

CUgraphExec CaptureThree(CUstream stream) {
  EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (const char* name : {"a", "b", "c"}) EXPECT_CUDA(Launch(Kernel(name, 1000), stream));
  CUgraph graph = nullptr;
  EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_CUDA(cuGraphDestroy(graph));
  return exec;
}

TEST(GraphRecords, NodesShareTheLaunchsCorrelation) {
  Isolated({}, [] {
    Collect({kKernel, CUPTI_ACTIVITY_KIND_DRIVER});
    CUstream stream = NewStream();
    CUgraphExec exec = CaptureThree(stream);
    EXPECT_CUDA(cuGraphLaunch(exec, stream));
    FinishAndFlush();
    const auto kernels = TheDelivered().Of(kKernel);
    ASSERT_EQ(kernels.size(), 3u);
    uint32_t launch = 0;
    for (const Record& call : TheDelivered().Of(CUPTI_ACTIVITY_KIND_DRIVER)) {
      if (call.At<uint32_t>(4) == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch) {
        launch = call.At<uint32_t>(32);
      }
    }
    uint32_t exec_id = 1;
    if (TheCupti().cuptiGetGraphExecId != nullptr) {
      EXPECT_CUPTI(TheCupti().cuptiGetGraphExecId(exec, &exec_id));
    } else {
      exec_id = kernels[0].At<uint32_t>(156);
    }
    std::set<uint64_t> nodes;
    for (const Record& kernel : kernels) {
      EXPECT_EQ(kernel.At<uint32_t>(92), launch);
      EXPECT_EQ(kernel.At<uint32_t>(156), exec_id);
      nodes.insert(kernel.At<uint64_t>(144));
    }
    EXPECT_EQ(nodes.size(), 3u);
  });
}

// A graph that was there before CUPTI: old generations record none of its kernels, later ones all.
TEST(GraphRecords, GraphsFromBeforeCuptiCame) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    CUgraphExec early = CaptureThree(stream);
    Collect({kKernel});
    EXPECT_CUDA(cuGraphLaunch(early, stream));
    FinishAndFlush();
    const size_t seen = Under().api_version <= 18 ? 0u : 3u;
    EXPECT_EQ(TheDelivered().Count(kKernel), seen);
    EXPECT_CUDA(cuGraphLaunch(CaptureThree(stream), stream));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), seen + 3u);
  });
}

#if CUDA_VERSION >= 13000
TEST(GraphRecords, BodiesOfConditionalNodesAreSeenSince126) {
  Isolated({}, [] {
    Collect({kKernel});
    CUstream stream = NewStream();
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuGraphCreate(&graph, 0));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    EXPECT_CUDA(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, nullptr, 1,
                                               CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNode node = nullptr;
    EXPECT_CUDA(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
    CUDA_KERNEL_NODE_PARAMS kernel{};
    kernel.func = Kernel("inside", 1000);
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    EXPECT_CUDA(
        cuGraphAddKernelNode(&node, params.conditional.phGraph_out[0], nullptr, 0, &kernel));
    CUgraphExec exec = nullptr;
    EXPECT_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_CUDA(cuGraphLaunch(exec, stream));
    FinishAndFlush();
    EXPECT_EQ(TheDelivered().Count(kKernel), Under().api_version >= 24 ? 1u : 0u);
  });
}
#endif

TEST(GraphRecords, TraceLevelIsOneRecordAndNoNodes) {
  Isolated({}, [] {
    Collect({kKernel, kGraph});
    CUstream stream = NewStream();
    CUgraphExec exec = CaptureThree(stream);
    for (int i = 0; i < 2; ++i) EXPECT_CUDA(cuGraphLaunch(exec, stream));
    EXPECT_CUDA(Launch(Kernel("outside", 1000), stream));
    FinishAndFlush();
    const auto traces = TheDelivered().Of(kGraph);
    ASSERT_EQ(traces.size(), 2u);
    EXPECT_EQ(traces[0].At<uint64_t>(16) - traces[0].At<uint64_t>(8), 3000u);
    EXPECT_NE(traces[0].At<uint32_t>(4), traces[1].At<uint32_t>(4));
    EXPECT_EQ(traces[0].At<uint32_t>(28), traces[1].At<uint32_t>(28));
    EXPECT_EQ(TheDelivered().Count(kKernel), 1u);
  });
}

TEST(GraphRecords, IdsOfDestroyedInstancesComeAgain) {
  Isolated({}, [] {
    Collect({kGraph});
    CUstream stream = NewStream();
    for (int i = 0; i < 2; ++i) {
      CUgraphExec exec = CaptureThree(stream);
      EXPECT_CUDA(cuGraphLaunch(exec, stream));
      EXPECT_CUDA(cuStreamSynchronize(stream));
      EXPECT_CUDA(cuGraphExecDestroy(exec));
    }
    FinishAndFlush();
    const auto traces = TheDelivered().Of(kGraph);
    ASSERT_EQ(traces.size(), 2u);
    EXPECT_EQ(traces[0].At<uint32_t>(28), traces[1].At<uint32_t>(28));
  });
}

TEST(GraphRecords, IdsAreUniqueWhenToldSo) {
  Isolated({{"RECYCLE_GRAPH_IDS", "0"}}, [] {
    Collect({kGraph});
    CUstream stream = NewStream();
    for (int i = 0; i < 2; ++i) {
      CUgraphExec exec = CaptureThree(stream);
      EXPECT_CUDA(cuGraphLaunch(exec, stream));
      EXPECT_CUDA(cuGraphExecDestroy(exec));
    }
    FinishAndFlush();
    const auto traces = TheDelivered().Of(kGraph);
    ASSERT_EQ(traces.size(), 2u);
    EXPECT_NE(traces[0].At<uint32_t>(28), traces[1].At<uint32_t>(28));
  });
}

}  // namespace
}  // namespace stepagent::sim_test
