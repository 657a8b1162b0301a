// Exported functions: graphs and stream capture.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include <algorithm>
#include <cstring>

#include "cuda/graph.h"
#include "cuda/memory.h"
#include "cuda/module.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

Graph* ToGraph(CUgraph handle) { return HandleCast<Graph>(handle, kGraphMagic); }
GraphExec* ToExec(CUgraphExec handle) { return HandleCast<GraphExec>(handle, kExecMagic); }
GraphNode* ToNode(CUgraphNode handle) { return HandleCast<GraphNode>(handle, kNodeMagic); }

bool ToNodes(const CUgraphNode* handles, size_t count, std::vector<GraphNode*>* nodes) {
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = ToNode(handles[i]);
    if (node == nullptr) return false;
    nodes->push_back(node);
  }
  return true;
}

CUresult Append(CUgraphNode* handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                size_t count, CUgraphNodeType type, GraphNode** node) {
  Graph* graph = ToGraph(graph_handle);
  std::vector<GraphNode*> after;
  if (graph == nullptr || !ToNodes(dependencies, count, &after)) return CUDA_ERROR_INVALID_VALUE;
  *node = AddNode(graph, type, after);
  if (handle != nullptr) *handle = reinterpret_cast<CUgraphNode>(*node);
  return CUDA_SUCCESS;
}

template <class Params>
LaunchShape ShapeOf(const Params& params) {
  return {{params.gridDimX, params.gridDimY, params.gridDimZ},
          {params.blockDimX, params.blockDimY, params.blockDimZ},
          params.sharedMemBytes};
}

