#pragma once
// Record: what an application thread appends, 48 bytes, raw ticks.
//
// Purpose: the fixed-size in-memory item of the per-thread rings. The wire message is another type;
// drain/batch_builder.cc is the one place that translates.
// Thread rule: written by the thread that owns the ring, read by the drainer.
// Failure rule: plain data.
#include <cstdint>

namespace stepagent::core {

enum class RecordKind : uint8_t {
  kNone = 0,
  kCall = 1,        // one API call: enter and exit in one record
  kRangePush = 2,
  kRangePop = 3,
  kRangeStart = 4,
  kRangeEnd = 5,
  kMark = 6,
};

// The same numbers as batch.proto's CallClass.
enum class CallClass : uint8_t {
  kOther = 0, kLaunch = 1, kGraphLaunch = 2, kMemcpy = 3, kMemset = 4, kSync = 5, kAlloc = 6
};
inline constexpr uint8_t kCallFailed = 1;    // batch.proto CallFlag
inline constexpr uint8_t kCallCaptured = 2;
inline constexpr uint8_t kCallEmpty = 4;  // a copy or set of nothing

struct Record {
  uint64_t begin_ticks;   // call: enter; range and mark: the moment
  union {
    uint64_t end_ticks;   // call: exit
    uint64_t range_id;    // start/end: process-wide id; push/pop: depth before/after
  };
  uint32_t name;          // NameId: API function, range text, mark text
  uint32_t domain;        // range and mark: NameId of the domain's name; call: 1 driver, 2 runtime
  uint32_t correlation;   // call
  uint32_t category;      // range and mark
  uint32_t color;         // range and mark: ARGB, 0 none
  int32_t return_value;   // call
  uint32_t stack;         // call: stack id, 0 none
  uint16_t cbid;          // call
  RecordKind kind;
  union {
    CallClass call_class;
    uint8_t pad;
  };
  // Flags share the padding of the last word on purpose: 48 bytes, three per two cache lines.
};
static_assert(sizeof(Record) == 48);
// A call's flags travel in `category` (unused by calls).

}  // namespace stepagent::core
