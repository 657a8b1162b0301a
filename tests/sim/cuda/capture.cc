// Stream capture: operations of capturing streams become graph nodes; events carry a capture to
// other streams.
#include <algorithm>

#include "cuda/graph.h"
#include "cuda/trace.h"

namespace stepagent::sim {
namespace {

CUgraphNodeType NodeTypeOf(OpType type) {
  switch (type) {
    case OpType::kKernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case OpType::kMemcpy:
    case OpType::kMemcpyPeer:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case OpType::kMemset:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case OpType::kHost:
      return CU_GRAPH_NODE_TYPE_HOST;
    default:
      return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

void LeaveCapture(Context& context, const Capture* capture) {
  auto leave = [&](Stream& stream) {
    if (stream.capture != capture) return;
    stream.capture = nullptr;
    stream.capture_front.clear();
  };
  leave(context.legacy);
  for (Stream* stream : context.streams) leave(*stream);
}

}  // namespace

CUresult CaptureOp(Stream& stream, const DeviceOp& op, int64_t duration_ns, const Effect& effect) {
  if (stream.capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  GraphNode* node = AddNode(stream.capture->graph, NodeTypeOf(op.type), stream.capture_front);
  node->op = op;
  node->duration_ns = duration_ns;
  node->effect = effect;
  stream.capture_front = {node};
  return CUDA_SUCCESS;
}

CUresult BeginCapture(Stream& stream, Graph* into) {
  static std::atomic<uint64_t> next_id{1};
  if (stream.is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto* capture = new Capture;  // kept: events may point to it for as long as they live
  capture->id = next_id.fetch_add(1, std::memory_order_relaxed);
  capture->graph = into != nullptr ? into : NewGraph();
  capture->origin = reinterpret_cast<CUstream>(&stream);
  const std::lock_guard lock(EngineLock());
  stream.capture = capture;
  stream.capture_front.clear();
  return CUDA_SUCCESS;
}

CUresult EndCapture(Stream& stream, CUgraph* graph) {
  Capture* capture = stream.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != reinterpret_cast<CUstream>(&stream)) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const std::lock_guard lock(EngineLock());
  LeaveCapture(*stream.context, capture);
  if (capture->is_invalid) {
    if (graph != nullptr) *graph = nullptr;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(capture->graph);
  return CUDA_SUCCESS;
}

bool CaptureRecordEvent(Stream& stream, Event& event) {
  if (stream.capture == nullptr) return false;
  event.capture = stream.capture;
  event.capture_front = stream.capture_front;
  return true;
}

bool CaptureWaitEvent(Stream& stream, Event& event) {
  if (event.capture == nullptr) return false;
  const std::lock_guard lock(EngineLock());
  if (stream.capture == nullptr) stream.capture = event.capture;
  for (GraphNode* node : event.capture_front) {
    auto& front = stream.capture_front;
    if (std::find(front.begin(), front.end(), node) == front.end()) front.push_back(node);
  }
  return true;
}

}  // namespace stepagent::sim
