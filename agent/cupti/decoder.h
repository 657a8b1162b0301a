#pragma once
// Decoder: a completed buffer into ActivitySink calls.
//
// Purpose: walk the records with the library's own iterator (we never compute a stride), one
// handler per kind, each field read at its offset and only if the record is long enough to have it.
// Thread rule: the thread `stepagent`. Failure rule: whatever the bytes are, nothing outside the
// buffer is read but the names that records point to; what makes no sense is counted.
#include <cstddef>
#include <cstdint>

#include "agent/core/activity.h"
#include "agent/cupti/api_table.h"
#include "agent/cupti/driver.h"
#include "agent/cupti/kinds.h"
#include "agent/cupti/layouts.h"
#include "agent/cupti/name_cache.h"
#include "agent/cupti/record_view.h"

namespace stepagent::cupti {

struct DecodeCounts {
  uint64_t decoded = 0;
  uint64_t invalid = 0;      // of a kind of ours, undecodable; or the rest of a buffer given up
  uint64_t other_kinds = 0;  // kinds that somebody else switched on
  uint64_t other_by_kind[kKindLimit + 1] = {};  // the same by kind; the last one: all beyond
  uint64_t no_timing = 0;                       // decoded, flagged: stamps that cannot be placed
  uint64_t odd_lengths = 0;  // records that were longer or shorter than measured at the start
};

class Decoder {
 public:
  // Both must outlive the decoder's use. `driver` may be null: then devices are told as recorded.
  void Use(const ApiTable* api, const Layouts* layouts, const Driver* driver);
  // A new collection begins: pointers seen before may mean something else now.
  void ForgetNames();
  // CUPTI has ended and freed its names: from here on they are not looked at, until ForgetNames.
  void LoseNames() { are_names_lost_ = true; }
  void ForgetCounts() { counts_ = DecodeCounts(); }
  // CUPTI's clock now, against which stamps are judged; 0 unknown.
  void SetNow(uint64_t cupti_now_ns) { now_ns_ = cupti_now_ns; }

  // `data` is 8-aligned. Returns records given to the sink.
  uint64_t DecodeBuffer(uint8_t* data, size_t valid_bytes, core::ActivitySink* sink);
  [[nodiscard]] const DecodeCounts& counts() const { return counts_; }

 private:
  using Handler = bool (Decoder::*)(const RecordView&, core::ActivitySink*);
  struct Route {
    Handler handler = nullptr;
    uint32_t activity = kActivityNone;
  };
  static const Route& RouteFor(uint32_t kind);

  // Like the handlers below: true when the record was given to the sink.
  bool DecodeRecord(uint32_t kind, const RecordView& record, core::ActivitySink* sink);
  bool OnKernel(const RecordView& record, core::ActivitySink* sink);
  bool OnMemcpy(const RecordView& record, core::ActivitySink* sink);
  bool OnMemcpyPeer(const RecordView& record, core::ActivitySink* sink);
  bool OnMemset(const RecordView& record, core::ActivitySink* sink);
  bool OnSync(const RecordView& record, core::ActivitySink* sink);
  bool OnOverhead(const RecordView& record, core::ActivitySink* sink);
  bool OnGraphTrace(const RecordView& record, core::ActivitySink* sink);
  bool OnMemory(const RecordView& record, core::ActivitySink* sink);
  bool OnDevice(const RecordView& record, core::ActivitySink* sink);
  bool OnContext(const RecordView& record, core::ActivitySink* sink);
  bool OnStream(const RecordView& record, core::ActivitySink* sink);

  // Stamps further than this from CUPTI's clock, and work longer than this, are not believed: such
  // records carry another clock (re-registered timestamp callbacks: off by 10^14 ns) or garbage.
  // Half a day is more than any step of the wall clock that an administrator makes by hand.
  static constexpr uint64_t kBelievableNs = uint64_t{12} * 3600 * 1'000'000'000;

  // DeviceFlag bits for a pair of stamps.
  uint8_t TimingFlags(uint64_t start_ns, uint64_t end_ns) {
    // Work that is over, ended in order and is not long past: nothing to say of it.
    if (start_ns != 0 && end_ns >= start_ns && now_ns_ - start_ns <= kBelievableNs &&
        end_ns - start_ns <= kBelievableNs) [[likely]] {
      return 0;
    }
    return OddTimingFlags(start_ns, end_ns);
  }
  uint8_t OddTimingFlags(uint64_t start_ns, uint64_t end_ns);
  bool Reject(uint32_t activity, core::ActivitySink* sink);  // false

  const ApiTable* api_ = nullptr;
  const Layouts* layouts_ = nullptr;
  const Driver* driver_ = nullptr;
  uint64_t now_ns_ = 0;
  DecodeCounts counts_;
  NameCache names_;
  bool are_names_lost_ = false;
};

}  // namespace stepagent::cupti
