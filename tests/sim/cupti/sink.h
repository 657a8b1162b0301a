// The insides of the activity buffers, shared by the callers' side (buffers.cc) and the worker.
//
// Threads: a sink is used under its own mutex; callbacks run under it, as in the real library.
// Failure: as buffers.h says.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "cupti/buffers.h"

namespace stepagent::sim {

struct Unfinished {
  uint32_t offset;
  uint32_t end_offset;
  int64_t complete_at_ns;
};

struct ActivityBuffer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t used = 0;
  size_t record_limit = 0;
  size_t records = 0;
  int64_t complete_at_ns = 0;
  std::vector<Unfinished> unfinished;
};

// A place where records go: one per thread, or one for all.
struct Sink {
  std::mutex mutex;
  std::unique_ptr<ActivityBuffer> current;
  std::deque<std::unique_ptr<ActivityBuffer>> full;
  bool is_free = false;  // its thread has gone
};

struct SinkList {
  std::mutex mutex;
  std::vector<Sink*> sinks;  // never freed
  Sink shared;
};
SinkList& Sinks();

template <class F>
void ForEachSink(F&& f) {
  std::vector<Sink*> sinks;
  {
    const std::lock_guard lock(Sinks().mutex);
    sinks = Sinks().sinks;
  }
  sinks.push_back(&Sinks().shared);
  for (Sink* sink : sinks) {
    const std::lock_guard lock(sink->mutex);
    f(*sink);
  }
}

// The caller holds the sink's mutex.
void AppendLocked(Sink& sink, const EncodedRecord& record);
void ReturnFullLocked(Sink& sink, int64_t now);

// How device records reach the buffers, beyond the personality.
struct Delivery {
  int64_t late_ns;
  bool is_shuffled;
};
const Delivery& TheDelivery();

// Hands a record to the worker.
void GiveToWorker(const EncodedRecord& record);
// Lets the worker look at the full buffers again.
void PokeWorker();
// Writes what the worker holds and is due, on the calling thread; everything when forced.
void DrainWorker(bool is_forced);

}  // namespace stepagent::sim
