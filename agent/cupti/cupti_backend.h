#pragma once
// CuptiBackend: all of CUPTI, behind one object.
//
// Purpose: load the library, say why it cannot be used, arm and disarm, hand over completed
// buffers. No vendor type leaves this folder. Thread rule: every method on one thread at a time:
// the thread `stepagent`, or the thread inside InitializeInjection when the phase is already warmup
// or active (the caller serialises them). API callbacks and buffer callbacks (hot paths A and B)
// run on application threads and CUPTI's worker and touch only lock-free state. Failure rule:
// nothing here throws or ends the process; a failure is a GpuState with reason code and sentence,
// and the host side goes on. Never cuptiFinalize, never a device synchronisation, never a CUDA call
// in a forked child, never the timestamp callback.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/activity.h"
#include "agent/cupti/callback_time.h"

namespace stepagent::cupti {

struct GpuState {
  enum class Status : uint8_t { kUnavailable, kPartial, kCollected };
  Status status = Status::kUnavailable;
  std::string reason;       // a sentence for a person, with what to do
  std::string reason_code;  // batch.proto GpuStatus.reason_code
  uint32_t driver_version = 0, cupti_version = 0;
  std::string cupti_path, cupti_choice, graph_level, holder;
  bool newer_cupti = false;
  struct Note {
    std::string code, text;
  };
  std::vector<Note> notes;  // what a reader must know (manifest `notes`)
};
struct KindState {
  uint32_t activity = 0;  // batch.proto Activity
  bool requested = false, enabled = false;
  std::string error;
};
struct ArmRequest {
  uint32_t activities = 0;  // ActivityBit set
  bool graph_nodes = false;
  bool native_stacks = false;  // only with SetStackSource
  // The caller is inside InitializeInjection, that is inside the application's first cuInit:
  // nothing of the driver may be initialised to learn a reason; Diagnose() completes it later.
  bool inside_injection = false;
  // Armed already, and a window before adjoins: calls in progress keep their records.
  bool calls_are_on = false;
};
struct KindCount {
  uint32_t kind = 0;  // CUPTI's number
  uint64_t count = 0;
};
struct BackendCounters {
  CallbackTime callbacks;  // API callbacks handled
  uint64_t foreign_buffers = 0;
  uint64_t refused_buffers = 0;  // discard buffers handed out
  uint64_t buffers_outstanding = 0;
  uint64_t buffer_bytes = 0;     // memory held by the pool
  uint64_t cupti_dropped = 0;    // sum of cuptiActivityGetNumDroppedRecords
  bool dropped_unknown = false;  // it could not be read
  uint64_t records_decoded = 0;
  uint64_t records_invalid = 0;      // told to the sink as OnInvalid
  uint64_t records_other_kinds = 0;  // of kinds that somebody else switched on: left alone
  uint64_t records_no_timing = 0;    // decoded and flagged
  uint64_t records_odd_length = 0;   // not as long as measured at the start
  uint64_t calls_without_cell = 0;   // API calls of more threads than we can follow
  // Records in discard buffers (pool over its cap), by batch.proto Activity: a loss by our
  // decision.
  uint64_t pool_dropped[9] = {};
  uint64_t pool_uncounted = 0;  // discard buffers whose content could not be counted
};

class CuptiBackend {
 public:
  // Called once CUDA came up (first cuInit, inside InitializeInjection) or when a cycle starts with
  // libcuda mapped: notes that CUDA is present and which libcuda. Touches no CUPTI.
  virtual void NoteCuda() = 0;
  // True when libcuda is mapped in this process (RTLD_NOLOAD); no side effect.
  [[nodiscard]] virtual bool CudaIsMapped() const = 0;
  // True in a forked child until NoteCuda: what the parent had up is not to be called here, and no
  // call of the driver's may be made to ask.
  [[nodiscard]] virtual bool MustNoteCuda() const = 0;

  // Subscribes if need be, registers buffer callbacks anew, enables kinds and callbacks. Returns
  // when collection is on or refused; state() tells. Time: tens of ms. Armed already, as an older
  // cycle's tail keeps it: buffers, kinds and callbacks are asked for again.
  virtual void Arm(const ArmRequest& request) = 0;
  [[nodiscard]] virtual bool IsArmed() const = 0;
  // The last Arm was refused inside InitializeInjection because CUPTI found no driver that is up:
  // what that means shows once the application's cuInit is through.
  [[nodiscard]] virtual bool CameTooEarly() const = 0;
  // Window end with no other window adjoining: API callbacks off, device kinds stay. A call that is
  // in progress then loses its record: poll CallsInFlight first, within the grace time.
  virtual void DisableCallbacks() = 0;
  // Calls that began while recording was on (kBitCalls) and have not returned.
  [[nodiscard]] virtual uint32_t CallsInFlight() const = 0;
  virtual void EnableCallbacks() = 0;
  virtual void FlushPlain() = 0;
  // CUPTI ended while armed (finalised by another client, or by itself): nothing more will come.
  // state() and kinds() say so until the next Arm, which starts anew. NoteLoss asks CUPTI and is
  // part of whatever else asks something of it; IsLost gives the last answer.
  [[nodiscard]] virtual bool IsLost() const = 0;
  virtual bool NoteLoss() = 0;
  // Fetches every record that there is. Work that runs meanwhile comes without its end and is not
  // delivered again.
  virtual void FlushForced() = 0;
  // Kinds off, then one forced flush; every buffer that comes back is decoded before this returns
  // control to the caller's next TakeBuffers.
  virtual void Disarm() = 0;
  // Unsubscribe (after Disarm, all buffers decoded).
  virtual void Release() = 0;
  [[nodiscard]] virtual bool IsSubscribed() const = 0;

  // Decodes every completed buffer into `sink`; returns records decoded.
  virtual uint64_t Decode(core::ActivitySink* sink) = 0;
  // Asks once more for device, context and stream records that exist already (EnableAndDump where
  // available). Arm has done so.
  virtual void DumpExisting() = 0;
  // Completes state() when the reason could not be told inside InitializeInjection. Not from there.
  virtual void Diagnose() = 0;
  // CUPTI's clock now (CLOCK_REALTIME base; under WSL another): the other half of a clock sample.
  // 0 when no library is loaded.
  [[nodiscard]] virtual uint64_t DeviceClockNs() const = 0;
  // Ordinals of devices whose primary context is up, asked of the driver, which may wait for its
  // locks: not while recording. Empty before CUDA is noted.
  [[nodiscard]] virtual std::vector<uint32_t> ActivePrimaries() = 0;
  // Called at each launch while native_stacks is on; gives the id of the caller's stack. Hot path
  // A.
  virtual void SetStackSource(uint32_t (*source)() noexcept) = 0;

  [[nodiscard]] virtual GpuState state() const = 0;
  [[nodiscard]] virtual std::vector<KindState> kinds() const = 0;
  [[nodiscard]] virtual BackendCounters counters() = 0;
  // Records of kinds nobody here asked for, by CUPTI's kind, kinds without one left out: running
  // totals. The last entry may be of all kinds beyond those known, under kBeyondKinds.
  static constexpr uint32_t kBeyondKinds = 64;
  [[nodiscard]] virtual std::vector<KindCount> other_kinds() const = 0;
  // In a forked child before it revives: all state is the parent's; start over, free nothing.
  virtual void ForgetAll() = 0;

 protected:
  ~CuptiBackend() = default;
};

// The process's backend; leaked on purpose (callbacks may outlive main).
[[nodiscard]] CuptiBackend& Backend();

}  // namespace stepagent::cupti
