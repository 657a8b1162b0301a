// Graphs and capture on the driver alone; their records are in the CUPTI tests.
#include <vector>

#include "tests/driver_fixture.h"

namespace stepagent::sim_test {
namespace {

using sim::MonotonicNs;

CUgraphExec Instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  EXPECT_CUDA(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

CUgraphNode AddKernel(CUgraph graph, CUfunction function,
                      const std::vector<CUgraphNode>& dependencies) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = function;
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = params.blockDimY = params.blockDimZ = 1;
  CUgraphNode node = nullptr;
  EXPECT_CUDA(
      cuGraphAddKernelNode(&node, graph, dependencies.data(), dependencies.size(), &params));
  return node;
}

int64_t RunNs(CUgraphExec exec, CUstream stream) {
  const int64_t before = MonotonicNs();
  EXPECT_CUDA(cuGraphLaunch(exec, stream));
  EXPECT_CUDA(cuStreamSynchronize(stream));
  return MonotonicNs() - before;
}

TEST(Graph, CaptureRecordsInsteadOfRunning) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    const CUdeviceptr memory = NewMemory(4);
    char value = 0;
    EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureStatus status{};
    EXPECT_CUDA(cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_CUDA(Launch(Kernel("k", 10 * kMs), stream));
    EXPECT_CUDA(cuMemsetD8Async(memory, 5, 4, stream));
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    EXPECT_CUDA(cuStreamQuery(stream)) << "nothing ran";
    EXPECT_EQ(stepagent_sim_counter("device.kernels"), 0u);
    EXPECT_EQ(stepagent_sim_counter("cuda.captured"), 2u);
    EXPECT_CUDA(cuMemcpyDtoH(&value, memory, 1));
    EXPECT_EQ(value, 0);
    EXPECT_GE(RunNs(Instantiate(graph), stream), int64_t(10 * kMs));
    EXPECT_CUDA(cuMemcpyDtoH(&value, memory, 1));
    EXPECT_EQ(value, 5);
    EXPECT_EQ(stepagent_sim_counter("device.kernels"), 1u);
  });
}

TEST(Graph, CaptureSpreadsThroughEvents) {
  Isolated({}, [] {
    UseDevice();
    CUstream first = NewStream();
    CUstream second = NewStream();
    CUevent fork = nullptr;
    CUevent join = nullptr;
    EXPECT_CUDA(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    EXPECT_CUDA(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    EXPECT_CUDA(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CUDA(cuEventRecord(fork, first));
    EXPECT_CUDA(cuStreamWaitEvent(second, fork, 0));
    EXPECT_CUDA(Launch(Kernel("a", 20 * kMs), first));
    EXPECT_CUDA(Launch(Kernel("b", 20 * kMs), second));
    EXPECT_CUDA(cuEventRecord(join, second));
    EXPECT_CUDA(cuStreamWaitEvent(first, join, 0));
    EXPECT_CUDA(Launch(Kernel("c", 1000), first));
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuStreamEndCapture(first, &graph));
    size_t count = 0;
    EXPECT_CUDA(cuGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 3u);
    CUstreamCaptureStatus status{};
    EXPECT_CUDA(cuStreamIsCapturing(second, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
    const int64_t ran = RunNs(Instantiate(graph), first);
    EXPECT_GE(ran, int64_t(20 * kMs));
    EXPECT_LT(ran, int64_t(39 * kMs)) << "a and b run beside one another";
  });
}

TEST(Graph, SynchronisingACapturingStreamBreaksIt) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  });
}

TEST(Graph, ExplicitNodesFollowTheirDependencies) {
  Isolated({}, [] {
    UseDevice();
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuGraphCreate(&graph, 0));
    CUgraphNode first = AddKernel(graph, Kernel("a", 10 * kMs), {});
    CUgraphNode second = AddKernel(graph, Kernel("b", 10 * kMs), {});
    AddKernel(graph, Kernel("c", 10 * kMs), {first, second});
#if CUDA_VERSION >= 13000
    EXPECT_CUDA(cuGraphAddDependencies(graph, &first, &second, nullptr, 1));
#else
    EXPECT_CUDA(cuGraphAddDependencies(graph, &first, &second, 1));
#endif
    CUstream stream = NewStream();
    EXPECT_GE(RunNs(Instantiate(graph), stream), int64_t(30 * kMs));
    EXPECT_EQ(stepagent_sim_counter("cuda.graph_launches"), 1u);
    EXPECT_EQ(stepagent_sim_counter("device.kernels"), 3u);
  });
}

