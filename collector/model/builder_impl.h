#pragma once
// CycleBuilder's inside, split over builder.cc (cycles out), builder_intake.cc (batches in) and
// builder_steps.cc (step times).
//
// Thread rule and failure rule: builder.h.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "batch.pb.h"
#include "session.pb.h"

#include "collector/model/batch_decoder.h"
#include "collector/model/batch_head.h"
#include "collector/model/builder.h"
#include "collector/model/cycle_assembly.h"
#include "collector/model/decode_columns.h"
#include "collector/model/sequence_tracker.h"
#include "collector/model/session_info.h"
#include "collector/model/step_rows.h"

namespace stepagent::model {

struct Verdict;

// 16 bytes each; a device lagging more than four million launches behind is counted as unjoined.
inline constexpr size_t kMostGoneLaunches = 1 << 22;

struct CycleBuilder::Impl {
  explicit Impl(const v1::Hello& hello)
      : clock(ClampTime(hello.clock().base_unix_ns())), ranges(&records.ranges) {
    Greet(hello);
  }

  void Greet(const v1::Hello& hello);
  void Hold(const BatchHead& head, std::string payload);
  void CountTexts(const v1::Batch& batch);
  void ForgetTexts();
  // Decodes what waits in `held`.
  void DecodeHeld();
  void Events(const v1::Batch& batch);
  void Steps(const v1::Steps& steps);
  // `order`: the batch's sequence; an older report that comes late changes nothing.
  void Losses(const v1::LossReport& losses, uint64_t order);
  void Surroundings(const v1::Batch& batch);
  void LetWarmupGo();
  void LeaveOutOtherFolders(uint64_t batches);
  LossTotals CurrentLosses() const;
  void NoteGap(uint64_t expected, const v1::Batch& batch);
  void FillLostSpans(Verdict* verdict) const;
  std::optional<TimeNs> LaterFrom(uint32_t cycle) const;
  Cycle Build(const PendingCycle& p, std::string ended, bool has_agents_word);
  void NoteKilled(Cycle* cycle) const;
  void TakeSteps(const PendingCycle& p, bool has_agents_word, Cycle* cycle);
  void TellLaterSteps(std::optional<uint32_t> next, std::string why_none);
  void TellLaterStepsAtEnd();
  void Leave(uint32_t cycle);
  void Finish(Cycle* cycle, const PendingCycle& p, const CycleAssembly& assembly);
  void Discard(std::optional<TimeNs> later_from);
  void Release(std::optional<TimeNs> later_from);
  PendingCycle& At(uint32_t cycle) {
    const auto [it, is_new] = pending.try_emplace(cycle);
    it->second.index = cycle;
    if (is_new) it->second.is_let_go = is_skimming, it->second.first_byte = batch_begin;
    return it->second;
  }
  void EndLetGo(const PendingCycle& p);

  SessionInfo session;
  ClockMap clock;
  Dictionary dictionary;
  // Batches whose records nobody needed yet, in the order they came.
  std::vector<std::string> held;
  uint64_t held_bytes = 0, held_records = 0, held_calls = 0, held_kernels = 0;
  uint64_t held_range_ops = 0;
  // What the dictionary has, or will have once `held` is decoded.
  std::unordered_set<uint32_t> text_ids, stack_ids;
  uint64_t text_bytes = 0;
  uint64_t unreadable = 0;  // batches whose records were no message
  Records records;
  RangeMatcher ranges;
  std::vector<Launch> gone_launches;
  StepRowStore step_rows;
  std::map<uint32_t, PendingCycle> pending;
  std::optional<uint32_t> last_done;  // cycles up to here were taken
  std::map<int32_t, DeviceInfo> devices;
  std::map<uint32_t, uint32_t> device_of_context;
  std::set<Activity> requested;
  SequenceTracker sequences;
  // Batches that did not come, between those that did, with the times beside them.
  struct Gap {
    uint64_t first = 0, end = 0;
    LostSpan span;
  };
  std::vector<Gap> gaps;
  TimeNs newest_batch_ns = 0, before_newest_ns = 0;  // when the last two were closed
  uint64_t stream_bytes = 0, batch_begin = 0;        // of all frames; where this batch's began
  uint64_t elsewhere = 0;   // batches missing here that went to another folder
  LossTotals agent_causes;  // only the counts by cause
  Counts received{}, bad_sections{}, agent_dropped{}, agent_invalid{}, agent_sent{};
  std::array<bool, kActivityCount> unknown_drops{};
  uint64_t losses_order = 0;
  LossTotals accounted;  // losses that earlier cycles carry
  std::optional<Gpu> last_gpu;
  std::vector<StepDuration> seen_steps;
  uint64_t seen_step_count = 0;
  TimeNs last_host_ns = 0;
  bool saw_device_work = false, has_clock_samples = false;
  bool is_between_stays = true;  // nothing came since the session's start or its last goodbye
  std::map<uint32_t, uint64_t> first_steps;  // of cycles begun, warmup included: process index
  std::optional<uint32_t> given;             // the last cycle with steps that was given
  bool is_last_told = true;                  // something of what came behind it
  bool tells_later_steps = false;            // the last goodbye did
  std::vector<LaterSteps> later_steps;       // not taken yet
  std::optional<std::string> goodbye;
  std::optional<v1::TargetEnded> ended;
  uint64_t total_records = 0, cycles_begun = 0, last_step = 0;
  bool is_skimming = false;      // records are not kept until no pending cycle is one let go
  std::vector<uint32_t> let_go;  // over, and not taken yet
};

}  // namespace stepagent::model
