// Graphs: explicit nodes, stream capture, instantiation, launch.
//
// Threads: a graph is used by one thread at a time, as the driver asks of its users; captures and
// launches take EngineLock() themselves. Failure: CUresult codes; invalid handles are told by
// their magic number.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/engine.h"

namespace stepagent::sim {

constexpr uint32_t kGraphMagic = 0x47524131;
constexpr uint32_t kNodeMagic = 0x4e4f4431;
constexpr uint32_t kExecMagic = 0x45584531;

struct Graph;
struct GraphNode;

struct ExecStep {
  GraphNode* node = nullptr;
  std::vector<uint32_t> after;  // indices of earlier steps
};

// What a conditional node may run: a graph of its own, owned by the node's graph.
struct ConditionalBody {
  Graph* graph = nullptr;
  std::vector<ExecStep> steps;  // of an instance
};

struct GraphNode {
  uint32_t magic = kNodeMagic;
  Graph* graph = nullptr;
  uint64_t id = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  DeviceOp op{};
  int64_t duration_ns = 0;
  Effect effect;
  std::vector<GraphNode*> dependencies;
  CUDA_KERNEL_NODE_PARAMS kernel_params{};
  // Conditional nodes: which body runs how often is known when the graph is launched, since no
  // kernel here can change a condition.
  std::vector<ConditionalBody> bodies;
  uint32_t body = 0, runs = 0;
};

struct Graph {
  uint32_t magic = kGraphMagic;
  uint32_t id = 0;
  // In an order in which every node follows those it depends on at its creation.
  std::vector<std::unique_ptr<GraphNode>> nodes;
};

struct GraphExec {
  uint32_t magic = kExecMagic;
  uint32_t id = 0;
  Graph* graph = nullptr;  // a clone of its own
  std::vector<ExecStep> steps;
  bool before_tools = false;
  std::unordered_map<const GraphNode*, GraphNode*> clone_of;
};

Graph* NewGraph();
void DeleteGraph(Graph* graph);
GraphNode* AddNode(Graph* graph, CUgraphNodeType type, const std::vector<GraphNode*>& dependencies);
Graph* CloneGraph(const Graph& graph, std::unordered_map<const GraphNode*, GraphNode*>* clone_of);
CUresult InstantiateGraph(Graph* graph, GraphExec** exec);
void DeleteExec(GraphExec* exec);
CUresult LaunchGraph(GraphExec* exec, Stream& stream);
uint64_t GraphsAlive();

// Capture: records one operation of a capturing stream.
CUresult CaptureOp(Stream& stream, const DeviceOp& op, int64_t duration_ns, const Effect& effect);
CUresult BeginCapture(Stream& stream, Graph* into = nullptr);
CUresult EndCapture(Stream& stream, CUgraph* graph);
// Events carry captures from one stream to another.
bool CaptureRecordEvent(Stream& stream, Event& event);
bool CaptureWaitEvent(Stream& stream, Event& event);

}  // namespace stepagent::sim