template <class Params>
CUresult SetKernel(GraphNode* node, const Params& params) {
  const Function* function = ToFunction(params.func);
  if (node == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->op = KernelOp(*function, ShapeOf(params));
  node->duration_ns = KernelDuration(*function);
  memcpy(&node->kernel_params, &params, std::min(sizeof(params), sizeof(node->kernel_params)));
  return CUDA_SUCCESS;
}

template <class Params>
CUresult AddKernel(CUgraphNode* handle, CUgraph graph, const CUgraphNode* dependencies,
                   size_t count, const Params* params) {
  if (params == nullptr || ToFunction(params->func) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  const CUresult result =
      Append(handle, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, &node);
  return result != CUDA_SUCCESS ? result : SetKernel(node, *params);
}

CUresult Instantiate(CUgraphExec* handle, CUgraph graph_handle) {
  Graph* graph = ToGraph(graph_handle);
  if (graph == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphExec* exec = nullptr;
  const CUresult result = InstantiateGraph(graph, &exec);
  if (result == CUDA_SUCCESS) *handle = reinterpret_cast<CUgraphExec>(exec);
  return result;
}

CUresult Launch(CUgraphExec handle, CUstream stream_handle, bool per_thread) {
  GraphExec* exec = ToExec(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(stream_handle, per_thread, &stream);
  return result != CUDA_SUCCESS ? result : LaunchGraph(exec, *stream);
}

CUresult Begin(CUstream handle, bool per_thread, Graph* into = nullptr) {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(handle, per_thread, &stream);
  return result != CUDA_SUCCESS ? result : BeginCapture(*stream, into);
}

CUresult End(CUstream handle, CUgraph* graph, bool per_thread) {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(handle, per_thread, &stream);
  return result != CUDA_SUCCESS ? result : EndCapture(*stream, graph);
}

CUresult CaptureInfo(CUstream handle, bool per_thread, CUstreamCaptureStatus* status,
                     cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
                     size_t* count) {
  Stream* stream = nullptr;
  const CUresult result = ResolveStream(handle, per_thread, &stream);
  if (result != CUDA_SUCCESS) return result;
  const Capture* capture = stream->capture;
  if (capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status =
      capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph);
  if (dependencies != nullptr) {
    *dependencies = reinterpret_cast<const CUgraphNode*>(stream->capture_front.data());
  }
  if (count != nullptr) *count = stream->capture_front.size();
  return CUDA_SUCCESS;
}

// Only the parameters of kernels may change; nodes are matched by position.
CUresult Update(GraphExec* exec, const Graph* graph) {
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (exec->graph->nodes.size() != graph->nodes.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    GraphNode& mine = *exec->graph->nodes[i];
    const GraphNode& theirs = *graph->nodes[i];
    if (mine.type != theirs.type) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    mine.op = theirs.op;
    mine.duration_ns = theirs.duration_ns;
    mine.effect = theirs.effect;
  }
  return CUDA_SUCCESS;
}

CUresult AddDependencies(const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (ToNode(from[i]) == nullptr || ToNode(to[i]) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ToNode(to[i])->dependencies.push_back(ToNode(from[i]));
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIM_API(cuGraphCreate, (CUgraph * phGraph, unsigned int flags), (phGraph, flags), {
  *phGraph = reinterpret_cast<CUgraph>(NewGraph());
  return CUDA_SUCCESS;
})
SIM_API(cuGraphDestroy, (CUgraph hGraph), (hGraph), {
  Graph* graph = ToGraph(hGraph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeleteGraph(graph);
  return CUDA_SUCCESS;
})
SIM_API(cuGraphClone, (CUgraph * phGraphClone, CUgraph originalGraph),
        (phGraphClone, originalGraph), {
          const Graph* graph = ToGraph(originalGraph);
          if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
          std::unordered_map<const GraphNode*, GraphNode*> clone_of;
          *phGraphClone = reinterpret_cast<CUgraph>(CloneGraph(*graph, &clone_of));
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphAddKernelNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams),
        (phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        return AddKernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);)
#if CUDA_VERSION >= 12000
SIM_API(cuGraphAddKernelNode_v2,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams),
        (phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        return AddKernel(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);)
SIM_API(cuGraphExecKernelNodeSetParams_v2,
        (CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams),
        (hGraphExec, hNode, nodeParams), {
          GraphExec* exec = ToExec(hGraphExec);
          if (exec == nullptr || nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
          const auto found = exec->clone_of.find(ToNode(hNode));
          if (found == exec->clone_of.end()) return CUDA_ERROR_INVALID_VALUE;
          return SetKernel(found->second, *nodeParams);
        })
#endif
SIM_API(cuGraphAddMemsetNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx),
        (phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx), {
          GraphNode* node = nullptr;
          const CUresult result = Append(phGraphNode, hGraph, dependencies, numDependencies,
                                         CU_GRAPH_NODE_TYPE_MEMSET, &node);
          if (result != CUDA_SUCCESS) return result;
          const SetRequest request{.target = reinterpret_cast<void*>(memsetParams->dst),
                                   .value = memsetParams->value,
                                   .element_bytes = memsetParams->elementSize,
                                   .count = memsetParams->width,
                                   .rows = memsetParams->height,
                                   .pitch = memsetParams->pitch};
          DescribeSet(request, &node->op, &node->effect, &node->duration_ns);
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphAddMemcpyNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx),
        (phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx), {
          GraphNode* node = nullptr;
          const CUresult result = Append(phGraphNode, hGraph, dependencies, numDependencies,
                                         CU_GRAPH_NODE_TYPE_MEMCPY, &node);
          if (result != CUDA_SUCCESS) return result;
          const CUDA_MEMCPY3D& copy = *copyParams;
          const CopyRequest request{
              .target = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                            ? copy.dstHost
                            : reinterpret_cast<void*>(copy.dstDevice),
              .source = copy.srcMemoryType == CU_MEMORYTYPE_HOST
                            ? copy.srcHost
                            : reinterpret_cast<const void*>(copy.srcDevice),
              .row_bytes = copy.WidthInBytes,
              .rows = std::max<size_t>(copy.Height, 1) * std::max<size_t>(copy.Depth, 1),
              .target_pitch = copy.dstPitch != 0 ? copy.dstPitch : copy.WidthInBytes,
              .source_pitch = copy.srcPitch != 0 ? copy.srcPitch : copy.WidthInBytes};
          DescribeCopy(request, &node->op, &node->effect, &node->duration_ns);
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphAddEmptyNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies),
        (phGraphNode, hGraph, dependencies, numDependencies), {
          GraphNode* node = nullptr;
          const CUresult result = Append(phGraphNode, hGraph, dependencies, numDependencies,
                                         CU_GRAPH_NODE_TYPE_EMPTY, &node);
          if (result == CUDA_SUCCESS) node->op.type = OpType::kEmpty;
          return result;
        })
SIM_API(cuGraphAddHostNode,
        (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
         size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams),
        (phGraphNode, hGraph, dependencies, numDependencies, nodeParams), {
          GraphNode* node = nullptr;
          const CUresult result = Append(phGraphNode, hGraph, dependencies, numDependencies,
                                         CU_GRAPH_NODE_TYPE_HOST, &node);
          if (result != CUDA_SUCCESS) return result;
          node->op.type = OpType::kHost;
          node->effect.kind = Effect::Kind::kHostCall;
          node->effect.call = nodeParams->fn;
          node->effect.call_data = nodeParams->userData;
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphAddDependencies,
        (CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t numDependencies),
        (hGraph, from, to, numDependencies), return AddDependencies(from, to, numDependencies);)
#if CUDA_VERSION >= 12030
SIM_API(cuGraphAddDependencies_v2,
        (CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
         const CUgraphEdgeData* edgeData, size_t numDependencies),
        (hGraph, from, to, edgeData, numDependencies),
        return AddDependencies(from, to, numDependencies);)
#endif
SIM_API(cuGraphGetNodes, (CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes),
        (hGraph, nodes, numNodes), {
          const Graph* graph = ToGraph(hGraph);
          if (graph == nullptr || numNodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
          const size_t room = nodes == nullptr ? 0 : *numNodes;
          for (size_t i = 0; i < std::min(room, graph->nodes.size()); ++i) {
            nodes[i] = reinterpret_cast<CUgraphNode>(graph->nodes[i].get());
          }
          *numNodes = graph->nodes.size();
          return CUDA_SUCCESS;
        })
SIM_API(cuGraphNodeGetType, (CUgraphNode hNode, CUgraphNodeType* type), (hNode, type), {
  const GraphNode* node = ToNode(hNode);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
})

SIM_API(cuGraphInstantiate,
        (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
         size_t bufferSize),
        (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
        return Instantiate(phGraphExec, hGraph);)
SIM_API(cuGraphInstantiate_v2,
        (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
         size_t bufferSize),
        (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
        return Instantiate(phGraphExec, hGraph);)
SIM_API(cuGraphInstantiateWithFlags,
        (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
        (phGraphExec, hGraph, flags), return Instantiate(phGraphExec, hGraph);)
#if CUDA_VERSION >= 12000
SIM_STREAM_API(cuGraphInstantiateWithParams,
               (CUgraphExec * phGraphExec, CUgraph hGraph,
                CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams),
               (phGraphExec, hGraph, instantiateParams), {
                 static_cast<void>(per_thread);
                 if (instantiateParams != nullptr) {
                   instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
                 }
                 return Instantiate(phGraphExec, hGraph);
               })
SIM_API(cuGraphExecUpdate_v2,
        (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo),
        (hGraphExec, hGraph, resultInfo), {
          const CUresult result = Update(ToExec(hGraphExec), ToGraph(hGraph));
          if (resultInfo != nullptr) {
            resultInfo->result =
                result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR;
          }
          return result;
        })
#endif
SIM_STREAM_API(cuGraphUpload, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream), {
  static_cast<void>(per_thread);
  return ToExec(hGraphExec) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
})
SIM_STREAM_API(cuGraphLaunch, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream),
               return Launch(hGraphExec, hStream, per_thread);)
SIM_API(cuGraphExecDestroy, (CUgraphExec hGraphExec), (hGraphExec), {
  GraphExec* exec = ToExec(hGraphExec);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeleteExec(exec);
  return CUDA_SUCCESS;
})

SIM_STREAM_API(cuStreamBeginCapture, (CUstream hStream), (hStream),
               return Begin(hStream, per_thread);)
SIM_STREAM_API(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode),
               (hStream, mode), return Begin(hStream, per_thread);)
SIM_STREAM_API(cuStreamEndCapture, (CUstream hStream, CUgraph* phGraph), (hStream, phGraph),
               return End(hStream, phGraph, per_thread);)
SIM_STREAM_API(cuStreamIsCapturing, (CUstream hStream, CUstreamCaptureStatus* captureStatus),
               (hStream, captureStatus),
               return CaptureInfo(hStream, per_thread, captureStatus, nullptr, nullptr, nullptr,
                                  nullptr);)
SIM_STREAM_API(cuStreamGetCaptureInfo,
               (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out),
               (hStream, captureStatus_out, id_out),
               return CaptureInfo(hStream, per_thread, captureStatus_out, id_out, nullptr, nullptr,
                                  nullptr);)
SIM_STREAM_API(cuStreamGetCaptureInfo_v2,
               (CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                CUgraph* graph_out, const CUgraphNode** dependencies_out,
                size_t* numDependencies_out),
               (hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                numDependencies_out),
               return CaptureInfo(hStream, per_thread, captureStatus_out, id_out, graph_out,
                                  dependencies_out, numDependencies_out);)
SIM_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode), {
  thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
})
