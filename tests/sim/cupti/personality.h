// One simulated generation of CUPTI: its record sizes, numbers, codes and manners, as data.
//
// Each library is the same code linked with a one-line generated source that names its
// personality. Threads: the table never changes. Failure: an unknown name ends the program.
#pragma once

#include <cstdint>

namespace stepagent::sim {

constexpr int kMaxKind = 64;

struct Personality {
  const char* name;
  uint32_t api_version;
  // What every call answers when the driver is unusable: 15 before CUPTI 13, then 999.
  int unusable_code;
  // What the iterator answers on a kind it does not know: 999 on 11.x, then 21.
  int unknown_kind_code;
  // 13: one activity buffer per thread, callbacks run concurrently. Before: one buffer, all
  // callbacks under one lock, device records written by the worker.
  bool per_thread_buffers;
  // Below API version 27 a refused buffer ends in a segmentation fault.
  bool null_buffer_crashes;
  // Before 13 the last error of a refused call can be asked for.
  bool remembers_errors;
  // cuptiFinalize crashes while graphs exist (believed fixed in 12.6).
  bool finalize_crashes_with_graphs;
  // Kernels of a graph that was instantiated before CUPTI came are not recorded one by one
  // (vendor's notes: before 12.0 update 1); later ones lack a detail.
  bool misses_early_graphs;
  // Kernels in the body of a conditional node are recorded (vendor's notes: 12.6 update 2 on).
  bool sees_bodies;
  // cuptiActivityEnable refuses these with INVALID_KIND.
  uint64_t refused_kinds;
  int driver_name_count;  // callback ids from this number on have no name
  int runtime_name_count;
  // Bytes of the records this generation writes; 0: it does not know the kind.
  uint16_t record_bytes[kMaxKind];
};

// Named by the generated source of each library.
extern const char* const kPersonalityName;

const Personality& ThePersonality();
[[nodiscard]] const Personality* FindPersonality(const char* name);

// Bytes of a record of that kind, or 0.
[[nodiscard]] inline uint16_t RecordBytes(uint32_t kind) {
  return kind < kMaxKind ? ThePersonality().record_bytes[kind] : 0;
}

}  // namespace stepagent::sim
