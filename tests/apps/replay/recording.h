// A recorded workload in memory: calls with the device work they caused, and annotations.
//
// Memory: about 100 bytes a call; names and launch shapes are stored once. A recording of more
// than `max_calls` is refused.
//
// Thread rule: built by one thread, constant afterwards.
// Failure rule: std::runtime_error for a file that cannot be replayed; what is left out is counted
// by name.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stepagent::replay {

inline constexpr uint32_t kNone = UINT32_MAX;

enum class CallId : uint8_t {
  kLaunchKernel,
  kLaunchKernelExC,
  kLaunchCooperativeKernel,
  kDriverLaunchKernel,
  kDriverLaunchKernelEx,
  kGraphLaunch,
  kDriverGraphLaunch,
  kMemcpyAsync,
  kMemcpy,
  kMemsetAsync,
  kMemset,
  kDeviceSynchronize,
  kStreamSynchronize,
  kEventSynchronize,
  kEventRecord,
  kEventQuery,
  kStreamWaitEvent,
  kStreamQuery,
  kCount
};

// The name of the call in a recording, and in the runtime.
const char* CallName(CallId call);
bool IsLaunch(CallId call);  // of a kernel or a graph
bool IsGraphLaunch(CallId call);
bool IsCopy(CallId call);
bool IsSet(CallId call);
bool Waits(CallId call);

enum class Memory : uint8_t { kPageable, kPinned, kDevice, kManaged, kCount };

struct Shape {
  std::array<uint32_t, 3> grid, block;
  uint32_t shared_bytes;
  auto operator<=>(const Shape&) const = default;
};

struct DeviceWork {
  uint64_t duration_ns = 0;
  uint64_t bytes = 0;     // copies and sets
  uint32_t name = kNone;  // kernels: index into Recording::names
  uint32_t shape = kNone;
  uint32_t stream = 0;    // index into Recording::streams
  uint32_t next = kNone;  // further work of the same graph launch
  bool is_set = false;
  Memory source = Memory::kDevice, target = Memory::kDevice;
};

struct Call {
  int64_t begin_ns = 0;
  uint32_t thread = 0;
  uint32_t work = kNone;  // index into Recording::work
  CallId id = CallId::kCount;
};

struct Annotation {
  int64_t begin_ns, end_ns;
  uint32_t thread;
  uint32_t name;
};

struct StreamKey {
  int64_t device, stream;
  auto operator<=>(const StreamKey&) const = default;
};

struct Recording {
  std::vector<Call> calls;
  std::vector<DeviceWork> work;
  std::vector<Annotation> annotations;
  std::vector<std::string> names;
  std::vector<Shape> shapes;
  std::vector<StreamKey> streams;            // ascending
  std::vector<int64_t> threads;              // recorded thread ids; the main thread first
  std::map<std::string, uint64_t> left_out;  // reason or call name, count
};

Recording LoadRecording(const std::string& path, uint64_t max_calls);

}  // namespace stepagent::replay