TEST(Graph, ParametersOfAnInstanceCanChange) {
  Isolated({}, [] {
    UseDevice();
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuGraphCreate(&graph, 0));
    CUgraphNode node = AddKernel(graph, Kernel("a", 1000), {});
    CUgraphExec exec = Instantiate(graph);
    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = Kernel("b", 20 * kMs);
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    EXPECT_CUDA(cuGraphExecKernelNodeSetParams(exec, node, &params));
    EXPECT_GE(RunNs(exec, NewStream()), int64_t(20 * kMs));
    CUgraphExecUpdateResultInfo info{};
    EXPECT_CUDA(cuGraphExecUpdate(exec, graph, &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  });
}

#if CUDA_VERSION >= 13000
// The body of a new conditional node, which runs as often as the type and the value say.
CUgraph AddBody(CUgraph graph, CUgraphConditionalNodeType type, unsigned value) {
  CUgraphConditionalHandle handle = 0;
  EXPECT_CUDA(
      cuGraphConditionalHandleCreate(&handle, graph, nullptr, value, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = type;
  params.conditional.size = 1;
  CUgraphNode node = nullptr;
  EXPECT_CUDA(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  return params.conditional.phGraph_out[0];
}

TEST(Graph, BodiesOfConditionalNodesRunAsTheirConditionSays) {
  Isolated({{"WHILE_RUNS", "4"}}, [] {
    UseDevice();
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuGraphCreate(&graph, 0));
    CUgraph taken = AddBody(graph, CU_GRAPH_COND_TYPE_IF, 1);
    CUgraphNode first = AddKernel(taken, Kernel("a", 2 * kMs), {});
    AddKernel(taken, Kernel("b", 2 * kMs), {first});
    AddKernel(AddBody(graph, CU_GRAPH_COND_TYPE_IF, 0), Kernel("never", 1000 * kMs), {});
    AddKernel(AddBody(graph, CU_GRAPH_COND_TYPE_WHILE, 1), Kernel("again", 3 * kMs), {});
    CUgraphExec exec = Instantiate(graph);
    EXPECT_CUDA(cuGraphDestroy(graph));
    CUstream stream = NewStream();
    const int64_t ran = RunNs(exec, stream);
    EXPECT_GE(ran, int64_t(12 * kMs)) << "four runs of the loop's body";
    EXPECT_LT(ran, int64_t(1000 * kMs));
    EXPECT_EQ(stepagent_sim_counter("device.kernels"), 2u + 4u);
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    CUgraphNodeParams kernel{};
    kernel.type = CU_GRAPH_NODE_TYPE_KERNEL;
    CUgraphNode node = nullptr;
    EXPECT_NE(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &kernel), CUDA_SUCCESS);
  });
}
#endif

TEST(Graph, TenThousandNodesInARow) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    EXPECT_CUDA(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 10000; ++i) EXPECT_CUDA(Launch(Kernel("k", 1000), stream));
    CUgraph graph = nullptr;
    EXPECT_CUDA(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = Instantiate(graph);
    EXPECT_GE(RunNs(exec, stream), int64_t(10 * kMs));
    EXPECT_EQ(stepagent_sim_counter("device.kernels"), 10000u);
    EXPECT_CUDA(cuGraphExecDestroy(exec));
    EXPECT_CUDA(cuGraphDestroy(graph));
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_ERROR_INVALID_VALUE);
  });
}

}  // namespace
}  // namespace stepagent::sim_test
