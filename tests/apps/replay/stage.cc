#include "stage.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace stepagent::replay {
namespace {

// CUPTI's number of a context's default stream.
constexpr int64_t kDefaultStreamId = 7;

// Unused stream numbers are skipped by making and destroying a stream; this bounds the search.
constexpr int kMaxSkippedStreams = 4096;

dim3 ToDim3(const std::array<uint32_t, 3>& size) { return dim3{size[0], size[1], size[2]}; }

cudaMemcpyKind DirectionOf(const DeviceWork& work) {
  const bool from_host = work.source == Memory::kPageable || work.source == Memory::kPinned;
  const bool to_host = work.target == Memory::kPageable || work.target == Memory::kPinned;
  if (from_host) return to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  return to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

}  // namespace

Stage::Stage(const Runtime& runtime, const Recording& recording)
    : runtime_(runtime), recording_(recording) {
  Check(runtime_, runtime_.cudaGetDeviceCount(&device_count_), "cudaGetDeviceCount");
  Check(runtime_, runtime_.cudaSetDevice(0), "cudaSetDevice");
  Check(runtime_, runtime_.cudaFree(nullptr), "cudaFree");
  MakeStreams();
  MakeMemory();
  MakeKernels();
  MakeGraphs();
}

// A rank's recording may name any device of its host; here the first one there is stands for it.
int Stage::DeviceOf(int64_t recorded) const {
  const int64_t first = recording_.streams.front().device;
  return static_cast<int>(std::clamp<int64_t>(recorded - first, 0, device_count_ - 1));
}

// A new stream with the recorded number where the driver can still give it: numbers only rise.
cudaStream_t Stage::MakeStream(int64_t recorded) const {
  cudaStream_t stream = nullptr;
  for (int i = 0; i < kMaxSkippedStreams; i++) {
    Check(runtime_, runtime_.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    unsigned long long id = 0;
    const bool is_known =
        runtime_.cuStreamGetId != nullptr && runtime_.cuStreamGetId(stream, &id) == CUDA_SUCCESS;
    if (!is_known || static_cast<int64_t>(id) >= recorded) break;
    Check(runtime_, runtime_.cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  return stream;
}

void Stage::MakeStreams() {
  for (const StreamKey& key : recording_.streams) {
    Check(runtime_, runtime_.cudaSetDevice(DeviceOf(key.device)), "cudaSetDevice");
    streams_.push_back(key.stream == kDefaultStreamId ? nullptr : MakeStream(key.stream));
  }
  Check(runtime_, runtime_.cudaSetDevice(0), "cudaSetDevice");
}

void Stage::MakeMemory() {
  uint64_t size = 4096;
  for (const DeviceWork& work : recording_.work) size = std::max(size, work.bytes);
  for (auto* side : {&sources_, &targets_}) {
    const auto at = [side](Memory memory) { return &(*side)[static_cast<size_t>(memory)]; };
    *at(Memory::kPageable) = std::calloc(1, size);
    if (*at(Memory::kPageable) == nullptr) throw std::runtime_error("out of memory");
    Check(runtime_, runtime_.cudaMallocHost(at(Memory::kPinned), size), "cudaMallocHost");
    Check(runtime_, runtime_.cudaMalloc(at(Memory::kDevice), size), "cudaMalloc");
    if (runtime_.cudaMallocManaged != nullptr) {
      Check(runtime_, runtime_.cudaMallocManaged(at(Memory::kManaged), size, cudaMemAttachGlobal),
            "cudaMallocManaged");
    } else {
      *at(Memory::kManaged) = *at(Memory::kDevice);
    }
  }
}

void Stage::MakeKernels() {
  kernels_.resize(recording_.names.size());
  for (const DeviceWork& work : recording_.work) {
    if (work.name == kNone || kernels_[work.name] != nullptr) continue;
    // The real duration is given at each launch.
    kernels_[work.name] = runtime_.register_kernel(recording_.names[work.name].c_str(), 1000);
  }
}

// Before the replay, so that no capture falls into it. Every launch has durations of its own and so
// a graph of its own.
void Stage::MakeGraphs() {
  cudaStream_t stream = nullptr;
  for (const Call& call : recording_.calls) {
    if (!IsGraphLaunch(call.id)) continue;
    if (stream == nullptr) {
      Check(runtime_, runtime_.cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
    }
    graphs_[call.work] = CaptureGraph(call.work, stream);
  }
  if (stream != nullptr) {
    Check(runtime_, runtime_.cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
}

cudaGraphExec_t Stage::CaptureGraph(uint32_t work, cudaStream_t stream) const {
  Check(runtime_, runtime_.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  for (uint32_t node = work; node != kNone; node = recording_.work[node].next) {
    const DeviceWork& item = recording_.work[node];
    runtime_.next_duration_ns(item.duration_ns);
    if (item.name != kNone) {
      IssueLaunch({.id = CallId::kLaunchKernel}, item, stream);
    } else {
      IssueTransfer({.id = item.is_set ? CallId::kMemsetAsync : CallId::kMemcpyAsync}, item,
                    stream);
    }
  }
  cudaGraph_t graph = nullptr;
  Check(runtime_, runtime_.cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t exec = nullptr;
  Check(runtime_, runtime_.cudaGraphInstantiateWithFlags(&exec, graph, 0),
        "cudaGraphInstantiateWithFlags");
  Check(runtime_, runtime_.cudaGraphDestroy(graph), "cudaGraphDestroy");
  return exec;
}

Actor Stage::MakeActor() const {
  Check(runtime_, runtime_.cudaSetDevice(0), "cudaSetDevice");
  Actor actor;
  Check(runtime_, runtime_.cudaEventCreateWithFlags(&actor.event, cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  return actor;
}

void Stage::Issue(const Call& call, Actor& actor) const {
  if (call.work == kNone && !IsCopy(call.id) && !IsSet(call.id)) {
    IssueOther(call, actor);
    return;
  }
  // A copy or set without a record moved nothing.
  static constexpr DeviceWork kNothing;
  const DeviceWork& work = call.work == kNone ? kNothing : recording_.work[call.work];
  if (call.work != kNone) {
    actor.stream = streams_[work.stream];
    if (!IsGraphLaunch(call.id)) runtime_.next_duration_ns(work.duration_ns);
  }
  if (IsGraphLaunch(call.id)) {
    IssueGraph(call, actor.stream);
  } else if (IsLaunch(call.id)) {
    IssueLaunch(call, work, actor.stream);
  } else {
    IssueTransfer(call, work, actor.stream);
  }
}

void Stage::IssueGraph(const Call& call, cudaStream_t stream) const {
  const cudaGraphExec_t exec = graphs_.at(call.work);
  const int result = call.id == CallId::kGraphLaunch
                         ? static_cast<int>(runtime_.cudaGraphLaunch(exec, stream))
                         : static_cast<int>(runtime_.cuGraphLaunch(exec, stream));
  Check(runtime_, static_cast<cudaError_t>(result), CallName(call.id));
}

int Stage::IssueDriverLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const {
  const Shape& shape = recording_.shapes[work.shape];
  const auto function = static_cast<CUfunction>(kernels_[work.name]);
  void* arguments[1] = {nullptr};
  CUlaunchConfig config{};
  config.gridDimX = shape.grid[0];
  config.gridDimY = shape.grid[1];
  config.gridDimZ = shape.grid[2];
  config.blockDimX = shape.block[0];
  config.blockDimY = shape.block[1];
  config.blockDimZ = shape.block[2];
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream;
  if (call.id == CallId::kDriverLaunchKernelEx) {
    return runtime_.cuLaunchKernelEx(&config, function, arguments, nullptr);
  }
  return runtime_.cuLaunchKernel(function, config.gridDimX, config.gridDimY, config.gridDimZ,
                                 config.blockDimX, config.blockDimY, config.blockDimZ,
                                 config.sharedMemBytes, stream, arguments, nullptr);
}

int Stage::IssueRuntimeLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const {
  const Shape& shape = recording_.shapes[work.shape];
  const dim3 grid = ToDim3(shape.grid), block = ToDim3(shape.block);
  void* const kernel = kernels_[work.name];
  void* arguments[1] = {nullptr};
  if (call.id == CallId::kLaunchKernelExC) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    return runtime_.cudaLaunchKernelExC(&config, kernel, arguments);
  }
  const auto launch = call.id == CallId::kLaunchCooperativeKernel
                          ? runtime_.cudaLaunchCooperativeKernel
                          : runtime_.cudaLaunchKernel;
  return launch(kernel, grid, block, arguments, shape.shared_bytes, stream);
}

void Stage::IssueLaunch(const Call& call, const DeviceWork& work, cudaStream_t stream) const {
  const bool is_driver =
      call.id == CallId::kDriverLaunchKernel || call.id == CallId::kDriverLaunchKernelEx;
  const int result =
      is_driver ? IssueDriverLaunch(call, work, stream) : IssueRuntimeLaunch(call, work, stream);
  Check(runtime_, static_cast<cudaError_t>(result), CallName(call.id));
}

void Stage::IssueTransfer(const Call& call, const DeviceWork& work, cudaStream_t stream) const {
  void* const source = sources_[static_cast<size_t>(work.source)];
  void* const target = targets_[static_cast<size_t>(work.target)];
  cudaError_t result = cudaSuccess;
  if (call.id == CallId::kMemcpyAsync) {
    result = runtime_.cudaMemcpyAsync(target, source, work.bytes, DirectionOf(work), stream);
  } else if (call.id == CallId::kMemcpy) {
    result = runtime_.cudaMemcpy(target, source, work.bytes, DirectionOf(work));
  } else if (call.id == CallId::kMemsetAsync) {
    result = runtime_.cudaMemsetAsync(target, 0, work.bytes, stream);
  } else {
    result = runtime_.cudaMemset(target, 0, work.bytes);
  }
  Check(runtime_, result, CallName(call.id));
}

void Stage::IssueOther(const Call& call, Actor& actor) const {
  cudaError_t result = cudaSuccess;
  switch (call.id) {
    case CallId::kDeviceSynchronize:
      result = runtime_.cudaDeviceSynchronize();
      break;
    case CallId::kStreamSynchronize:
      result = runtime_.cudaStreamSynchronize(actor.stream);
      break;
    case CallId::kEventSynchronize:
      result = runtime_.cudaEventSynchronize(actor.event);
      break;
    case CallId::kEventRecord:
      result = runtime_.cudaEventRecord(actor.event, actor.stream);
      break;
    case CallId::kEventQuery:
      result = runtime_.cudaEventQuery(actor.event);
      break;
    case CallId::kStreamQuery:
      result = runtime_.cudaStreamQuery(actor.stream);
      break;
    case CallId::kStreamWaitEvent:
      result = runtime_.cudaStreamWaitEvent(actor.stream, actor.event, 0);
      break;
    default:
      break;
  }
  if (result != cudaErrorNotReady) Check(runtime_, result, CallName(call.id));
}

}  // namespace stepagent::replay
