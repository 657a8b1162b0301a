#include "cuda/graph.h"

#include <algorithm>
#include <unordered_set>

#include "common/settings.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

// Graphs and executable graphs draw on one pool; the lowest freed id is handed out again first,
// which is what makes a reader that keys on it alone go wrong (STEPAGENT_SIM_RECYCLE_GRAPH_IDS=0:
// never).
class GraphIds {
 public:
  uint32_t Take() {
    const std::lock_guard lock(mutex_);
    ++alive_;
    if (free_.empty()) return next_++;
    const uint32_t id = *free_.begin();
    free_.erase(free_.begin());
    return id;
  }
  void Return(uint32_t id) {
    const std::lock_guard lock(mutex_);
    --alive_;
    if (recycle_) free_.insert(id);
  }
  uint64_t alive() {
    const std::lock_guard lock(mutex_);
    return alive_;
  }

 private:
  std::mutex mutex_;
  std::set<uint32_t> free_;
  uint32_t next_ = 1;
  uint64_t alive_ = 0;
  bool recycle_ = SettingFlag("RECYCLE_GRAPH_IDS", true);
};
GraphIds& Ids() {
  static auto* ids = new GraphIds;
  return *ids;
}

// Shells of destroyed objects, to be used again: a stale handle still points to one and is told by
// its magic number.
template <class T>
class Shells {
 public:
  T* Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return new T;
    T* shell = free_.back();
    free_.pop_back();
    *shell = T{};
    return shell;
  }
  void Return(T* shell) {
    *shell = T{};
    shell->magic = 0;
    const std::lock_guard lock(mutex_);
    free_.push_back(shell);
  }

 private:
  std::mutex mutex_;
  std::vector<T*> free_;
};
Shells<Graph>& GraphShells() {
  static auto* shells = new Shells<Graph>;
  return *shells;
}
Shells<GraphExec>& ExecShells() {
  static auto* shells = new Shells<GraphExec>;
  return *shells;
}

void AnnounceGraphEvent(uint32_t cbid, Graph* graph, GraphNode* node = nullptr,
                        GraphExec* exec = nullptr, const GraphNode* original = nullptr) {
  ResourceEvent event{};
  event.graph = reinterpret_cast<CUgraph>(graph);
  event.node = reinterpret_cast<CUgraphNode>(node);
  event.exec = reinterpret_cast<CUgraphExec>(exec);
  event.original_node = reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(original));
  if (original != nullptr) event.original_graph = reinterpret_cast<CUgraph>(original->graph);
  if (node != nullptr) event.node_type = static_cast<uint32_t>(node->type);
  AnnounceResource(cbid, event);
}

GraphNode* AppendNode(Graph* graph, CUgraphNodeType type) {
  auto node = std::make_unique<GraphNode>();
  node->graph = graph;
  node->type = type;
  node->id = (uint64_t{graph->id} << 32) | graph->nodes.size();
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

void VisitAfterDependencies(GraphNode* root, std::unordered_set<GraphNode*>* visited,
                            std::vector<GraphNode*>* order) {
  // An explicit stack: graphs may have ten thousand nodes in a row.
  std::vector<std::pair<GraphNode*, size_t>> stack{{root, 0}};
  if (!visited->insert(root).second) return;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->dependencies.size()) {
      order->push_back(node);
      stack.pop_back();
      continue;
    }
    GraphNode* dependency = node->dependencies[next++];
    if (visited->insert(dependency).second) stack.emplace_back(dependency, 0);
  }
}

std::vector<GraphNode*> ExecutionOrder(const Graph& graph) {
  std::vector<GraphNode*> order;
  std::unordered_set<GraphNode*> visited;
  for (const auto& node : graph.nodes) VisitAfterDependencies(node.get(), &visited, &order);
  return order;
}

DeviceOp GraphOp(const GraphExec& exec, const Stream& stream, int64_t now) {
  DeviceOp op{};
  op.type = OpType::kGraph;
  op.device_id = static_cast<uint32_t>(stream.context->device->ordinal);
  op.context_id = stream.context->uid;
  op.stream_id = stream.id;
  op.graph_id = exec.id;
  op.submit_ns = now;
  op.before_tools = exec.before_tools;
  return op;
}

void CountNode(const GraphNode& node) {
  if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) Add(Counters().kernels);
}

int64_t PlaceConditional(const GraphNode& node, const DeviceOp& graph_op, int64_t start,
                         std::vector<DeviceOp>* ops);

int64_t PlaceNode(const GraphNode& node, const DeviceOp& graph_op, int64_t start,
                  std::vector<DeviceOp>* ops) {
  if (!node.bodies.empty()) return PlaceConditional(node, graph_op, start, ops);
  const bool is_endless = start == kNever || node.duration_ns == kNever;
  return is_endless ? kNever : start + RoundToTick(node.duration_ns);
}

// Places every step after those it depends on; fills `ops` when it is wanted. The last end.
int64_t PlaceSteps(const std::vector<ExecStep>& steps, const DeviceOp& graph_op, int64_t base,
                   std::vector<int64_t>* ends, std::vector<DeviceOp>* ops) {
  ends->clear();
  for (const ExecStep& step : steps) {
    int64_t start = base;
    for (const uint32_t index : step.after) start = std::max(start, (*ends)[index]);
    ends->push_back(PlaceNode(*step.node, graph_op, start, ops));
    CountNode(*step.node);
    if (step.node->effect.kind != Effect::Kind::kNone) Apply(step.node->effect, ends->back());
    if (ops == nullptr || step.node->op.type >= OpType::kGraph) continue;
    DeviceOp op = step.node->op;
    op.is_in_body = graph_op.is_in_body;
    op.before_tools = graph_op.before_tools;
    op.correlation_id = graph_op.correlation_id;
    op.device_id = graph_op.device_id;
    op.context_id = graph_op.context_id;
    op.stream_id = graph_op.stream_id;
    op.submit_ns = graph_op.submit_ns;
    op.start_ns = start;
    op.end_ns = ends->back();
    op.graph_id = graph_op.graph_id;
    op.graph_node_id = step.node->id;
    ops->push_back(op);
  }
  return ends->empty() ? base : *std::max_element(ends->begin(), ends->end());
}

