// What a running session is at, for those who watch, and how much memory it may hold.
#include <malloc.h>

#include "collector/ingest/pipeline.h"

namespace stepagent::ingest {

void SessionPipeline::TellFigures(const v1::Batch& batch) {
  const model::CycleBuilder::Progress progress = builder_->progress();
  const auto state = progress.is_cycle_open ? Live::State::kActive
                     : progress.is_warming  ? Live::State::kWarmup
                                            : Live::State::kWait;
  live_state_.store(state, std::memory_order_relaxed);
  live_step_.store(progress.step, std::memory_order_relaxed);
  if (batch.has_losses()) TellLosses(batch.losses());
  if (!hooks_.on_report) return;
  for (const v1::CycleReport& report : batch.cycle_reports()) hooks_.on_report(report);
}

void SessionPipeline::TellLosses(const v1::LossReport& report) {
  const LossCounts more = losses_.Raise(report);
  if (hooks_.on_losses) hooks_.on_losses(more);
}

SessionPipeline::Live SessionPipeline::live() const {
  Live live;
  live.state = live_state_.load(std::memory_order_relaxed);
  live.step = live_step_.load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  live.raw_bytes = state_.raw_bytes;
  live.rank = state_.session.rank;
  return live;
}

// Before this session's memory is too much with that of the others.
void SessionPipeline::KeepWithinMemory() {
  if (hooks_.memory == nullptr) return;
  const model::CycleBuilder::Progress progress = builder_->progress();
  const uint64_t open = progress.bytes_held + progress.records_held * MemoryBudget::kBytesPerRecord;
  if (!hooks_.memory->IsTooMuch(this, open)) return;
  builder_->LetGo();
  static_cast<void>(hooks_.memory->IsTooMuch(this, 0));
  malloc_trim(0);  // what came in pieces would else stay with the allocator
}

void SessionPipeline::AddPending(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  pending_bytes_ += static_cast<uint64_t>(bytes);
  if (hooks_.memory != nullptr) hooks_.memory->SetClosed(this, pending_bytes_);
}

// Cycles of which only the raw file has the records. Whoever waits for them is told.
void SessionPipeline::TellLetGo() {
  const std::vector<uint32_t> cycles = builder_->TakeLetGo();
  for (const uint32_t index : cycles) {
    if (IsWritten(Place(), index)) continue;  // an earlier collector did
    const std::string why = "more records than the collector's memory limit (" +
                            hooks_.memory->Text() +
                            ", STEPAGENT_COLLECTOR_MEMORY) has room for; none is lost: `stepagent "
                            "convert " +
                            session_dir() +
                            "/raw.steps` writes them now, `stepagent report` when the process has "
                            "ended";
    {
      const std::lock_guard lock(mutex_);
      spool::CycleEntry& entry = EntryOf(index);
      entry.state = "deferred";
      entry.error = why;
    }
    Problem("cycle " + std::to_string(index) + ": " + why);
    v1::Written written;
    written.set_cycle(index);
    written.set_error(why);
    if (hooks_.on_written) hooks_.on_written(written);
  }
  if (!cycles.empty()) SaveState();
}

}  // namespace stepagent::ingest
