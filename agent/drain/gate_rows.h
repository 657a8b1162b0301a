#pragma once
// GateRows: gate events as Steps rows and CycleEvents of the batch at hand.
//
// Purpose: a step begun in one batch and ended in a later one is given twice, whole both times,
// because any one batch may be lost.
// Thread rule: belongs to one builder.
// Failure rule: an end whose begin was dropped (the gate counts those) gives no row; it cannot be
// placed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/step_gate.h"
#include "agent/drain/columns.h"

namespace stepagent::drain {

class GateRows {
 public:
  void Add(const core::GateEvent& event);
  // `kind`: batch.proto CycleEvent.Kind.
  void AddCycleEvent(uint32_t cycle, uint32_t kind, int64_t host_ns, std::string_view ended,
                     std::string_view reason);

  [[nodiscard]] bool empty() const { return steps_.empty() && events_.empty(); }
  [[nodiscard]] size_t bytes() const { return steps_.size() * 32 + events_.size() * 32; }
  // Threads that began steps; WriteSteps asks `index_of(tid)` for their Threads.index.
  template <typename F>
  void EachThread(F&& visit) const {
    for (const Step& step : steps_) visit(step.tid);
  }
  template <typename F>
  void WriteSteps(BatchWriter* batch, F&& index_of) {
    for (Step& step : steps_) step.thread = index_of(step.tid);
    WriteStepColumns(batch);
  }
  void WriteCycleEvents(BatchWriter* batch) const;
  void Clear();

 private:
  struct Step {
    uint64_t index, process_index;
    int64_t begin_ns, end_ns;
    uint32_t phase, cycle, flags, tid, thread;
  };
  struct Event {
    uint32_t cycle, kind;
    int64_t host_ns;
    std::string ended, reason;
  };
  static constexpr size_t kNotHere = SIZE_MAX;

  void BeginStep(const core::GateEvent& event, int64_t at_ns);
  void EndStep(const core::GateEvent& event, int64_t at_ns);
  void WriteStepColumns(BatchWriter* batch) const;

  std::vector<Step> steps_;
  std::vector<Event> events_;
  Step open_{};
  bool is_open_ = false;
  size_t open_row_ = kNotHere;  // its row in this batch
};

}  // namespace stepagent::drain
