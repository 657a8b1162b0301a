#pragma once
// Turns a session's raw batches into canonical cycles.
//
// Purpose: correlation (device work to its call), step attribution, window cuts, device clock
// mapping and the balance, in one place. Used live by the collector and later by `report`/`convert`
// on a raw file: the same bytes give the same cycles.
// Thread rule: one builder belongs to one thread.
// Failure rule: unknown ids become placeholders, impossible stamps are flagged, nothing throws for
// bad content; the counts say what was wrong.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::v1 {
class Batch;
class Goodbye;
class Hello;
class TargetEnded;
}  // namespace stepagent::v1

namespace stepagent::model {

struct BatchHead;

class CycleBuilder {
 public:
  explicit CycleBuilder(const v1::Hello& hello);
  ~CycleBuilder();
  CycleBuilder(const CycleBuilder&) = delete;
  CycleBuilder& operator=(const CycleBuilder&) = delete;

  // The session said Hello again: settings of cycles that are built from here on.
  void Update(const v1::Hello& hello);
  // A batch as it came, and its head (ReadBatchHead). Its records are decoded when somebody needs
  // them: a cycle's end, mostly.
  void Add(const BatchHead& head, std::string payload);
  void Add(const v1::Batch& batch);  // the same
  void Add(const v1::Goodbye& goodbye);
  // How the process ended, as its launcher saw: the reason of cycles without a goodbye.
  void Add(const v1::TargetEnded& ended);

  // Cycles that will receive nothing more (CLOSED seen), oldest first. Each is given once.
  [[nodiscard]] std::vector<Cycle> TakeClosed();
  // At end of input: every cycle with an active step that was not closed, as far as it came.
  // `ended` is "killed" when no Goodbye was seen, else what it says.
  [[nodiscard]] std::vector<Cycle> TakeRemaining();

  // Of cycles that were given: the steps behind them, once the next cycle's report, a goodbye or the
  // end of input told of them. The newest word on a cycle counts.
  [[nodiscard]] std::vector<LaterSteps> TakeLaterSteps();

  // Memory is short: what is held of the cycles that are open is dropped, and nothing more is kept
  // of them. The raw file has it all; a builder that reads that without haste makes them whole.
  void LetGo();
  // Such cycles that are over, by index. Each is given once.
  [[nodiscard]] std::vector<uint32_t> TakeLetGo();

  // Live figures for progress, limits and status.
  struct Progress {
    uint64_t records = 0;
    uint64_t cycles_begun = 0;
    uint64_t records_held = 0;                     // not yet taken; a range's begin and end are one
    uint64_t texts_held = 0, text_bytes_held = 0;  // texts and stacks, each once
    uint64_t launch_bytes_held = 0;                 // of calls whose device work may still come
    uint64_t bytes_held = 0;                       // memory of records not yet taken
    bool is_cycle_open = false;  // an active step began whose cycle was not taken yet
    bool is_warming = false;     // collecting, before a first active step
    uint64_t step = 0;           // the last one seen, by the process's count
    int32_t device = -1;         // lowest device ordinal the session used, -1 none yet
  };
  [[nodiscard]] Progress progress() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepagent::model
