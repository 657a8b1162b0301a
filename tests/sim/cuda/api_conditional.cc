// Exported functions: conditional nodes of graphs (CUDA 12.3 and later).
//
// No kernel runs here, so none can change a condition: a condition has its default value at every
// launch. What is true for ever would never end, so a WHILE runs STEPAGENT_SIM_WHILE_RUNS times.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include <mutex>

#include "common/settings.h"
#include "cuda/graph.h"
#include "cuda/trace.h"

#if CUDA_VERSION >= 12040
using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

// Default values by handle less one.
struct Conditions {
  std::mutex mutex;
  std::vector<uint32_t> values;
};
Conditions& TheConditions() {
  static auto* conditions = new Conditions;
  return *conditions;
}

bool ValueOf(CUgraphConditionalHandle handle, uint32_t* value) {
  Conditions& conditions = TheConditions();
  const std::lock_guard lock(conditions.mutex);
  if (handle == 0 || handle > conditions.values.size()) return false;
  *value = conditions.values[handle - 1];
  return true;
}

// Which of the bodies runs, and how often.
bool Decide(const CUDA_CONDITIONAL_NODE_PARAMS& params, uint32_t value, GraphNode* node) {
  switch (params.type) {
    case CU_GRAPH_COND_TYPE_IF:
      node->body = value != 0 ? 0 : 1;
      node->runs = node->body < params.size ? 1 : 0;
      return params.size == 1 || params.size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      node->runs = value != 0 ? static_cast<uint32_t>(SettingInt("WHILE_RUNS", 3)) : 0;
      return params.size == 1;
    default:  // SWITCH, since 12.8
      node->body = value;
      node->runs = value < params.size ? 1 : 0;
      return params.size > 0;
  }
}

CUresult AddConditional(CUgraphNode* handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* params) {
  auto* graph = HandleCast<Graph>(graph_handle, kGraphMagic);
  uint32_t value = 0;
  if (graph == nullptr || handle == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Other nodes have functions of their own, which programs here use.
  if (params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_NOT_SUPPORTED;
  CUDA_CONDITIONAL_NODE_PARAMS& conditional = params->conditional;
  if (!ValueOf(conditional.handle, &value)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> after;
  for (size_t i = 0; i < count; ++i) {
    after.push_back(HandleCast<GraphNode>(dependencies[i], kNodeMagic));
    if (after.back() == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  GraphNode decided;
  if (!Decide(conditional, value, &decided)) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = AddNode(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, after);
  node->op.type = OpType::kEmpty;
  node->body = decided.body;
  node->runs = decided.runs;
  // The caller reads the bodies from memory of the driver's.
  auto* made = new CUgraph[conditional.size];
  for (unsigned i = 0; i < conditional.size; ++i) {
    node->bodies.push_back({.graph = NewGraph(), .steps = {}});
    made[i] = reinterpret_cast<CUgraph>(node->bodies.back().graph);
  }
  conditional.phGraph_out = made;
  *handle = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

}  // namespace

SIM_API(cuGraphConditionalHandleCreate,
        (CUgraphConditionalHandle * pHandle_out, CUgraph hGraph, CUcontext ctx,
         unsigned int defaultLaunchValue, unsigned int flags),
        (pHandle_out, hGraph, ctx, defaultLaunchValue, flags), {
          if (HandleCast<Graph>(hGraph, kGraphMagic) == nullptr || pHandle_out == nullptr) {
            return CUDA_ERROR_INVALID_VALUE;
          }
          Conditions& conditions = TheConditions();
          const std::lock_guard lock(conditions.mutex);
          const bool is_assigned = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
          conditions.values.push_back(is_assigned ? defaultLaunchValue : 0);
          *pHandle_out = conditions.values.size();
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphAddNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, CUgraphNodeParams* nodeParams),
        (phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        return AddConditional(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);)
SIM_API(cuGraphAddNode_v2,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         const CUgraphEdgeData* dependencyData, size_t numDependencies,
         CUgraphNodeParams* nodeParams),
        (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams),
        return AddConditional(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);)
#endif
