// The simulated device: objects behind the driver's handles, and the placing of work on streams.
//
// Work runs without threads: when it is submitted its start and end on the device clock are
// computed (start = when the stream, the legacy-stream rules and the latency allow; end = start +
// duration), and whoever waits sleeps until then. Threads: EngineLock() guards everything here
// except fields that never change after creation; no callback runs under it. Failure: handles
// that are not ours answer CUDA_ERROR_INVALID_HANDLE or INVALID_CONTEXT.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "tool_interface.h"

namespace stepagent::sim {

struct Context;
struct Graph;
struct GraphNode;

constexpr uint32_t kContextMagic = 0x43545831;
constexpr uint32_t kStreamMagic = 0x53545231;
constexpr uint32_t kEventMagic = 0x45565431;
constexpr uint32_t kFunctionMagic = 0x464e4331;

struct Device {
  int ordinal = 0;
  std::string name;
  CUuuid uuid{};
  size_t total_bytes = 0;
  size_t used_bytes = 0;
  Context* primary = nullptr;
  int primary_refs = 0;
  unsigned primary_flags = 0;
};

// A capture in progress, shared by all streams that joined it.
struct Capture {
  uint64_t id = 0;
  Graph* graph = nullptr;
  CUstream origin = nullptr;
  bool is_invalid = false;
};

struct Stream {
  uint32_t magic = kStreamMagic;
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  bool is_legacy = false;
  int64_t ready_ns = 0;
  std::deque<int64_t> in_flight;  // ends of submitted work; finished ones leave lazily
  Capture* capture = nullptr;
  std::vector<GraphNode*> capture_front;
};

struct Event {
  uint32_t magic = kEventMagic;
  Context* context = nullptr;
  uint32_t id = 0;
  unsigned flags = 0;
  bool is_recorded = false;
  int64_t at_ns = 0;
  Capture* capture = nullptr;
  std::vector<GraphNode*> capture_front;
};

struct Context {
  uint32_t magic = kContextMagic;
  uint32_t uid = 0;
  Device* device = nullptr;
  unsigned flags = 0;
  Stream legacy;
  std::set<Stream*> streams;  // all but the legacy one
  int64_t blocking_ready_ns = 0;
  int64_t all_ready_ns = 0;
  uint32_t next_stream_id = 0;
};

struct Function {
  uint32_t magic = kFunctionMagic;
  const char* name = nullptr;  // interned, lives for ever
  int64_t duration_ns = 0;
  struct Module* module = nullptr;
};

std::mutex& EngineLock();

// Devices; the list is fixed by the settings.
std::vector<Device>& Devices();
Device* DeviceAt(CUdevice device);

// Contexts. Creation and destruction announce themselves to tools.
Context* NewContext(Device* device, unsigned flags);
void DestroyContext(Context* context);
Context* CurrentContext();
std::vector<Context*>& ContextStack();
Context* ToContext(CUcontext handle);
std::vector<ContextInfo> AllContexts();
ContextInfo Describe(const Context& context);

// Streams. `per_thread` says what handle 0 means for this entry point.
CUresult ResolveStream(CUstream handle, bool per_thread, Stream** stream);
CUresult NewStream(unsigned flags, int priority, CUstream* handle);
CUresult DestroyStream(CUstream handle);
std::vector<StreamInfo> AllStreams();
CUresult StreamIdOf(CUcontext context, CUstream handle, bool per_thread, uint32_t* id);

// What an operation does to memory, besides taking time. It is applied when it is submitted (or,
// captured, at each graph launch): finished streams always show it, unfinished ones may early.
struct Effect {
  enum class Kind { kNone, kCopy, kCopyRows, kSet8, kSet16, kSet32, kHostCall };
  Kind kind = Kind::kNone;
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;  // of one row, or elements of a set
  size_t rows = 1;
  size_t target_pitch = 0;
  size_t source_pitch = 0;
  uint32_t value = 0;
  CUhostFn call = nullptr;
  void* call_data = nullptr;
};
void Apply(const Effect& effect, int64_t due_ns);

struct Placement {
  int64_t start_ns;
  int64_t end_ns;
};

// Places work on a stream; the caller holds EngineLock().
Placement PlaceLocked(Stream& stream, int64_t now, int64_t duration_ns);
// When everything submitted so far that this stream must wait for has ended.
int64_t ReadyLocked(const Stream& stream);
// Keeps the context's summaries after `stream.ready_ns` was raised.
void NoteReadyLocked(Stream& stream);

void SetSerialized(bool on);

// The duration the calling thread asked for its next operation, else `fallback`. Takes it.
[[nodiscard]] int64_t TakeDuration(int64_t fallback);
void SetNextDuration(uint64_t duration_ns);

// Submits one operation: places it, or adds it as a node to a capture. Fills the ids, the times
// and announces it to tools. On success `end_ns` says when it ends (0 when captured). Waits while
// the stream's queue is full, as a real launch does.
CUresult SubmitOp(Stream& stream, DeviceOp op, int64_t duration_ns, const Effect& effect,
                  int64_t* end_ns);

[[nodiscard]] uint64_t PendingOps();

// A copy of `text` that lives as long as the process; equal texts share it.
const char* Intern(const char* text);

template <class T, class H>
T* HandleCast(H handle, uint32_t magic) {
  auto* object = reinterpret_cast<T*>(handle);
  return object != nullptr && object->magic == magic ? object : nullptr;
}

}  // namespace stepagent::sim