int64_t PlaceConditional(const GraphNode& node, const DeviceOp& graph_op, int64_t start,
                         std::vector<DeviceOp>* ops) {
  DeviceOp body_op = graph_op;
  body_op.is_in_body = true;
  int64_t end = start;
  std::vector<int64_t> ends;
  for (uint32_t run = 0; run < node.runs && end != kNever; ++run) {
    end = PlaceSteps(node.bodies[node.body].steps, body_op, end, &ends, ops);
  }
  return end;
}

std::vector<ExecStep> MakeSteps(const Graph& graph) {
  std::vector<ExecStep> steps;
  std::unordered_map<const GraphNode*, uint32_t> index;
  for (GraphNode* node : ExecutionOrder(graph)) {
    ExecStep step{.node = node};
    for (const GraphNode* dependency : node->dependencies) {
      const auto found = index.find(dependency);
      if (found != index.end()) step.after.push_back(found->second);
    }
    index[node] = static_cast<uint32_t>(steps.size());
    for (ConditionalBody& body : node->bodies) body.steps = MakeSteps(*body.graph);
    steps.push_back(std::move(step));
  }
  return steps;
}

void ReturnGraph(Graph* graph) {
  for (const auto& node : graph->nodes) {
    for (const ConditionalBody& body : node->bodies) ReturnGraph(body.graph);
  }
  Ids().Return(graph->id);
  GraphShells().Return(graph);
}

}  // namespace

uint64_t GraphsAlive() { return Ids().alive(); }

Graph* NewGraph() {
  Graph* graph = GraphShells().Take();
  graph->id = Ids().Take();
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPH_CREATED, graph);
  return graph;
}

void DeleteGraph(Graph* graph) {
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING, graph);
  ReturnGraph(graph);
}

GraphNode* AddNode(Graph* graph, CUgraphNodeType type,
                   const std::vector<GraphNode*>& dependencies) {
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING, graph);
  GraphNode* node = AppendNode(graph, type);
  node->dependencies = dependencies;
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, graph, node);
  return node;
}

Graph* CloneGraph(const Graph& graph, std::unordered_map<const GraphNode*, GraphNode*>* clone_of) {
  Graph* clone = GraphShells().Take();
  clone->id = Ids().Take();
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPH_CLONED, clone);
  for (const auto& node : graph.nodes) {
    GraphNode* copy = AppendNode(clone, node->type);
    copy->op = node->op;
    copy->duration_ns = node->duration_ns;
    copy->effect = node->effect;
    copy->kernel_params = node->kernel_params;
    copy->body = node->body;
    copy->runs = node->runs;
    for (const ConditionalBody& body : node->bodies) {
      copy->bodies.push_back({.graph = CloneGraph(*body.graph, clone_of), .steps = {}});
    }
    (*clone_of)[node.get()] = copy;
    AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, clone, copy, nullptr, node.get());
  }
  for (const auto& node : graph.nodes) {
    for (const GraphNode* dependency : node->dependencies) {
      clone_of->at(node.get())->dependencies.push_back(clone_of->at(dependency));
    }
  }
  return clone;
}

CUresult InstantiateGraph(Graph* graph, GraphExec** exec_out) {
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, graph);
  GraphExec* exec = ExecShells().Take();
  exec->id = Ids().Take();
  exec->graph = CloneGraph(*graph, &exec->clone_of);
  exec->steps = MakeSteps(*exec->graph);
  exec->before_tools = !HasTools();
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, graph, nullptr, exec);
  *exec_out = exec;
  return CUDA_SUCCESS;
}

void DeleteExec(GraphExec* exec) {
  AnnounceGraphEvent(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING, exec->graph, nullptr, exec);
  ReturnGraph(exec->graph);
  Ids().Return(exec->id);
  ExecShells().Return(exec);
}

CUresult LaunchGraph(GraphExec* exec, Stream& stream) {
  if (stream.capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  thread_local std::vector<int64_t> ends;
  thread_local std::vector<DeviceOp> ops;
  ops.clear();
  const bool is_traced = ToolsWantOps();
  std::unique_lock lock(EngineLock());
  DeviceOp graph_op = GraphOp(*exec, stream, MonotonicNs());
  const int64_t base = PlaceLocked(stream, graph_op.submit_ns, 0).start_ns;
  if (is_traced) graph_op.correlation_id = CurrentCorrelationId();
  const int64_t end = PlaceSteps(exec->steps, graph_op, base, &ends, is_traced ? &ops : nullptr);
  stream.ready_ns = end;
  stream.in_flight.back() = end;
  NoteReadyLocked(stream);
  lock.unlock();
  Add(Counters().graph_launches);
  if (!is_traced) return CUDA_SUCCESS;
  graph_op.start_ns = base;
  graph_op.end_ns = end;
  AnnounceGraph(graph_op, ops.data(), ops.size());
  return CUDA_SUCCESS;
}

}  // namespace stepagent::sim
