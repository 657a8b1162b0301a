// Activity buffers: records go in, whole buffers come back.
//
// A record of unfinished work is written when the work is submitted and knows when it will be
// complete. A plain flush returns the buffers in which everything is complete; a forced flush
// returns all of them, unfinished records with end == 0, and those do not come again. With
// per-thread buffers each thread has a sink of its own and callbacks run concurrently; otherwise
// there is one sink, one lock, and the worker writes the device's records. Callbacks always run
// under the sink's lock, as in the real library: calling CUPTI from them ends the program.
//
// Threads: any. Failure: a record that finds no room is dropped and counted.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace stepagent::sim {

constexpr size_t kMaxRecordBytes = 256;

// One finished encoding, on the writer's stack.
struct EncodedRecord {
  alignas(8) uint8_t bytes[kMaxRecordBytes];
  uint32_t size = 0;
  uint32_t kind = 0;
  bool is_device_work = false;
  int64_t complete_at_ns = 0;  // engine time; kNever: never
  uint32_t end_offset = 0;     // of the field that a forced flush zeroes; 0: none
};

void RegisterBufferCallbacks(CUpti_BuffersCallbackRequestFunc request,
                             CUpti_BuffersCallbackCompleteFunc complete);
[[nodiscard]] bool HasBufferCallbacks();
void ForgetBufferCallbacks();

// Writes a record now, or hands it to the worker where the personality or a script says so.
void WriteRecord(const EncodedRecord& record);

void FlushBuffers(bool is_forced);

// Per thread (13's default) or not; takes effect for records written afterwards.
void SetPerThreadBuffers(bool on);
[[nodiscard]] bool HasPerThreadBuffers();

// Records dropped since the last call.
[[nodiscard]] uint64_t TakeDroppedCount();

// Starts the worker if it is not running yet; it blocks all signals and sleeps while nothing is
// due.
void StartWorker();

}  // namespace stepagent::sim
